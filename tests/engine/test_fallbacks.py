"""The first usable fallback takes an unreachable agent's turn, and says so."""

import contextlib
import json

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import CommandError

import db as database
from apps.agents.models import Agent
from apps.agents.registration import house_workspace, register_hosted
from apps.engine import delegation, send, turn
from apps.engine.recorder import Recorder
from apps.engine.worker import release_runs
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Event, Message, Task
from tests.engine import away
from tests.working import begin, carry_out, let_the_lease_run_out

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _reachable(settings):
    settings.EXECUTORS = settings.EXECUTORS | {"remote": "tests.engine.away.execute"}
    turn._executor_of.cache_clear()
    away.TRIED.clear()
    away.REACHABLE.clear()
    yield
    turn._executor_of.cache_clear()


def remote(slug: str, *fallbacks: str, **fields) -> Agent:
    named = {"name": slug.capitalize(), "description": "Somewhere else.", "workspace": house_workspace()}
    return Agent.objects.create(slug=slug, kind="remote", fallbacks=list(fallbacks), **named, **fields)


@pytest.fixture
def near(db) -> Agent:
    return register_hosted("near", "tests.engine.away:Substitute")


@pytest.fixture
def far(near) -> Agent:
    return remote("far", "near")


async def talk(ada, agent, message):
    sent = await send.send(ada.principal, agent, message)
    task = await send.wait_until_settled(sent.context, sent.task, sent.index, wire.load_task)
    assert await database.run(projection.differences, sent.context) == []
    return sent, task


def told(task):
    return task["history"][-1]["parts"][0]["text"]


def authors(task_id):
    said = Message.objects.filter(task=task_id, role="agent").select_related("agent")
    return [(one.agent.slug, one.metadata["agent"]) for one in said]


async def test_the_first_fallback_takes_the_turn_and_the_record_says_so(ada, far, worker, said):
    sent, task = await talk(ada, far, said("hello"))
    assert (task["status"]["state"], told(task)) == ("TASK_STATE_COMPLETED", "memory {}, skill None, 0 before: hello")
    assert await database.run(authors, sent.task) == [("near", "near")]
    assert task["history"][-1]["metadata"]["agent"] == "near"
    row, run = await database.run(lambda: (Task.objects.get(pk=sent.task), Run.objects.get(task=sent.task)))
    near = await database.run(Agent.objects.get, slug="near")
    assert (row.agent_id, run.agent_id, run.state) == (far.pk, near.pk, "done")
    assert run.input["agent"]["version"] == str(near.current_version_id)
    [said_by] = (
        await database.run(lambda: projection.read_authors(Event.objects.filter(context=sent.context)))
    ).values()
    assert (said_by.agent, said_by.run, said_by.version) == (near.pk, run.pk, 1)
    switch = await database.run(Event.objects.get, task=sent.task, payload__has_key="progress")
    assert switch.payload["message"]["parts"] == [{"text": "Far is not available. Near answers instead."}]
    assert switch.payload["agent"] == near.pk


async def test_an_agent_that_can_be_reached_is_not_replaced(ada, near, said):
    away.REACHABLE.add("far")
    sent = await send.send(ada.principal, await database.run(remote, "far", "near"), said())
    run = await database.run(Run.objects.get, task=sent.task)
    await carry_out(run.pk)
    assert await database.run(authors, sent.task) == [("far", "far")]
    assert (await database.run(Run.objects.get, pk=run.pk)).agent_id is None


async def test_a_hosted_agent_whose_handler_cannot_be_loaded_has_fallbacks_too(ada, near, echo, worker, said):
    broken = {"handler": "tests.engine.nowhere:Gone", "fallbacks": ["near"]}
    await database.run(Agent.objects.filter(pk=echo.pk).update, **broken)
    echo.handler = broken["handler"]
    _, task = await talk(ada, echo, said("hello"))
    assert told(task).endswith("hello")
    assert task["history"][-1]["metadata"]["agent"] == "near"


async def test_fallbacks_are_asked_in_their_order_and_not_theirs_in_turn(ada, near, worker, said):
    def cast():
        remote("circle", "first")
        remote("second", "near")
        return remote("first", "circle", "second")

    first = await database.run(cast)
    _, task = await talk(ada, first, said())
    assert away.TRIED == ["first", "circle", "second"]
    assert (task["status"]["state"], told(task)) == (
        "TASK_STATE_FAILED",
        "Second does not answer. Try again later.",
    )


async def test_without_a_fallback_the_task_fails_with_the_reason(ada, worker, said):
    sent, task = await talk(ada, await database.run(remote, "far"), said())
    assert (task["status"]["state"], told(task)) == ("TASK_STATE_FAILED", "Far does not answer. Try again later.")
    run = await database.run(Run.objects.get, task=sent.task)
    assert run.error == {"code": "unavailable", "message": "Far does not answer. Try again later."}


