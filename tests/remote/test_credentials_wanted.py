"""Security schemes of a card become required credentials, or an explanation."""

from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from apps.remote.authentication.security_schemes import card_requirements
from tests.remote.guarded import api_key, card, http, oauth2_scheme, required

URL = "https://vault.example.org/a2a"


def asked(schemes, *alternatives, url=URL, **more):
    return card_requirements(ParseDict(card(url, schemes, *alternatives, **more), AgentCard()))


TOKENS = "https://login.example.org/token"


def test_what_parley_cannot_do_is_said():
    for scheme, told in (
        ({"mtlsSecurityScheme": {}}, "client certificate"),
        (http("digest"), "'digest'"),
        (oauth2_scheme(TOKENS, flow="authorizationCode"), "client credentials only"),
        (oauth2_scheme("http://login.example.org/token"), "over http"),
        (oauth2_scheme("file:///etc/passwd"), "no usable address"),
        (api_key("body", "key"), "'body'"),
        (api_key("header", "Host"), "'Host'"),
        (api_key("header", "X-Key\r\nX-Evil: 1"), "where none can be"),
        (api_key("header", "Content-Length"), "where none can be"),
        (api_key("cookie", "a=b; c"), "where none can be"),
        (api_key("query", ""), "where none can be"),
        ({}, "of a kind that Parley does not know"),
    ):
        [alternative] = asked({"one": scheme}, {"one": []}).alternatives
        assert told in alternative.problem
        assert alternative.schemes[0].kind is None, scheme
    [alternative] = asked({}, {"ghost": []}).alternatives
    assert "'ghost'" in alternative.problem


def test_two_that_want_the_same_place_cannot_go_together():
    schemes = {"token": http("bearer"), "login": http("basic"), "key": api_key("header", "AUTHORIZATION")}
    for pair in ({"token": [], "login": []}, {"token": [], "key": []}):
        assert "same place" in asked(schemes, pair).alternatives[0].problem


def test_an_agent_may_ask_for_nothing_or_let_everybody_in_besides():
    nothing = asked({})
    assert (nothing.alternatives, nothing.is_optional, nothing.schemes) == ((), True, {})
    either = asked({"token": http("bearer")}, {"token": []}, {})
    assert (either.is_optional, len(either.alternatives)) == (True, 1)
    assert not asked({"token": http("bearer")}, {"token": []}).is_optional
    ways, is_optional = asked({"token": http("bearer")}).for_skill("")
    assert is_optional
    assert [scheme.name for way in ways for scheme in way.schemes] == ["token"]


def test_a_skill_wants_its_own_besides():
    plain = {"name": "-", "description": "-", "tags": []}
    wants = [required({"login": ["write"]}), required({"key": []})]
    skills = [{"id": "read", **plain}, {"id": "write", **plain, "securityRequirements": wants}]
    schemes = {"login": oauth2_scheme("https://login.example.org/token"), "key": api_key("header", "X-Key")}
    of_card = asked(schemes, {"login": ["read"]}, skills=skills)
    read, _ = of_card.for_skill("read")
    write, is_optional = of_card.for_skill("write")
    assert [[(scheme.name, scheme.scopes) for scheme in way.schemes] for way in read] == [[("login", ("read",))]]
    assert [[(scheme.name, scheme.scopes) for scheme in way.schemes] for way in write] == [
        [("login", ("read", "write"))],
        [("login", ("read",)), ("key", ())],
    ]
    assert not is_optional


def test_a_card_is_no_puzzle():
    schemes = {f"s{n}": http("bearer") for n in range(3)}
    many = [{"s0": [str(n)]} for n in range(10_000)]
    assert len(asked(schemes, *many).alternatives) == 50
    long = "x" * 5_000
    assert "too long" in asked({long: http("bearer")}, {long: []}).alternatives[0].problem


def test_the_origin_is_where_the_agent_is_called():
    for url, origin in (
        ("https://Vault.example.org/a2a", "https://vault.example.org:443"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("https://[2001:DB8::1]/", "https://[2001:db8::1]:443"),
        ("https://vault.example.org@evil.example.org/", ""),
        ("not a url", ""),
    ):
        assert asked({}, url=url).origin == origin
