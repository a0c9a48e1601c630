"""The version of the protocol decides, not the method's name; extensions are named or ignored."""

import pytest

pytestmark = pytest.mark.django_db(transaction=True)

ASKING = ("GetTask", {"id": "a"})
EXTENSION = "https://example.com/ext/timestamps/v1"


async def test_a_version_that_is_served_is_answered(ada_at, echo, subtests):
    for version in ("1.0", "1.0.0", "1.0.7", " 1.0 "):
        with subtests.test(version):
            assert (await ada_at("echo", version=version).call(*ASKING)).code == -32001


async def test_the_version_may_stand_in_the_query(ada_at, echo):
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "a"}}
    assert (await ada_at("echo", version="").post(body, path="/a2a/echo?A2A-Version=1.0")).code == -32001


async def test_the_header_comes_before_the_query(ada_at, echo):
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "a"}}
    assert (await ada_at("echo", version="2.0").post(body, path="/a2a/echo?A2A-Version=1.0")).code == -32009


async def test_a_version_that_is_not_known_is_not_supported(ada_at, echo, subtests):
    for version in ("1.1", "2.0", "0.2", "abc", "1", "1.0.0.0", "1.0, 0.3", "v1.0", "١.٠".encode().decode("latin-1")):
        with subtests.test(version):
            answer = await ada_at("echo", version=version).call(*ASKING)
            assert answer.code == -32009
            assert answer.reason == "VERSION_NOT_SUPPORTED"
            assert "A2A-Version: 1.0" in answer.error["message"]


async def test_a_method_of_1_0_without_the_header_is_not_found_and_the_header_is_named(ada_at, echo, subtests):
    for version in ("", "0.3", "0.3.0"):
        with subtests.test(version):
            answer = await ada_at("echo", version=version).call(*ASKING)
            assert answer.code == -32601
            assert "A2A-Version: 1.0" in answer.error["message"]


@pytest.fixture
def extended(echo):
    echo.capabilities = {"streaming": True, "extensions": [{"uri": EXTENSION}]}
    echo.save()


async def test_an_extension_that_is_known_is_activated_and_others_ignored(ada_at, extended, subtests):
    for header in ("A2A-Extensions", "X-A2A-Extensions"):
        with subtests.test(header):
            answer = await ada_at("echo").call("ListTasks", {}, {header: f"https://example.com/other, {EXTENSION}"})
            assert answer.headers["A2A-Extensions"] == EXTENSION
    answer = await ada_at("echo").call("ListTasks", {}, {"A2A-Extensions": "https://example.com/other"})
    assert "A2A-Extensions" not in answer.headers


async def test_an_extension_that_is_required_must_be_named(ada_at, echo, extended):
    echo.capabilities = {"extensions": [{"uri": EXTENSION, "required": True}]}
    await echo.asave()
    answer = await ada_at("echo").call("ListTasks", {})
    assert answer.code == -32008
    assert answer.reason == "EXTENSION_SUPPORT_REQUIRED"
    assert EXTENSION in answer.error["message"]
    assert (await ada_at("echo").call("ListTasks", {}, {"A2A-Extensions": EXTENSION})).result["tasks"] == []
