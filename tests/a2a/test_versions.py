"""The protocol version decides, not the method's name; extensions are named or ignored."""

import pytest

pytestmark = pytest.mark.django_db(transaction=True)

ASKING = ("GetTask", {"id": "a"})
ASKED = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "a"}}
EXTENSION = "https://example.com/ext/timestamps/v1"


async def test_a_version_is_named_by_the_header_or_else_by_the_query(ada_at, echo, subtests):
    for version in ("1.0", "1.0.0", "1.0.7", " 1.0 "):
        with subtests.test(version):
            assert (await ada_at("echo", version=version).call(*ASKING)).code == -32001
    assert (await ada_at("echo", version="").post(ASKED, path="/a2a/echo?A2A-Version=1.0")).code == -32001
    assert (await ada_at("echo", version="2.0").post(ASKED, path="/a2a/echo?A2A-Version=1.0")).code == -32009


async def test_a_version_that_is_not_known_is_not_supported(ada_at, echo, subtests):
    for version in ("1.1", "0.2", "abc", "1", "1.0.0.0", "1.0, 0.3", "v1.0", "١.٠".encode().decode("latin-1")):
        with subtests.test(version):
            answer = await ada_at("echo", version=version).call(*ASKING)
            assert (answer.code, answer.reason) == (-32009, "VERSION_NOT_SUPPORTED")
            assert "A2A-Version: 1.0" in answer.error["message"]


async def test_an_extension_that_is_known_is_activated_and_others_ignored(ada_at, echo, subtests):
    echo.capabilities = {"streaming": True, "extensions": [{"uri": EXTENSION}]}
    await echo.asave()
    for header in ("A2A-Extensions", "X-A2A-Extensions"):
        with subtests.test(header):
            answer = await ada_at("echo").call("ListTasks", {}, {header: f"https://example.com/other, {EXTENSION}"})
            assert answer.headers["A2A-Extensions"] == EXTENSION
    answer = await ada_at("echo").call("ListTasks", {}, {"A2A-Extensions": "https://example.com/other"})
    assert "A2A-Extensions" not in answer.headers


async def test_an_extension_that_is_required_must_be_named(ada_at, ada_rests, echo):
    echo.capabilities = {"extensions": [{"uri": EXTENSION, "required": True}]}
    await echo.asave()
    answer = await ada_at("echo").call("ListTasks", {})
    assert (answer.code, answer.reason) == (-32008, "EXTENSION_SUPPORT_REQUIRED")
    assert EXTENSION in answer.error["message"]
    assert (await ada_at("echo").call("ListTasks", {}, {"A2A-Extensions": EXTENSION})).result["tasks"] == []
    answer = await ada_rests("echo").ask("GET", "tasks")
    assert (answer.status, answer.reason) == (400, "EXTENSION_SUPPORT_REQUIRED")
    named = await ada_rests("echo").ask("GET", "tasks", headers={"A2A-Extensions": EXTENSION})
    assert (named.status, named.headers["A2A-Extensions"]) == (200, EXTENSION)
