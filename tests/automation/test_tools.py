"""Agents keep the schedules of whom they talk to, who confirms each call."""

import pytest

from apps.accounts.models import User
from apps.automation import cron, schedules
from apps.automation.models import Schedule
from apps.conversations.sessions import commands
from parley import db
from tests.agents.definitions import clerk
from tests.engine.delegating import take_turn, words
from tests.model_agents.conftest import endpoint
from tests.model_agents.endpoint import calls, says

__all__ = ["endpoint"]
pytestmark = pytest.mark.django_db(transaction=True)
TOOLS = ["make_schedule", "list_schedules", "change_schedule"]
MONDAYS = {"name": "News", "message": "What is new?", "cron": "0 9 * * 1"}
YES, NO = {"decision": "approve"}, {"decision": "refuse"}


@pytest.fixture
def agent(ada):
    User.objects.filter(pk=ada.pk).update(time_zone="Asia/Tokyo")
    return clerk(tools=TOOLS)


@pytest.fixture
def asked(ada, agent, said, endpoint):
    """The task after a model's call of a tool, and after the person's decision if there is one."""

    async def ask(tool, arguments, decision=None, person=ada, context=""):
        endpoint.replies = [calls((tool, arguments)), says("Done.")]
        task = await take_turn(person.principal, agent, said(contextId=context))
        if decision is None:
            return task
        answer = said(taskId=str(task.pk), parts=[{"data": decision}])
        return await take_turn(person.principal, agent, answer)

    return ask


def make(person, agent, name="News"):
    about = {"name": name, "agent": agent, "text": "Hello", "kind": "cron", "cron": "0 9 * * 1"}
    return schedules.save(person.principal, Schedule(**about))


def results(endpoint):
    return [one["content"] for one in endpoint.requests[-1]["messages"] if one["role"] == "tool"]


async def test_confirmed_schedule_is_the_persons(ada, asked, agent):
    task = await asked("make_schedule", MONDAYS)
    [call] = task.slot["value"]["calls"]
    assert task.state == "input-required"
    assert "on Mondays at 9:00, Asia/Tokyo" in call["effect"]
    assert call["effect"].count(" 09:00") == 3
    assert not await Schedule.objects.aexists()
    task = await asked("make_schedule", MONDAYS, YES)
    made = await Schedule.objects.select_related("agent").aget()
    assert (task.state, words(task)) == ("completed", "Done.")
    assert (made.owner_id, made.agent, made.text, made.time_zone) == (ada.pk, agent, "What is new?", "Asia/Tokyo")
    assert (made.next_at.weekday(), made.next_at.hour) == (0, 0), "in UTC"


async def test_runs_can_go_on_in_one_session(asked):
    task = await asked("make_schedule", MONDAYS | {"same_session": True})
    assert "same session" in task.slot["value"]["calls"][0]["effect"]
    await asked("make_schedule", MONDAYS | {"same_session": True}, YES)
    assert (await Schedule.objects.aget()).sessions == Schedule.Sessions.SAME


async def test_person_decides_about_each_call(asked):
    await asked("make_schedule", MONDAYS, NO)
    assert not await Schedule.objects.aexists()
    await asked("make_schedule", MONDAYS, YES | {"arguments": MONDAYS | {"cron": "30 7 * * 5"}})
    assert (await Schedule.objects.aget()).cron == "30 7 * * 5"


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "0 9 31 2 *"},
        {"cron": "* * * * *"},
        {"cron": ""},
        {"at": "2030-12-24T18:00"},
        {"cron": "", "at": "tomorrow"},
        {"cron": "", "at": "2001-01-01T00:00"},
        {"agent": "nobody"},
        {"message": " "},
    ],
    ids=str,
)
async def test_nobody_is_asked_about_an_impossible_schedule(asked, endpoint, settings, wrong):
    settings.SCHEDULE_MIN_SECONDS = 300
    task = await asked("make_schedule", MONDAYS | wrong)
    assert task.state == "completed"
    assert "ValueError: " in str(results(endpoint)[0])


@pytest.mark.parametrize(
    ("change", "left"), [("pause", [True]), ("resume", [False]), ("delete", [])], ids=["pause", "resume", "delete"]
)
async def test_own_schedule_is_changed_once_confirmed(ada, asked, agent, change, left):
    made = await db.run(make, ada, agent)
    if change == "resume":
        await db.run(schedules.pause, made)
    task = await asked("change_schedule", {"schedule": "news", "change": change})
    assert "“News”, on Mondays at 9:00" in task.slot["value"]["calls"][0]["effect"]
    await asked("change_schedule", {"schedule": str(made.pk), "change": change}, YES)
    assert [one.paused_at is not None async for one in Schedule.objects.all()] == left


async def test_schedules_of_others_are_not_there(ada, bob, asked, endpoint, agent):
    await db.run(make, bob, agent)
    task = await asked("change_schedule", {"schedule": "News", "change": "delete"})
    assert task.state == "completed"
    await asked("list_schedules", {})
    assert results(endpoint) == ["There are no schedules."]
    assert await Schedule.objects.acount() == 1


async def test_temporary_session_reaches_no_schedules(ada, asked, endpoint, agent):
    await db.run(make, ada, agent)
    session = (await db.run(lambda: commands.create_session(ada.principal, agent, temporary=True))).context
    for tool, arguments in (
        ("list_schedules", {}),
        ("change_schedule", {"schedule": "News", "change": "delete"}),
        ("make_schedule", MONDAYS),
    ):
        task = await asked(tool, arguments, context=session.context_id)
        assert task.state == "completed"
        assert "ValueError: " in str(results(endpoint)[-1])


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 9 * * 1-5", "on weekdays at 9:00"),
        ("30 8,17 * * *", "every day at 8:30 and 17:30"),
        ("0 9 * * mon,wed,7", "on Mondays, Wednesdays and Sundays at 9:00"),
        ("*/15 * * * *", "every 15 minutes"),
        ("5 * * * *", "every hour at minute 5"),
        ("@monthly", "on day 1 of each month at 0:00"),
        ("0 9 1 1 *", "at the times 0 9 1 1 *"),
        ("0 9 * * 1#2", "at the times 0 9 * * 1#2"),
    ],
)
def test_times_are_told_in_words(expression, said):
    assert cron.in_words(expression) == said
