"""Cards of any form become cards of 1.0; what cannot be read is left out, with a note."""

import json

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from apps.remote.agent_cards import cards
from apps.remote.errors import BadCard
from tests.remote.card_server import card, old_card

URL = "https://agents.example/a2a"


def read_card(told, base=""):
    return cards.read_card(told, base=base)[0]


def notes_on(told, base=""):
    return "\n".join(cards.read_card(told, base=base)[1])


def address_of(told, base=""):
    [interface] = cards.usable_interfaces(read_card(told, base))
    return interface["url"], interface["protocolBinding"], interface["protocolVersion"]


def with_interfaces(*told):
    names = ("url", "protocolBinding", "protocolVersion")
    return card(URL, supportedInterfaces=[dict(zip(names, one, strict=True)) for one in told])


def test_cards_keep_what_the_protocol_knows():
    assert notes_on(card(URL)) == notes_on(old_card(URL)) == ""
    read = read_card(card(URL))
    assert read == card(URL)
    assert ParseDict(read, AgentCard()).skills[0].id == "translate"
    told = card(URL, supported_interfaces=card(URL)["supportedInterfaces"], surprise=1)
    del told["supportedInterfaces"]
    assert read_card(told) == card(URL)
    assert cards.parse_card(json.dumps({"agentCard": card(URL)}).encode()) == card(URL)


def test_old_cards_become_cards_of_1_0():
    others = [{"url": URL, "transport": "JSONRPC"}, {"url": f"{URL}/rest", "transport": "HTTP+JSON"}]
    read = read_card(old_card(URL, additionalInterfaces=others, supportsAuthenticatedExtendedCard=True))
    assert read["supportedInterfaces"] == [
        {"url": URL, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": f"{URL}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
    ]
    assert read["capabilities"] == {"streaming": True, "extendedAgentCard": True}
    assert ParseDict(read, AgentCard()).name == "Translator"


def test_missing_and_unfit_fields_leave_notes():
    lacking = ("name", "description", "version", "capabilities", "defaultInputModes", "skills")
    told = {name: one for name, one in card(URL).items() if name not in lacking}
    read = read_card(told)
    assert (read["name"], read["version"], read["capabilities"], read["skills"]) == ("Unnamed agent", "1.0", {}, [])
    assert read["defaultInputModes"] == []
    assert "does not say its version; 1.0 is assumed." in notes_on(told)
    assert all(f"does not say its {name}" in notes_on(told) for name in lacking)
    assert cards.agent_fields(read_card(card(URL, description="")))["description"] == "Translator"
    told = card(URL, capabilities={"extensions": [{"uri": "u", "params": {"n": 2**53, "m": 1}}]})
    assert read_card(told)["capabilities"]["extensions"][0]["params"] == {"m": 1}
    assert "capabilities.extensions[].params has a number beyond 2^53" in notes_on(told)


@pytest.mark.parametrize(
    ("fields", "name", "left"),
    [
        ({"iconUrl": 7.5}, "iconUrl", "7.5"),
        ({"capabilities": {"streaming": "true", "pushNotifications": "often"}}, "capabilities", {"streaming": True}),
        ({"capabilities": {"extensions": [{"params": {}}]}}, "capabilities", {"extensions": []}),
        ({"defaultInputModes": "text/plain"}, "defaultInputModes", ["text/plain"]),
        ({"provider": "Acme"}, "provider", {"organization": "Acme", "url": ""}),
        ({"name": "\u202e"}, "name", "Unnamed agent"),
    ],
)
def test_wrong_types_are_taken_or_dropped(fields, name, left):
    assert read_card(card(URL, **fields)).get(name) == left


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"skills": ["Tell jokes"]}, ("tell-jokes", "Tell jokes", "Tell jokes", [])),
        ({"skills": {"sum": {"name": "Sum"}}}, ("sum", "Sum", "Sum", [])),
        ({"skills": None, "capabilities": ["Tell jokes"]}, ("tell-jokes", "Tell jokes", "Tell jokes", [])),
    ],
)
def test_skills_of_other_shapes_are_taken(fields, expected):
    [skill] = read_card(old_card(URL, **fields))["skills"]
    assert tuple(skill.get(name, []) for name in ("id", "name", "description", "tags")) == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"url": URL}, (URL, "JSONRPC", "0.3")),
        ({"url": URL, "protocolVersion": "1.0.0"}, (URL, "JSONRPC", "1.0.0")),
        ({"url": URL, "preferred_transport": "REST", "protocol_version": "0.3.0"}, (URL, "HTTP+JSON", "0.3")),
        ({"url": URL, "supportedInterfaces": [{"url": "mcp", "protocolBinding": "MCP"}]}, (URL, "JSONRPC", "0.3")),
        (
            {"protocolVersion": "0.3.0", "supportedInterfaces": [{"url": URL, "protocolBinding": "HTTP+JSON"}]},
            (URL, "HTTP+JSON", "0.3.0"),
        ),
        ({"endpoints": {"mcp": "https://agents.example/mcp", "http": URL}}, (URL, "JSONRPC", "0.3")),
        ({"communication": {"endpoints": [{"type": "http", "url": URL}]}}, (URL, "JSONRPC", "0.3")),
        ({"url": "{BASE_URL}/a2a"}, (URL, "JSONRPC", "0.3")),
        ({"url": "https://0.0.0.0:443/a2a"}, ("https://agents.example:443/a2a", "JSONRPC", "0.3")),
    ],
)
def test_addresses_of_other_shapes_are_taken(told, expected):
    assert address_of({"name": "A", **told}, "https://agents.example/.well-known/agent-card.json") == expected


