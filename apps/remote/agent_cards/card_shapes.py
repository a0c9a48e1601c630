"""The shapes in which agents publish cards, brought into the shape of A2A 1.0: addresses, skills and security.

Nothing is checked here: `card_schema` reads what comes out, field by field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any
from urllib.parse import urljoin, urlsplit

from apps.remote.agent_cards.card_schema import Notes

JSON = dict[str, Any]

JSONRPC, HTTP_JSON = "JSONRPC", "HTTP+JSON"
SUPPORTED_BINDINGS = (JSONRPC, HTTP_JSON)
SUPPORTED_VERSIONS = ("1.0", "0.3")
VERSION_PATTERN = re.compile(r"(\d{1,4}\.\d{1,4})(\.[0-9A-Za-z.+-]{1,40})?")

# Fields that only cards have, of which each has at least one, or a name with an address.
CARD_SIGNS = {"skills", "capabilities", "protocolVersion", "protocol_version", "supportedInterfaces",
              "supported_interfaces", "preferredTransport", "defaultInputModes"}  # fmt: skip
WRAPPERS = ("agentCard", "agent_card", "card", "agent")

ADDRESSES = ("url", "endpoint", "endpointUrl", "serviceUrl", "serviceEndpoint", "service_url", "endpoint_url",
             "baseUrl", "base_url", "apiUrl", "a2aUrl", "a2a_url", "a2aEndpoint", "a2a_endpoint", "uri")  # fmt: skip
INTERFACE_LISTS = ("supportedInterfaces", "supported_interfaces", "interfaces")
ENDPOINT_LISTS = ("endpoints", "services")
ADDRESS_FIELDS = (*ADDRESSES, *INTERFACE_LISTS, *ENDPOINT_LISTS, "communication")
BINDINGS = ("protocolBinding", "protocol_binding", "transport", "protocol", "binding", "type", "name")
VERSIONS = ("protocolVersion", "protocol_version", "version")
CALLABLE = {"A2A", "JSONRPC", "HTTP", "HTTPS", "REST", "HTTPJSON", "RPC", "API", "AGENT", "MAIN", "DEFAULT", "URL"}
UNSPECIFIED_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 compared, not bound
HOST = re.compile(r"(localhost|\[[0-9a-fA-F:]+\]|[\w-]+(\.[\w-]+)+)(:\d+)?(/|$)")

PLACEHOLDER = re.compile(r"(https?://)?(\$?\{[^{}]*\}|<[^<>]*>)(?=/|$)")

FLOWS = ("clientCredentials", "authorizationCode", "deviceCode", "password", "implicit")  # 1.0 allows one
REQUIREMENTS = ("securityRequirements", "security_requirements", "security")
SCHEME_KINDS = {
    "apikey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openidconnect": "openIdConnectSecurityScheme",
    "mutualtls": "mtlsSecurityScheme",
}


def is_card_like(value: JSON) -> bool:
    return bool(value.keys() & CARD_SIGNS or (value.get("name") and any(map(value.get, ADDRESS_FIELDS))))


def unwrapped(value: JSON) -> JSON:
    """The card itself, where it is a field of something else, whose other fields it takes."""
    wrapper = next((name for name in WRAPPERS if isinstance(value.get(name), dict)), "")
    if not wrapper or "name" in value or not value[wrapper].keys() & {*CARD_SIGNS, "name"}:
        return value
    return {**{name: one for name, one in value.items() if name != wrapper}, **value[wrapper]}


def is_card_03(card: JSON) -> bool:
    """Is it in the form of A2A 0.3, or in none?"""
    return not any(card.get(name) for name in INTERFACE_LISTS)


def as_card_10(card: JSON, base: str, notes: Notes) -> JSON:
    """The card in the shape of 1.0. `base` is where it was found, or ""."""
    interfaces = usable_or_nearest(_interfaces(card, base, notes), notes)
    shaped = {**card, "supportedInterfaces": interfaces} | _security(card, notes)
    shaped.pop("supported_interfaces", None)
    capabilities = card.get("capabilities")
    extended = card.get("supportsAuthenticatedExtendedCard", card.get("supports_authenticated_extended_card"))
    if isinstance(extended, bool) and isinstance(capabilities or {}, dict):
        shaped["capabilities"] = {"extendedAgentCard": extended} | (capabilities or {})
    if (skills := _skills(card, notes)) is not None:
        shaped["skills"] = skills
    if isinstance(capabilities, list):
        shaped["capabilities"] = {}
        notes.add("capabilities", "is a list, so it says nothing about streams and webhooks")
    if isinstance(provider := card.get("provider"), str | dict):
        shaped["provider"] = _provider(provider)
    return shaped


def _provider(given: str | JSON) -> JSON:
    if isinstance(given, str):
        return {"organization": given}
    return {**given, "organization": given.get("organization") or given.get("name") or _host(given.get("url"))}


def _host(url: Any) -> str:
    try:
        return urlsplit(url).hostname or "" if isinstance(url, str) else ""
    except ValueError:
        return ""


def _first(entry: JSON, names: tuple[str, ...]) -> str:
    """The first of these fields that is a text."""
    return next((entry[name].strip() for name in names if isinstance(entry.get(name), str) and entry[name].strip()), "")


def _interfaces(card: JSON, base: str, notes: Notes) -> list[JSON]:
    version = _version(card.get("protocolVersion", card.get("protocol_version")))
    listed: Any = next((card[name] for name in INTERFACE_LISTS if card.get(name)), [])
    listed = listed if isinstance(listed, list) else [listed]
    found = [_interface(one, base, version, notes) for one in map(_as_object, listed) if one]
    if any(_is_whole(one) and is_supported(one) for one in found):
        return [one for one in found if _is_whole(one)]
    return found + _old_interfaces(card, base, version or SUPPORTED_VERSIONS[1], notes)


def _is_whole(interface: JSON) -> bool:
    """Is its address a URL? Other bindings have other forms of addresses."""
    return "://" in interface["url"] or interface["protocolBinding"] not in SUPPORTED_BINDINGS


def _as_object(entry: Any) -> JSON:
    return {"url": entry} if isinstance(entry, str) else entry if isinstance(entry, dict) else {}


def _interface(entry: JSON, base: str, version: str, notes: Notes) -> JSON:
    read = {"url": _first(entry, ADDRESSES), "protocolBinding": _binding(_first(entry, BINDINGS[:-1]), notes)}
    if not (own := _version(next((entry[name] for name in VERSIONS if entry.get(name)), ""))):
        own = version if version and is_supported({**read, "protocolVersion": version}) else SUPPORTED_VERSIONS[0]
        if read["protocolBinding"] in SUPPORTED_BINDINGS:
            notes.add("supportedInterfaces[].protocolVersion", f"is missing; {own} is assumed")
    if read["protocolBinding"] in SUPPORTED_BINDINGS:
        read["url"] = _absolute(read["url"], base, notes)
    tenant = {"tenant": entry["tenant"]} if isinstance(entry.get("tenant"), str) else {}
    return {**read, "protocolVersion": own, **tenant}


def _old_interfaces(card: JSON, base: str, version: str, notes: Notes) -> list[JSON]:
    """The interfaces of a card of 0.3, or what takes their place."""
    version = "0.3" if version.startswith("0.3.") else version
    transport = card.get("preferredTransport", card.get("preferred_transport"))
    main = [{"url": url, "transport": transport or JSONRPC} for url in _addresses(card, notes)]
    more = card.get("additionalInterfaces", card.get("additional_interfaces"))
    unique: dict[tuple[str, str], JSON] = {}
    for one in [*main, *map(_as_object, more if isinstance(more, list) else [])]:
        binding = _binding(_first(one, BINDINGS[:-1]), notes)
        url = _first(one, ADDRESSES)
        url = _absolute(url, base, notes) if binding in SUPPORTED_BINDINGS else url
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": version}
        unique.setdefault((url, binding), interface)
    return list(unique.values())


def _addresses(card: JSON, notes: Notes) -> list[str]:
    """The card's `url`, or the first address that takes its place."""
    if url := _first(card, ADDRESSES[:1]):
        return [url]
    communication = card.get("communication")
    places = [card, *([communication] if isinstance(communication, dict) else [])]
    for place in places:
        endpoints = chain.from_iterable(_endpoints(place.get(name)) for name in ENDPOINT_LISTS)
        if url := next(filter(None, chain([_first(place, ADDRESSES[1:])], endpoints)), ""):
            notes.add("url", "is missing; another address in the card is taken")
            return [url]
    return []


