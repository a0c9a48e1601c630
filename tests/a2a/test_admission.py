"""Who may call which agent, and what the others are told."""

import datetime

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

import bridge
from apps.accounts.models import ApiKey
from apps.accounts.principals import SCOPES
from apps.agents.models import Agent
from tests.a2a.calling import Caller, message

pytestmark = pytest.mark.django_db(transaction=True)

ASKING = ("GetTask", {"id": "a"})


def check_challenge(answer):
    assert answer.status == answer.code == 401
    assert answer.reason == "UNAUTHENTICATED"
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="parley"'
    assert answer.body["id"] is None


@pytest.fixture
def keys(ada):
    """Keys that will not do, by what is wrong with them."""
    good, text = ApiKey.issue(ada, "good")
    expired = ApiKey.issue(ada, "expired", lifetime=datetime.timedelta(seconds=-1))[1]
    revoked, revoked_text = ApiKey.issue(ada, "revoked")
    revoked.revoke()
    return {
        "expired": expired,
        "revoked": revoked_text,
        "with a wrong secret": text[:-1] + ("a" if text[-1] != "a" else "b"),
        "with another's prefix": revoked_text.rpartition("_")[0] + "_" + text.rpartition("_")[2],
        "without a secret": f"parley_{good.prefix}_",
        "of another make": "sk-12345",
        "of odd characters": "parley_%00'\"_ü",
    }


async def test_a_key_that_will_not_do_is_refused_with_a_challenge(keys, echo, public_echo, subtests):
    for what, key in keys.items():
        for slug in ("echo", "open-echo"):
            with subtests.test(f"a key {what} at {slug}"):
                check_challenge(await Caller(slug, key).call(*ASKING))


async def test_another_scheme_is_refused(ada_key, echo, anybody_at, subtests):
    for header in (f"Basic {ada_key}", ada_key, "Bearer", "Bearer  "):
        with subtests.test(header[:7]):
            check_challenge(await anybody_at("echo").call(*ASKING, {"Authorization": header}))


async def test_the_scheme_may_be_in_any_case(ada_key, echo, anybody_at):
    assert (await anybody_at("echo").call(*ASKING, {"Authorization": f"bearer {ada_key}"})).code == -32001


async def test_the_key_of_somebody_who_left_is_refused(ada, ada_at, echo):
    ada.is_active = False
    await ada.asave()
    check_challenge(await ada_at("echo").call(*ASKING))


async def test_an_agent_for_known_callers_asks_anybody_for_a_key(echo, anybody_at):
    check_challenge(await anybody_at("echo").call(*ASKING))


async def test_an_open_agent_takes_anybody(public_echo, anybody_at):
    assert (await anybody_at("open-echo").call(*ASKING)).code == -32001


async def test_a_session_is_no_credential(ada, echo, anybody_at):
    caller = anybody_at("echo")
    await bridge.run(caller.client.force_login, ada)
    check_challenge(await caller.call(*ASKING))


@pytest.fixture
def club(ada):
    group = Group.objects.create(name="club")
    ada.groups.add(group)
    agent = Agent.objects.create(
        slug="club", name="Club", description="For members.", handler="x.y:Z", access=Agent.Access.GROUPS,
        workspace=ada.personal_workspace,
    )  # fmt: skip
    agent.groups.add(group)
    return agent


async def test_an_agent_for_a_group_is_there_for_its_members_alone(club, ada_at, bob_at, anybody_at):
    assert (await ada_at("club").call(*ASKING)).code == -32001
    stranger, nobody = await bob_at("club").call(*ASKING), await bob_at("no-such-agent").call(*ASKING)
    assert stranger.status == stranger.code == 404
    assert stranger.body == nobody.body
    check_challenge(await anybody_at("club").call(*ASKING))


async def test_an_agent_that_is_switched_off_is_not_there(echo, ada_at):
    echo.is_enabled = False
    await echo.asave()
    assert (await ada_at("echo").call(*ASKING)).status == 404


async def test_an_agent_that_never_was_is_a_404_in_json(ada_at, anybody_at, subtests):
    for slug in ("nobody", "NOBODY", "a%00b", "%F0%9F%98%80", ".well-known", "..", "x" * 300):
        with subtests.test(slug):
            for caller in (ada_at(slug), anybody_at(slug)):
                answer = await caller.call(*ASKING)
                assert answer.status == answer.code == 404
                assert answer.error["message"]


async def test_the_use_of_a_key_is_noted(ada, ada_at, echo):
    await ada_at("echo").call(*ASKING)

    def noted():
        return ApiKey.objects.get(user=ada).last_used_at

    for _ in range(50):  # written after the answer, by another thread
        if await bridge.run(noted):
            break
    assert timezone.now() - await bridge.run(noted) < datetime.timedelta(minutes=1)


async def test_without_a_key_nothing_is_read(echo, anybody_at):
    check_challenge(await anybody_at("echo").post(b"{"))
    check_challenge(await anybody_at("echo").call("SendMessage", {"message": message()}))


async def test_a_key_does_what_its_scopes_allow(worker, ada, echo):
    reading, writing = [Caller("echo", (await bridge.run(ApiKey.issue, ada, "k", scopes=[s]))[1]) for s in SCOPES]
    task = (await writing.send(message("hi"))).result["task"]
    assert (await reading.call("GetTask", {"id": task["id"]})).result["id"] == task["id"]
    for answer in (
        await reading.send(message("hi")),
        await reading.call("CancelTask", {"id": task["id"]}),
        await writing.call("GetTask", {"id": task["id"]}),
        await writing.call("ListTasks", {}),
    ):
        assert (answer.status, answer.code, answer.reason) == (403, 403, "PERMISSION_DENIED")


def test_a_scope_that_does_not_exist_is_refused(ada):
    with pytest.raises(ValueError, match="There is no scope tasks:sing"):
        ApiKey.issue(ada, "key", scopes=["tasks:sing"])