async def test_a_fallback_that_the_owner_may_not_use_or_that_is_off_is_passed_over(ada, near, worker, said):
    def cast():
        register_hosted("closed", "tests.engine.away:Substitute", access="groups")
        register_hosted("off", "tests.engine.away:Substitute", is_enabled=False)
        register_hosted("pictures", "tests.engine.away:Other")
        return remote("far", "closed", "off", "pictures", "near")

    message = said(parts=[{"text": "hi", "mediaType": "text/plain"}])
    sent, _ = await talk(ada, await database.run(cast), message)
    assert await database.run(authors, sent.task) == [("near", "near")]


async def test_what_was_begun_is_not_handed_on(ada, far, worker, said):
    _, task = await talk(ada, far, said("half"))
    assert (task["status"]["state"], told(task)) == ("TASK_STATE_FAILED", "Far does not answer. Try again later.")


async def test_the_answer_to_a_question_is_for_who_asked(ada, near, worker, said):
    away.REACHABLE.add("far")
    far = await database.run(remote, "far", "near")
    sent, asked = await talk(ada, far, said())
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    away.REACHABLE.clear()
    _, task = await talk(ada, far, said("this one", taskId=str(sent.task)))
    assert (task["status"]["state"], told(task)) == ("TASK_STATE_FAILED", "Far does not answer. Try again later.")


async def test_a_task_stays_with_who_took_it_over_and_the_next_asks_the_agent_itself(ada, far, worker, said):
    sent, asked = await talk(ada, far, said("ask"))
    assert told(asked) == "Which word?"
    away.TRIED.clear()
    _, done = await talk(ada, far, said("this", taskId=str(sent.task)))
    assert told(done) == "memory {'begun': True}, skill None, 2 before: this"
    assert away.TRIED == []
    context_id = done["contextId"]
    await talk(ada, far, said("next", contextId=context_id))
    assert away.TRIED == ["far"]


async def test_an_attempt_after_a_crash_goes_on_with_who_took_the_turn_over(ada, far, near, said):
    sent = await send.send(ada.principal, far, said())
    run = await database.run(Run.objects.get, task=sent.task)
    held = await database.run(begin, run.pk)
    task = turn.task_context(held, *_recording(held))
    assert await turn.hand_to_fallback(held, _recording(held)[0], task)
    await database.run(let_the_lease_run_out, held.lease)
    away.TRIED.clear()
    await carry_out(run.pk)
    assert away.TRIED == []
    assert await database.run(authors, sent.task) == [("near", "near")]
    starts = await database.run(lambda: [one.payload for one in Event.objects.filter(type="agent_start")])
    assert [start.get("agent") for start in starts] == [None, near.pk]
    assert await database.run(projection.differences, sent.context) == []


async def test_who_took_the_turn_over_says_that_it_was_cut_off(ada, far, near, said):
    await database.run(Agent.objects.filter(pk=near.pk).update, retry_safe=False)
    sent = await send.send(ada.principal, far, said())
    held = await database.run(begin, await database.run(lambda: Run.objects.get(task=sent.task).pk))
    recorder, calls = _recording(held)
    assert await turn.hand_to_fallback(held, recorder, turn.task_context(held, recorder, calls))
    await recorder.close()
    await database.run(release_runs, [held])
    assert await database.run(authors, sent.task) == [("near", "near")]
    assert await database.run(projection.differences, sent.context) == []


def _recording(assignment):
    recorder = Recorder(assignment)
    return recorder, delegation.Delegation(assignment, recorder, contextlib.nullcontext)


# Configuration


def test_what_cannot_be_a_fallback_is_refused(near):
    wrong = [
        (["near", "near"], "each once"),
        (["far"], "its own fallback"),
        (["nobody"], "There is no agent nobody"),
        ("near", "a list of slugs"),
        ([{}], "a list of slugs"),
    ]
    agent = remote("far")
    for agent.fallbacks, sentence in wrong:
        with pytest.raises(ValidationError) as refused:
            agent.full_clean()
        assert sentence in json.dumps(refused.value.message_dict)


def test_the_command_names_them_in_their_order(near, echo, capsys):
    options = {"handler": "tests.engine.away:Substitute", "fallbacks": ["near", "echo"]}
    call_command("register_agent", "new", **options)
    assert Agent.objects.get(slug="new").fallbacks == ["near", "echo"]
    with pytest.raises(CommandError, match="There is no agent nobody"):
        call_command("register_agent", "new", **options | {"fallbacks": ["nobody"]})