def linked_cards(card: JSON) -> list[str]:
    """Cards at other addresses that it names, as registrations of ERC-8004 do."""
    listed = [one for name in ENDPOINT_LISTS if isinstance(card.get(name), list) for one in map(_as_object, card[name])]
    urls = [_first(one, ADDRESSES) for one in listed if _first(one, ("name", "type")).upper() == "A2A"]
    return [url for url in urls if url.endswith(".json")]


def _endpoints(given: Any) -> Iterator[str]:
    """The addresses in a list or an object of endpoints that may be of A2A."""
    entries = given if isinstance(given, list) else []
    if isinstance(given, dict):
        entries = [{"name": name, **_as_object(one)} for name, one in given.items()]
    for one in map(_as_object, entries):
        labels = [re.sub("[^A-Z0-9]", "", one[name].upper()) for name in BINDINGS if isinstance(one.get(name), str)]
        url = _first(one, ADDRESSES)
        is_callable = all(label in CALLABLE or label.startswith("JSONRPC") for label in labels) or "/a2a" in url.lower()
        if is_callable and not url.endswith((".json", "/ws")):
            yield url


def _binding(given: str, notes: Notes) -> str:
    if given in SUPPORTED_BINDINGS:
        return given
    bare = re.sub("[^A-Z]", "", given.upper())
    if not bare or bare in ("HTTP", "HTTPS", "A"):  # A: of A2A
        notes.add("The binding", f"is {'not stated' if not bare else f'only {given[:40]}'}; {JSONRPC} is assumed")
        return JSONRPC
    if bare.startswith("JSONRPC"):
        return JSONRPC
    return HTTP_JSON if "REST" in bare or bare == "HTTPJSON" else given


