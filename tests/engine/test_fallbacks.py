"""The first usable fallback takes an unreachable agent's turn, and says so."""

import contextlib
import functools
import json

import pytest
from django.core.exceptions import ValidationError

from agentkit import InputRequired, SkillHandler
from apps.agents.models import Agent
from apps.agents.registration import house_workspace, register_hosted
from apps.engine import send
from apps.engine.turns import delegation, turn
from apps.engine.turns.recorder import Recorder
from apps.engine.worker import release_runs
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Message, Task
from parley import db as database
from parley.registry import added
from tests.engine.delegating import run_of, take_turn, the_record_holds, words
from tests.working import begin, carry_out, let_the_lease_run_out

pytestmark = pytest.mark.django_db(transaction=True)

TRIED, REACHABLE = [], set()
UNREACHED = "Far does not answer. Try again later."


@pytest.fixture(autouse=True)
def remote_agents(monkeypatch):
    """Those that are not reachable; the others ask for a word."""

    async def execute(assignment, task, _):
        TRIED.append(assignment.agent.slug)
        if assignment.agent.slug in REACHABLE:
            return InputRequired("Which?", slot="word")
        if "half" in task.message.text:
            await task.token("half")
        raise turn.AgentUnavailable(f"{assignment.agent.name} does not answer. Try again later.")

    monkeypatch.setitem(added, ("executors", "remote"), execute)
    TRIED.clear()
    REACHABLE.clear()


class Substitute(SkillHandler):
    name = "Near"
    retry_safe = True

    async def on_request(self, task):
        if task.message.text == "ask":
            task.memory["begun"] = True
            return InputRequired("Which word?", slot="word")
        return f"memory {task.memory}, skill {task.skill}, {len(task.history)} before: {task.message.text}"


class Pictures(Substitute):
    input_modes = ("image/png",)


def hosted(slug, kind=Substitute, **policies):
    return register_hosted(slug, f"{__name__}:{kind.__name__}", **policies)


def remote(slug: str, *fallbacks: str, **fields) -> Agent:
    named = {"name": slug.capitalize(), "description": "Somewhere else.", "workspace": house_workspace()}
    return Agent.objects.create(slug=slug, kind="remote", fallbacks=list(fallbacks), **named, **fields)


@pytest.fixture
def near(db):
    return hosted("near")


@pytest.fixture
def far(near):
    return remote("far", "near")


@pytest.fixture
def talk(ada):
    return functools.partial(take_turn, ada.principal)


async def authors(task):
    rows = Message.objects.filter(task=task, role="agent").select_related("agent")
    return [(one.agent.slug, one.metadata["agent"]) async for one in rows]


async def test_first_fallback_takes_the_turn(talk, far, near, said):
    task = await talk(far, said("hello"))
    assert (task.state, words(task)) == ("completed", "memory {}, skill None, 0 before: hello")
    assert await authors(task) == [("near", "near")]
    run = await run_of(task)
    assert (task.agent_id, run.agent_id, run.state) == (far.pk, near.pk, "done")
    assert run.input["agent"]["version"] == str(near.current_version_id)
    events = Event.objects.filter(context=task.context_id)
    [said_by] = (await database.run(projection.read_authors, events)).values()
    assert (said_by.agent, said_by.run, said_by.version) == (near.pk, run.pk, 1)
    switch = await events.aget(task=task, payload__has_key="progress")
    assert switch.payload["message"]["parts"] == [{"text": "Far is not available. Near answers instead."}]
    assert switch.payload["agent"] == near.pk


async def test_answer_to_a_question_is_for_who_asked(talk, far, said):
    REACHABLE.add("far")
    asked = await talk(far, said())
    assert (asked.state, await authors(asked)) == ("input-required", [("far", "far")])
    assert (await run_of(asked)).agent_id is None
    REACHABLE.clear()
    task = await talk(far, said("this one", taskId=str(asked.pk)))
    assert (task.state, words(task)) == ("failed", UNREACHED)


@pytest.mark.parametrize(("slugs", "text"), [((), "hello"), (("near",), "half")], ids=["no fallback", "begun"])
async def test_turn_without_usable_fallback_fails(talk, near, said, slugs, text):
    task = await talk(await database.run(remote, "far", *slugs), said(text))
    assert (task.state, words(task)) == ("failed", UNREACHED)
    assert (await run_of(task)).error == {"code": "unavailable", "message": UNREACHED}


async def test_closed_or_unfit_fallback_is_passed_over(talk, near, said):
    def cast():
        hosted("closed", access="groups")
        hosted("off", is_enabled=False)
        hosted("pictures", Pictures)
        gone = hosted("gone", fallbacks=["closed", "off", "pictures", "near"])
        gone.handler = "tests.engine.nowhere:Gone"
        gone.save()
        return gone

    message = said(parts=[{"text": "hi", "mediaType": "text/plain"}])
    assert await authors(await talk(await database.run(cast), message)) == [("near", "near")]


@pytest.mark.parametrize("retry_safe", [True, False])
async def test_attempt_after_crash_stays_with_fallback(ada, far, near, said, retry_safe):
    await Agent.objects.filter(pk=near.pk).aupdate(retry_safe=retry_safe)
    sent = await send.send(ada.principal, far, said())
    held = await database.run(lambda: begin(Run.objects.get(task=sent.task).pk))
    recorder = Recorder(held)
    calls = delegation.Delegation(held, recorder, contextlib.nullcontext)
    assert await turn.hand_to_fallback(held, recorder, turn.task_context(held, recorder, calls))
    if retry_safe:
        await database.run(let_the_lease_run_out, held.lease)
        await carry_out(held.lease.run_id)
        starts = [one.payload.get("agent") async for one in Event.objects.filter(type="agent_start")]
        assert starts == [None, near.pk]
    else:
        await recorder.close()
        await database.run(release_runs, [held])
    assert TRIED == []
    assert await authors(await Task.objects.aget()) == [("near", "near")]
    await the_record_holds()


@pytest.mark.parametrize(
    ("fallbacks", "sentence"),
    [
        (["near", "near"], "each once"),
        (["far"], "its own fallback"),
        (["nobody"], "There is no agent nobody"),
        ([{}], "a list of slugs"),
    ],
)
def test_unfit_fallbacks_are_refused(near, fallbacks, sentence):
    agent = remote("far")
    agent.fallbacks = fallbacks
    with pytest.raises(ValidationError) as refused:
        agent.full_clean()
    assert sentence in json.dumps(refused.value.message_dict)
