"""What a card requires of callers: alternatives, each a set of security schemes (A2A 1.0 §4.4.1, §4.5)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from a2a.types import AgentCard, AgentSkill, SecurityRequirement, SecurityScheme

from apps.remote.agent_cards.cards import chosen_origin, is_unencrypted, origin_of
from apps.remote.models import LONGEST_SCHEME_NAME, RemoteCredential

Kind = RemoteCredential.Kind

MOST_ALTERNATIVES = 50

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 §5.6.2
RESERVED_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|(set-)?cookie2?|accept.*|te|trailer|upgrade|expect|keep-alive|proxy-.*"
    r"|a2a-.*|traceparent|tracestate|last-event-id|range|if-.*|forwarded|via|x-forwarded-.*|x-real-ip|x-http-method.*"
    r"|x-method-override|x-original-.*|x-rewrite-.*|origin|referer|user-agent|sec-.*|date|signature.*|idempotency-key",
    re.IGNORECASE,
)
LONGEST_PARAMETER = 100
UNSUPPORTED_FLOW = "The card asks for an OAuth2 flow with a person at a browser; Parley knows client credentials only."


@dataclass(frozen=True, slots=True)
class Alternative:
    """Schemes that are required together; `skill` requires them, or ""."""

    schemes: tuple[Scheme, ...]
    skill: str = ""

    @property
    def problem(self) -> str:
        """Why it is not supported; "" if it is."""
        problems = [scheme.problem for scheme in self.schemes if scheme.problem]
        places = [scheme.request_place for scheme in self.schemes if not scheme.problem]
        if not problems and len(set(places)) < len(places):
            return "The card asks for two credentials in the same place of a request."
        return " ".join(dict.fromkeys(problems))

    def __add__(self, other: Alternative) -> Alternative:
        named = {scheme.name: scheme for scheme in self.schemes}
        for scheme in other.schemes:
            known = named.get(scheme.name)
            scopes = dict.fromkeys((*(known.scopes if known else ()), *scheme.scopes))
            named[scheme.name] = dataclasses.replace(scheme, scopes=tuple(scopes))
        return Alternative(tuple(named.values()), self.skill or other.skill)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a card requires.

    Attributes:
        origin: where the agent is called.
        alternatives: one of them is enough; empty if nothing is required.
        by_skill: additional alternatives by skill id; one of them is required.
        is_optional: may callers come without credentials?
        schemes: all schemes that the card declares or names.
    """

    origin: str
    alternatives: tuple[Alternative, ...]
    by_skill: dict[str, tuple[Alternative, ...]]
    is_optional: bool
    schemes: dict[str, Scheme]

    def for_skill(self, skill: str) -> tuple[tuple[Alternative, ...], bool]:
        """The alternatives for work with a skill ("": any), and whether they are optional."""
        own = self.by_skill.get(skill, ())
        if not own:
            return self.alternatives or self._declared(), self.is_optional
        together = [one + other for one, other in product(self.alternatives, own)] if self.alternatives else own
        alone = own if self.is_optional else ()
        return _unique((*together, *alone)), False

    def _declared(self) -> tuple[Alternative, ...]:
        """Declared schemes can be used even if none is required."""
        of_skills = chain.from_iterable(self.by_skill.values())
        return _unique((*of_skills, *(Alternative((scheme,)) for scheme in self.schemes.values())))


def card_requirements(card: AgentCard) -> Requirements:
    """In the card's order of preference."""
    declared = schemes_of(card)
    listed = [_alternative(one, declared) for one in card.security_requirements[:MOST_ALTERNATIVES]]
    alternatives = tuple(one for one in listed if one.schemes)
    by_skill = {skill.id: found for skill in card.skills if (found := _skill_alternatives(skill, declared))}
    named = {scheme.name: scheme for one in chain(alternatives, *by_skill.values()) for scheme in one.schemes}
    return Requirements(
        origin=chosen_origin(card),
        alternatives=alternatives,
        by_skill=by_skill,
        is_optional=len(alternatives) < len(listed) or not listed,
        schemes=named | declared,
    )


def _skill_alternatives(skill: AgentSkill, declared: dict[str, Scheme]) -> tuple[Alternative, ...]:
    listed = tuple(_alternative(one, declared, skill.name) for one in skill.security_requirements[:MOST_ALTERNATIVES])
    return listed if all(one.schemes for one in listed) else ()


def _alternative(requirement: SecurityRequirement, declared: dict[str, Scheme], skill: str = "") -> Alternative:
    schemes = []
    for name, scopes in sorted(requirement.schemes.items()):
        scheme = declared.get(name) or undeclared_scheme(name)
        if scheme.kind is Kind.CLIENT_CREDENTIALS:
            scheme = dataclasses.replace(scheme, scopes=tuple(scopes.list))
        schemes.append(scheme)
    return Alternative(tuple(schemes), skill)