def _version(given: Any) -> str:
    text = str(given).strip().removeprefix("v") if isinstance(given, str | int | float) else ""
    return f"{text}.0" if text.isdecimal() else text


def _absolute(url: str, base: str, notes: Notes) -> str:
    """The address as a URL, where the card leaves its beginning out."""
    if not url:
        return ""
    split = urlsplit(base)
    try:
        host = urlsplit(url).hostname if "://" in url else ""
    except ValueError:
        return url
    if host in UNSPECIFIED_HOSTS and base:
        notes.add("url", f"names the host {host}, which is none; {split.hostname} is taken")
        ours = f"[{split.hostname}]" if ":" in (split.hostname or "") else split.hostname
        return re.sub(r"://(\[[^\]]*\]|[^/:]*)", f"://{ours}", url, count=1)
    if PLACEHOLDER.match(url) and base:
        notes.add("url", f"begins with a placeholder; {split.netloc} is taken")
        return PLACEHOLDER.sub(f"{split.scheme}://{split.netloc}", url, count=1)
    if host or re.match(r"[a-zA-Z][\w+.-]*:(?!\d)", url):
        return url
    if HOST.match(url) and not url.startswith(("/", ".")):
        notes.add("url", f"has no scheme; {split.scheme or 'https'} is assumed")
        return f"{split.scheme or 'https'}://{url}"
    if not base or re.search(r"\s", url):
        return url
    notes.add("url", "is relative to the card's own address")
    return urljoin(base, url)


def usable_or_nearest(interfaces: list[JSON], notes: Notes) -> list[JSON]:
    """The interfaces; where none is of a supported version, as if they were of the nearest."""
    if any(is_supported(one) for one in interfaces):
        return interfaces
    nearest = []
    for one in interfaces:
        version = one["protocolVersion"]
        if one["protocolBinding"] in SUPPORTED_BINDINGS:
            one = {**one, "protocolVersion": "0.3" if version.startswith("0.") else "1.0"}
            notes.add("The card", f"names version {version[:40]} of A2A; {one['protocolVersion']} is spoken")
        nearest.append(one)
    return nearest


def is_supported(interface: JSON) -> bool:
    return interface["protocolBinding"] in SUPPORTED_BINDINGS and bool(supported_version(interface["protocolVersion"]))


def supported_version(version: str) -> str:
    """An interface's A2A version without its patch (A2A 1.0 §3.6); "" if not supported. No version means 1.0."""
    found = VERSION_PATTERN.fullmatch(version or "1.0")
    return found[1] if found and found[1] in SUPPORTED_VERSIONS else ""


