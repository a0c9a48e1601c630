"""Cards of 0.3 become cards of 1.0, and errors name the field."""

import json

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from apps.remote import cards
from apps.remote.errors import BadCard
from tests.remote.card_server import card, old_card

URL = "https://agents.example/a2a"


def with_interfaces(*told):
    names = ("url", "protocolBinding", "protocolVersion")
    return card(URL, supportedInterfaces=[dict(zip(names, one, strict=True)) for one in told])


def test_a_card_stays_what_it_says_and_what_is_unknown_or_empty_is_left_to_the_protocol():
    read = cards.read_card(card(URL))
    assert read == card(URL)
    assert ParseDict(read, AgentCard()).skills[0].id == "translate"
    told = card(URL, supported_interfaces=card(URL)["supportedInterfaces"], surprise=1)
    del told["supportedInterfaces"]
    assert cards.read_card(told) == card(URL)
    lean = {name: one for name, one in card(URL).items() if name not in ("capabilities", "skills", "defaultInputModes")}
    read = cards.read_card(lean)
    assert (read["capabilities"], read["skills"], read["defaultInputModes"]) == ({}, [], [])


def test_a_card_of_0_3_becomes_one_of_1_0():
    flows = {
        "clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": {}},
        "implicit": {"authorizationUrl": "https://id.example/", "scopes": {}},
    }
    read = cards.read_card(
        old_card(
            URL,
            additionalInterfaces=[
                {"url": URL, "transport": "JSONRPC"},
                {"url": f"{URL}/rest", "transport": "HTTP+JSON"},
            ],
            supportsAuthenticatedExtendedCard=True,
            security=[{"key": []}],
            securitySchemes={
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "o": {"type": "oauth2", "flows": flows},
            },
        )
    )
    assert read["supportedInterfaces"] == [
        {"url": URL, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": f"{URL}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
    ]
    schemes = read["securitySchemes"]
    assert schemes["key"] == {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}
    assert list(schemes["o"]["oauth2SecurityScheme"]["flows"]) == ["clientCredentials"]
    assert read["capabilities"] == {"streaming": True, "extendedAgentCard": True}
    assert ParseDict(read, AgentCard()).name == "Translator"


def refusal(read, told):
    with pytest.raises(BadCard) as refused:
        read(told)
    return str(refused.value)


def test_what_is_wrong_is_said_with_its_field():
    tagged = {"id": "a", "name": "A", "description": "d"}
    two = {"httpAuthSecurityScheme": {"scheme": "a"}, "mtlsSecurityScheme": {}}
    for fields, sentence in (
        ({"name": None}, "name is missing."),
        ({"name": "\u202e"}, "name must not be empty."),
        ({"description": 7}, "description must be a text."),
        ({"description": "x" * 10_001}, "description must have at most 10,000 characters."),
        ({"capabilities": []}, "capabilities must be an object."),
        ({"capabilities": {"streaming": "yes"}}, "capabilities.streaming must be true or false."),
        ({"skills": {"id": "a"}}, "skills must be a list."),
        ({"skills": [{"id": "a", "name": "A"}]}, "skills[0].description is missing."),
        ({"skills": [{**tagged, "tags": [1]}]}, "skills[0].tags[0] must be a text."),
        ({"defaultInputModes": ["text/plain"] * 501}, "defaultInputModes must have at most 500 entries."),
        ({"securitySchemes": {"k": {"httpAuthSecurityScheme": {}}}}, "securitySchemes.k.httpAuthSecurityScheme.scheme"),
        ({"securitySchemes": {"k": two}}, "must have one of httpAuthSecurityScheme and mtlsSecurityScheme, not both."),
        ({"capabilities": {"extensions": [{"uri": "u", "params": {"n": 2**53}}]}}, "a number beyond 2^53"),
        ({"supportedInterfaces": []}, "The agent offers no interface. Parley speaks JSONRPC and HTTP+JSON"),
        ({"supportedInterfaces": [{"url": URL}]}, "supportedInterfaces[0].protocolBinding is missing."),
        ({"name": None, "version": None, "skills": 1}, "name is missing. version is missing. skills must be a list."),
    ):
        assert sentence in refusal(cards.read_card, card(URL, **fields))


def test_what_is_wrong_with_a_card_of_0_3_is_said_too():
    for fields, sentence in (
        ({"name": None}, "name"),
        ({"skills": [{"id": "a"}]}, "skills[0].name: Field required"),
        ({"protocolVersion": "0.2.6"}, "offers JSONRPC 0.2.6"),
        ({"preferredTransport": "GRPC"}, "offers GRPC 0.3"),
        ({"securitySchemes": {"k": {"type": "magic"}}}, "securitySchemes"),
        ({"capabilities": {"extensions": [{"uri": "u", "params": {"n": 2**60}}]}}, "beyond 2^53"),
        ({"description": "\ud800"}, "description is missing"),
    ):
        assert sentence in refusal(cards.read_card, old_card(URL, **fields))


def test_what_is_no_json_object_is_no_card():
    deep = b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"
    for text in (b"", b"[]", b'{"name": NaN}', b'{"name": "a", "name": "b"}', b"\xff", deep, b"[" * 100_000):
        assert "no agent card" in refusal(cards.parse_card, text)


def test_texts_come_without_characters_that_deceive_or_cannot_be_stored():
    read = cards.read_card(card(URL, name="Trans\u202elator\x00\x1b[31m", description="one\ntwo\ud800\u2066"))
    assert (read["name"], read["description"]) == ("Translator[31m", "one\ntwo")
    json.dumps(read).encode()


def test_interfaces_are_used_in_the_agents_order_and_at_one_origin():
    read = cards.read_card(
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


def test_an_interface_at_a_closed_address_is_refused():
    for url in ("http://127.0.0.1/a2a", "http://169.254.169.254/", "file:///etc/passwd", "https://a@b.c/"):
        told = with_interfaces((URL, "JSONRPC", "1.0"), (url, "HTTP+JSON", "1.0"))
        assert "supportedInterfaces[1].url" in refusal(cards.read_card, told)


def test_what_the_card_says_becomes_what_our_own_card_of_it_can_say():
    skill = {"id": "s", "name": "S", "description": "d", "tags": [], "inputModes": ["file"]}
    stated = cards.agent_fields(
        cards.read_card(
            card(URL, name="N" * 300, defaultInputModes=["application/json"], defaultOutputModes=[], skills=[skill])
        )
    )
    assert len(stated["name"]) == 120
    assert stated["input_modes"] == ["application/json", "text/plain"]
    assert stated["output_modes"] == ["text/plain"]
    assert stated["skills"] == [{**skill, "tags": ["general"], "inputModes": ["*/*"]}]
