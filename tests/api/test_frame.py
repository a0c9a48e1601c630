"""Rules of every endpoint: authentication, input and errors."""

import pytest

from apps.api.framework.serializers import unknown_field

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.clients.probe")]


async def test_unknown_callers_are_told_how_to_authenticate(anybody, ada_browses, ada):
    ada.set_password("another one")
    await ada.asave()
    answers = [await anybody.get("/mirror"), await ada_browses.get("/mirror")]
    answers += [
        await anybody.get("/mirror", Authorization=f"{one}") for one in ("Bearer parley_012_guessed", "Basic YTpi")
    ]
    for answer in answers:
        assert (answer.status, answer.code) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith('Bearer realm="parley", ')


async def test_browser_writes_only_with_its_token(ada_browses):
    words = {"someWords": "hello"}
    assert (await ada_browses.get("/mirror")).body["name"] == "Ada"
    refused = await ada_browses.post("/mirror", words)
    assert (refused.status, refused.code) == (403, "forbidden")
    elsewhere = await ada_browses.post("/mirror", words, X_CSRFToken="a" * 32, Origin="https://elsewhere.example")
    assert elsewhere.status == 403
    allowed = await ada_browses.post("/mirror", words, X_CSRFToken="a" * 32)
    assert allowed.status == 201


async def test_a_key_that_may_read_may_not_write(reads):
    assert (await reads.get("/mirror")).status == 200
    refused = await reads.post("/mirror", {"someWords": "hello"})
    assert (refused.status, refused.code) == (403, "forbidden")
    assert "tasks:write" in refused.body["detail"]


WRONG = [
    (b"{", 400, "unreadable", []),
    (b'{"someWords": NaN}', 400, "unreadable", []),
    (b'{"someWords": "a", "someWords": "b"}', 400, "unreadable", []),
    (b"[" * 70 + b"]" * 70, 400, "unreadable", []),
    (b"\xff", 400, "unreadable", []),
    (b"[]", 422, "invalid", [""]),
    (b"null", 422, "invalid", [""]),
    (b"{}", 422, "invalid", ["someWords"]),
    (b'{"someWords": "a", "x": 1}', 422, "invalid", ["x"]),
    (b'{"someWords": 3}', 422, "invalid", ["someWords"]),
    (b'{"some_words": "snake"}', 422, "invalid", ["some_words"]),
    (b'{"someWords": "a\\u0000"}', 422, "invalid", ["someWords"]),
    (b'{"someWords": "a\\nb"}', 422, "invalid", ["someWords"]),
    (b'{"someWords": "a", "anything": ["\\ud800"]}', 422, "invalid", ["anything"]),
    (b'{"someWords": "a", "anything": {"\\u0000": 1}}', 422, "invalid", ["anything"]),
]


async def test_what_is_wrong_with_a_body_is_said(ada_calls):
    for body, status, code, fields in WRONG:
        answer = await ada_calls.post("/mirror", body)
        assert (answer.status, answer.code, answer.fields) == (status, code, fields), body


async def test_a_body_is_json_and_says_so(ada_calls):
    form = await ada_calls.post("/mirror", b"someWords=a", content_type="application/x-www-form-urlencoded")
    packed = await ada_calls.post("/mirror", b"{}", content_encoding="gzip")
    assert (form.code, packed.code) == ("media_type_not_supported", "media_type_not_supported")
    assert form.status == packed.status == 415


async def test_too_large_body_is_not_read(ada_calls, settings):
    settings.MAX_REQUEST_BYTES = 100
    answer = await ada_calls.post("/mirror", {"someWords": "a" * 100})
    assert (answer.status, answer.code) == (413, "too_large")


async def test_a_query_is_read_strictly(ada_calls):
    asked = await ada_calls.get("/mirror?number=3&names=a,b&names=c")
    assert asked.body["asked"] == {"number": 3, "names": ["a", "b", "c"]}
    for query, field in (
        ("number=three", "number"),
        ("number=1&number=2", "number"),
        ("colour=red", "colour"),
        ("names=%00", "names[0]"),
    ):
        refused = await ada_calls.get(f"/mirror?{query}")
        assert (refused.status, refused.code, refused.fields) == (422, "invalid", [field]), query


async def test_unknown_addresses_methods_and_media_types_are_refused(ada_calls, anybody):
    nowhere = await anybody.get("/nowhere/at/all")
    assert (nowhere.status, nowhere.code) == (404, "not_found")
    method = await ada_calls.delete("/mirror")
    assert (method.status, method.code) == (405, "method_not_allowed")
    assert method.headers["allow"] == "GET, HEAD, POST, PUT"
    assert (await ada_calls.ask("OPTIONS", "/mirror")).status == 405
    accepted = await ada_calls.get("/mirror", Accept="text/csv")
    assert (accepted.status, accepted.code) == (406, "not_acceptable")


async def test_unexpected_errors_tell_nothing_of_the_inside(ada_calls):
    answer = await ada_calls.get("/broken")
    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret" not in answer.content


async def test_a_database_that_is_away_asks_for_patience(ada_calls):
    answer = await ada_calls.post("/broken")
    assert (answer.status, answer.code) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_acts_are_counted_for_each_user(ada_calls, bob_calls, settings):
    settings.ACTS_PER_MINUTE = 2
    answers = [await ada_calls.post("/act") for _ in range(5)]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) >= 1  # a minute may end in between
    assert refused[0].code == "too_much"
    assert 1 <= int(refused[0].headers["retry-after"]) <= 60
    assert (await bob_calls.post("/act")).status == 200


async def test_refusals_before_any_view_are_problems(anybody):
    elsewhere = await anybody.get("/mirror", host="elsewhere.example")
    assert (elsewhere.status, elsewhere.code) == (400, "unreadable")
    root = await anybody.get("")
    assert (root.status, root.code) == (404, "not_found")


async def test_who_is_not_let_in_is_counted_too(ada_browses, settings):
    settings.ANONYMOUS_REQUESTS_PER_MINUTE = 0
    for headers in (
        {},
        {"authorization": "Bearer nonsense"},
        {"x-csrftoken": "b" * 32},
        {"origin": "https://evil.example"},
    ):
        answer = await ada_browses.ask("POST", "/mirror", {"someWords": "a"}, headers)
        assert (answer.status, answer.code) == (429, "too_much"), headers


def test_near_misses_of_names_are_suggested():
    known = ["task", "text", "references", "contextId"]
    for name, meant in (("taskId", "task"), ("context_id", "contextId"), ("Text", "text"), ("colour", ""), ("", "")):
        assert unknown_field(name, known).partition("Did you mean ")[2] == (f"`{meant}`?" if meant else ""), name