def _skills(card: JSON, notes: Notes) -> list[JSON] | None:
    """None if the card has none."""
    given: Any = card.get("skills")
    capabilities = card.get("capabilities")
    if not given and isinstance(capabilities, list):
        given = capabilities
    if not given and isinstance(capabilities, dict):
        given = capabilities.get("skills")
    if isinstance(given, dict):
        given = [{"id": name, **one} if isinstance(one, dict) else name for name, one in given.items()]
    if given is None:
        return None
    if not isinstance(given, list):
        notes.add("skills", "must be a list and was left out")
        return []
    if given is capabilities:
        notes.add("skills", "is missing; the entries of capabilities are shown instead")
    return [_skill(one, number, notes) for number, one in enumerate(given, 1) if isinstance(one, dict | str)]


def _skill(given: JSON | str, number: int, notes: Notes) -> JSON:
    if is_name := isinstance(given, str):
        notes.add("skills[]", "is only a name")
        given = {"name": given, "tags": []}
    skill = {name: one for name, one in given.items() if one is not None}
    name = _first(skill, ("name", "title", "id", "description")) or f"Skill {number}"
    for field, instead in (
        ("id", re.sub(r"\W+", "-", name.lower()).strip("-")[:100] or f"skill-{number}"),
        ("name", name[:200]),
        ("description", name),
    ):
        if not isinstance(one := skill.get(field, ""), str) or not one.strip():
            skill[field] = str(one) if isinstance(one, int | float) else instead
            if not is_name:
                notes.add(f"skills[].{field}", "is missing")
    if isinstance(tags := skill.get("tags"), str):
        skill["tags"] = [tag.strip() for tag in tags.split(",")]
    if wanted := _requirements(skill):
        skill["securityRequirements"] = wanted
    return skill


def _security(card: JSON, notes: Notes) -> JSON:
    schemes = card.get("securitySchemes", card.get("security_schemes"))
    if isinstance(schemes, list):
        named = [(_first(one, ("name", "scheme", "type")), one) for one in schemes if isinstance(one, dict)]
        schemes = {name: one for name, one in named if name}
    wanted: Any = _requirements(card)
    if any(isinstance(card.get(name), dict) for name in REQUIREMENTS):
        declared = schemes.keys() if isinstance(schemes, dict) else ()
        if any(name not in declared for one in wanted for name in one["schemes"]):
            notes.add("security", "must be a list of requirements and was left out")
            wanted = None
    shaped: JSON = {} if wanted == [] else {"securityRequirements": wanted}
    if isinstance(schemes, dict):
        shaped["securitySchemes"] = {name: _scheme(one) for name, one in schemes.items()}
    return shaped


def _scheme(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    kind = re.sub("[^a-z0-9]", "", given["type"].lower()) if isinstance(given.get("type"), str) else ""
    if kind in ("bearer", "basic"):
        given, kind = {"scheme": kind, **given}, "http"
    if kind in SCHEME_KINDS:
        given = {SCHEME_KINDS[kind]: {"location": given.get("in"), **given}}
    return {name: _with_one_flow(one) for name, one in given.items()}


def _with_one_flow(scheme: Any) -> Any:
    """Client credentials where possible."""
    flows = scheme.get("flows") if isinstance(scheme, dict) else None
    if not isinstance(flows, dict):
        return scheme
    given = [name for name in FLOWS if flows.get(name)]
    return {**scheme, "flows": {name: flows[name] for name in given[:1]} or flows}


def _requirements(holder: JSON) -> list[JSON]:
    given: Any = next((holder[name] for name in REQUIREMENTS if holder.get(name) is not None), [])
    return [_requirement(one) for one in (given if isinstance(given, list) else [given])]


def _requirement(given: Any) -> JSON:
    if isinstance(given, str):
        return {"schemes": {given: {"list": []}}}
    if not isinstance(given, dict):
        return {"schemes": {}}
    schemes = given["schemes"] if isinstance(given.get("schemes"), dict) else given
    scopes = {name: one.get("list") if isinstance(one, dict) else one for name, one in schemes.items()}
    return {"schemes": {name: {"list": one if isinstance(one, list) else []} for name, one in scopes.items()}}