def _unique(alternatives: Iterable[Alternative]) -> tuple[Alternative, ...]:
    return tuple(dict.fromkeys(alternatives))[:MOST_ALTERNATIVES]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One security scheme of a card.

    Attributes:
        kind: what a person gives; None if not supported, and `problem` says why.
        place: of an API key: `header`, `query` or `cookie`; `parameter` is its name there.
        token_url, discovery_url: of OAuth2 and OpenID Connect; one of them.
    """

    name: str
    kind: Kind | None = None
    description: str = ""
    place: str = ""
    parameter: str = ""
    token_url: str = ""
    discovery_url: str = ""
    scopes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def issuer(self) -> str:
        """The origin that gets an OAuth2 client's secret; "" for other kinds."""
        return origin_of(self.token_url or self.discovery_url)

    @property
    def words(self) -> str:
        """For people."""
        if self.kind is None:
            return self.problem
        if self.kind is Kind.API_KEY:
            return f"{self.kind.label}, in the {self.place} {self.parameter}"
        if self.kind is Kind.CLIENT_CREDENTIALS:
            return f"{self.kind.label}, with tokens from {self.issuer}"
        return str(self.kind.label)

    @property
    def request_place(self) -> tuple[str, str]:
        """Where the credential goes in a request; schemes of an alternative must not share it."""
        if self.kind is Kind.API_KEY:
            return self.place, self.parameter if self.place == "query" else self.parameter.lower()
        return "header", "authorization"


def schemes_of(card: AgentCard) -> dict[str, Scheme]:
    """The schemes that a card declares, by name."""
    is_http = is_unencrypted(chosen_origin(card))
    return {name: _read_scheme(name, said, is_http) for name, said in sorted(card.security_schemes.items())}


def undeclared_scheme(name: str) -> Scheme:
    return Scheme(name, problem=f"The card requires {name[:LONGEST_SCHEME_NAME]!r} and does not say what that is.")


def _read_scheme(name: str, said: SecurityScheme, plain: bool) -> Scheme:
    kind = said.WhichOneof("scheme")
    read = READERS.get(kind or "")
    if len(name) > LONGEST_SCHEME_NAME:
        return Scheme(name[:LONGEST_SCHEME_NAME], problem="The name of the security scheme is too long.")
    if read is None or kind is None:
        return Scheme(name, problem="The card names a security scheme of a kind that Parley does not know.")
    content = getattr(said, kind)
    scheme = Scheme(name, description=content.description[:500], **read(content))
    if scheme.kind is Kind.CLIENT_CREDENTIALS and (problem := _token_address_problem(scheme, plain)):
        return Scheme(name, description=scheme.description, problem=problem)
    return scheme


def _token_address_problem(scheme: Scheme, plain: bool) -> str:
    """Why a client's secret may not be sent to the issuer; "" if it may."""
    if not scheme.issuer:
        return "The card gives no usable address where OAuth2 tokens are fetched."
    if is_unencrypted(scheme.issuer) and not plain:
        return "The card has OAuth2 tokens fetched over http. Parley sends a secret there by https only."
    return ""


def _api_key(said: Any) -> Mapping[str, Any]:
    place, name = said.location.lower(), said.name
    if place not in ("header", "query", "cookie"):
        return {"problem": f"The card puts its API key into {place[:20]!r}; Parley knows header, query and cookie."}
    fits = 0 < len(name) <= LONGEST_PARAMETER if place == "query" else HEADER_NAME.fullmatch(name)
    if not fits or (place == "header" and RESERVED_HEADERS.fullmatch(name)):
        return {"problem": f"The card puts its API key into the {place} {name[:40]!r}, where none can be."}
    return {"kind": Kind.API_KEY, "place": place, "parameter": name}


def _http(said: Any) -> Mapping[str, Any]:
    kinds = {"bearer": Kind.BEARER, "basic": Kind.BASIC}
    if kind := kinds.get(said.scheme.lower()):
        return {"kind": kind}
    return {"problem": f"The card asks for HTTP authentication {said.scheme[:20]!r}; Parley knows Bearer and Basic."}


def _oauth2(said: Any) -> Mapping[str, Any]:
    if said.flows.WhichOneof("flow") == "client_credentials":
        return {"kind": Kind.CLIENT_CREDENTIALS, "token_url": said.flows.client_credentials.token_url}
    return {"problem": UNSUPPORTED_FLOW}


def _open_id(said: Any) -> Mapping[str, Any]:
    return {"kind": Kind.CLIENT_CREDENTIALS, "discovery_url": said.open_id_connect_url}


def _mutual_tls(said: Any) -> Mapping[str, Any]:
    return {"problem": "The card asks for a client certificate (mutual TLS), which Parley does not have."}


READERS: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "api_key_security_scheme": _api_key,
    "http_auth_security_scheme": _http,
    "oauth2_security_scheme": _oauth2,
    "open_id_connect_security_scheme": _open_id,
    "mtls_security_scheme": _mutual_tls,
}