def test_interfaces_keep_their_order_and_one_origin():
    read = read_card(
        with_interfaces(
            ("grpc.example:50051", "GRPC", "1.0"),
            (f"{URL}/rest", "HTTP+JSON", "1.0"),
            ("https://elsewhere.example/a2a", "JSONRPC", "1.0"),
            (URL, "JSONRPC", "0.3.0"),
            (URL, "JSONRPC", "2.0"),
        )
    )
    assert [one["url"] for one in cards.usable_interfaces(read)] == [f"{URL}/rest", URL]
    assert cards.card_origin(read) == "https://agents.example:443"
    assert len(read["supportedInterfaces"]) == 5


LINK = "https://agents.example/.well-known/agent-card.json"


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"name": "A"}, "no address"),
        ({"name": "A", "services": [{"name": "MCP", "endpoint": "https://agents.example/mcp"}]}, "no address"),
        ({"name": "A", "services": [{"name": "A2A", "endpoint": LINK}, {"name": "web"}]}, ""),
        ({"name": "A", "url": "/a2a"}, "absolute http or https URL"),
        (old_card(URL, preferredTransport="GRPC"), "offers GRPC 0.3"),
        *[
            (with_interfaces((URL, "JSONRPC", "1.0"), (url, "HTTP+JSON", "1.0")), "supportedInterfaces[1].url")
            for url in ("http://127.0.0.1/a2a", "http://169.254.169.254/", "file:///etc/passwd", "https://a@b.c/")
        ],
    ],
)
def test_cards_without_a_safe_address_are_refused(told, sentence):
    with pytest.raises(BadCard) as refused:
        cards.read_card(told)
    assert sentence in str(refused.value)
    assert refused.value.offers == ((LINK,) if LINK in str(told) else ())


def test_security_of_either_version_is_read():
    flows = {
        "implicit": {"authorizationUrl": "https://id.example/"},
        "clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": {}},
    }
    told = {
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "token": {"type": "bearer"},
            "client": {"oauth2SecurityScheme": {"flows": flows}},
            "old": {"type": "oauth2", "flows": flows},
            "magic": {"type": "magic"},
        },
        "securityRequirements": [{"key": []}, {"schemes": {"client": ["read"]}}],
    }
    for make in (card, old_card):
        read = ParseDict(read_card(make(URL, **told)), AgentCard())
        kinds = {name: one.WhichOneof("scheme") for name, one in read.security_schemes.items()}
        assert (kinds["key"], kinds["token"]) == ("api_key_security_scheme", "http_auth_security_scheme")
        assert kinds["magic"] is None
        for name in ("client", "old"):
            assert read.security_schemes[name].oauth2_security_scheme.flows.WhichOneof("flow") == "client_credentials"
        assert [list(one.schemes) for one in read.security_requirements] == [["key"], ["client"]]
        assert read.security_requirements[1].schemes["client"].list == ["read"]
    assert "securityRequirements" not in read_card(card(URL, security={"audit": True, "ttl": 300}))


def refusal(read, told):
    with pytest.raises(BadCard) as refused:
        read(told)
    return str(refused.value)


def test_what_is_no_card_is_refused():
    deep = b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"
    for text in (b"", b"[]", b'{"name": NaN}', b'{"name": "a", "name": "b"}', b"\xff", deep, b"[" * 100_000):
        assert "no agent card" in refusal(cards.parse_card, text)
    for told in ({"name": "app"}, {"name": "app", "version": "1"}, {"agent": {"name": "app"}}, {"a": 1}):
        assert "JSON, but no agent card" in refusal(cards.pasted_card, json.dumps(told))
    for own in ("skills", "protocolVersion"):
        assert "names no address" in refusal(cards.pasted_card, json.dumps({"name": "app", own: []}))


def test_texts_lose_deceiving_and_unstorable_characters():
    read = read_card(card(URL, name="Trans\u202elator\x00\x1b[31m", description="one\ntwo\ud800\u2066"))
    assert (read["name"], read["description"]) == ("Translator[31m", "one\ntwo")
    json.dumps(read).encode()
