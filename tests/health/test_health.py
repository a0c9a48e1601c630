"""What is measured of agents, and whether they can work: operators are told why not, others only that."""

import datetime
import logging
import sys
import uuid

import pytest
from django.test import AsyncClient, override_settings

from agentkit import Completed, Failed, HandlerError, Rejected, SkillHandler, Usage
from apps.agents.cards import HEALTH_REASONS
from apps.agents.models import Agent, AgentStats
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel, jobs, send
from apps.engine.turns import handlers
from apps.health import monitoring
from apps.health.monitoring import examine_agents, measure_agents, observe
from apps.record.execution import Run
from apps.record.models import Context, Message, Task
from apps.record.runs import UsageTotals
from parley import db as database
from tests.agents.definitions import clerk
from tests.engine.delegating import done
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("its SQL is each database's own")]

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
GONE = "The module 'gone_agents' of 'gone_agents:Gone' cannot be imported"
URI = "http://127.0.0.1:8000/ext/health/v1"


def health_of(agent):
    agent.refresh_from_db()
    return agent.health, agent.ailment


def examined(agent):
    examine_agents()
    return health_of(agent)


def lose_handler(agent):
    Agent.objects.filter(pk=agent.pk).update(handler="gone_agents:Gone")


def stats_of(agent):
    measure_agents()
    return AgentStats.objects.get(pk=agent.pk)


def make_runs(ada, agent, *turns, at=NOW):
    """Consecutive turns: (state, seconds waited, seconds it took)."""
    home = {"workspace": agent.workspace, "owner": ada, "agent": agent}
    context = Context.objects.create(context_id=uuid.uuid4().hex, **home, created_at=at, updated_at=at)
    tasks, messages, runs = [], [], []
    for number, (state, waited, took) in enumerate(turns):
        queued = at + datetime.timedelta(seconds=number)
        started = queued + datetime.timedelta(seconds=waited)
        finished = started + datetime.timedelta(seconds=took)
        events = {"first_event": number + 1, "status_event": number + 1}
        tasks.append(Task(context=context, state="completed", created_at=queued, status_at=queued, **events, **home))
        said = {"role": "user", "message_id": uuid.uuid4().hex, "parts": [], "created_at": queued}
        messages.append(Message(context=context, task=tasks[-1], index=number + 1, **said))
        times = {"queued_at": queued, "started_at": started, "finished_at": finished if state != "running" else None}
        runs.append(Run(task=tasks[-1], message=messages[-1], turn=1, state=state, **times))
    for model, rows in ((Task, tasks), (Message, messages), (Run, runs)):
        model.objects.bulk_create(rows, batch_size=500)


def test_missing_handler_makes_its_agent_unavailable(echo, countdown, caplog):
    lose_handler(echo)
    with caplog.at_level(logging.WARNING, "parley.engine"):
        examine_agents()
        health, ailment = examined(echo)
    assert (health, ailment.startswith(GONE), "\n" in ailment) == ("unavailable", True, False)
    assert caplog.text.count("agent echo is unavailable") == 1
    assert health_of(countdown) == ("ok", "")
    with pytest.raises(HandlerError):
        register_hosted("echo", "gone_agents:Gone")
    assert health_of(echo)[0] == "unavailable"
    register_hosted("echo", "examples.agents.echo:Echo")
    assert health_of(echo) == ("ok", "")


def test_agent_recovers_with_its_module(echo, tmp_path, monkeypatch):
    lose_handler(echo)
    Agent.objects.update(is_enabled=False)
    assert examined(echo) == ("ok", ""), "what is switched off is left alone"
    Agent.objects.update(is_enabled=True)
    with jobs.embedded_worker(grace=1):
        assert health_of(echo)[0] == "unavailable", "a process looks at its start"
    (tmp_path / "gone_agents.py").write_text("def Gone(text):\n    return text\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert examined(echo) == ("ok", "")
    finally:
        sys.modules.pop("gone_agents", None)
        handlers.forget()


async def test_handler_says_what_it_lacks(agent):
    missing = ["No language model is configured. Set LLM_MODEL."]

    class Moody(SkillHandler):
        async def on_request(self, task):
            return "fine"

        def ailment(self):
            if missing == ["raise"]:
                raise RuntimeError("no mood")
            return "".join(missing)

    moody = await agent(Moody)
    assert await database.run(examined, moody) == ("unavailable", missing[0])
    missing[:] = ["raise"]
    told = "could not say whether it can work: RuntimeError('no mood')"
    assert told in (await database.run(examined, moody))[1]
    missing.clear()
    assert await database.run(examined, moody) == ("ok", "")


@pytest.mark.parametrize(
    ("succeeded", "failed", "health"),
    [(10, 10, "ok"), (9, 11, "degraded"), (0, 4, "ok"), (2, 3, "degraded")],
)
def test_mostly_failing_agent_is_degraded(ada, echo, succeeded, failed, health):
    if succeeded + failed == 20:
        make_runs(ada, echo, *[("done", 0, 1.0)] * 100)
    turns = [("done", 0, 1.0)] * succeeded + [("failed", 0, 1.0)] * failed
    make_runs(ada, echo, *turns, at=ada.date_joined)
    observe()
    ailment = f"{failed} of its last {succeeded + failed} turns failed." if health == "degraded" else ""
    assert health_of(echo) == (health, ailment)


async def test_card_tells_health_without_reason(echo):
    client = AsyncClient()

    async def told():
        response = await client.get("/a2a/echo/.well-known/agent-card.json")
        [extension] = [one for one in response.json()["capabilities"]["extensions"] if one["uri"] == URI]
        return response, extension["params"]

    before, params = await told()
    assert params == {"status": "ok"}
    await database.run(lose_handler, echo)
    await database.run(examine_agents)
    after, params = await told()
    assert params == {"status": "unavailable", "reason": HEALTH_REASONS["unavailable"]}
    assert "gone_agents" not in after.content.decode()
    assert after["ETag"] != before["ETag"]


@pytest.fixture
def with_model(settings):
    settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "test-model", "http://127.0.0.1:1/v1", ""


@pytest.mark.usefixtures("with_model")
@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ({"LLM_MODEL": ""}, "No language model is connected"),
        ({"LLM_BASE_URL": ""}, "The language model test-model cannot be reached. Set LLM_API_KEY"),
        ({"AGENT_TOOLS": ["tests.agents.another_clock"]}, "There is no tool calculate here"),
        ({"AGENT_TOOLS": ["nowhere.tools"]}, "The module 'nowhere.tools' of AGENT_TOOLS cannot be imported"),
    ],
)
def test_agent_without_code_says_what_it_lacks(missing, sentence):
    agent = clerk(tools=["calculate"])
    assert examined(agent) == ("ok", "")
    with override_settings(**missing):
        health, ailment = examined(agent)
        assert (health, ailment.startswith(sentence)) == ("unavailable", True), ailment


# Measures


async def test_real_work_is_measured(worker, ada, echo, said):
    hello = await database.run(register_hosted, "hello", "examples.agents.hello:Hello")
    for number in range(3):
        await done(ada.principal, echo, said(f"hi {number}"))
    for number in range(2):
        await send.send(ada.principal, hello, said(f"hello {number}"))
    worked, spoke = await database.run(stats_of, echo), await database.run(stats_of, hello)
    assert (worked.runs, worked.succeeded, worked.success_rate) == (3, 3, 1.0)
    assert 0 < worked.took_p50 <= worked.took_p95 < 30
    assert 0 <= worked.waited_p50 <= worked.waited_p95 < 30
    assert worked.latency_ms == round(1000 * (worked.took_p50 + worked.waited_p50))
    assert (worked.tasks, worked.tasks_of_a_day, worked.messages) == (3, 3, 0)
    assert (spoke.tasks, spoke.messages, spoke.messages_of_a_day, spoke.runs) == (0, 2, 2, 0)


def test_rejected_and_canceled_turns_are_no_failures(ada, echo, countdown, said):
    for runs, (outcome, succeeded) in enumerate([(Failed("no"), 0), (Completed("done"), 1), (Rejected("no"), 2)], 1):
        end(begin(accept.accept(ada.principal, echo, said()).run), outcome)
        stats = stats_of(echo)
        assert (stats.runs, stats.succeeded, stats.took_p50 is None) == (runs, succeeded, succeeded == 0)
    receipts = [accept.accept(ada.principal, countdown, said()) for _ in range(3)]
    begin(receipts[0].run)
    assert (stats_of(countdown).queued, stats_of(countdown).running) == (2, 1)
    cancel.cancel_task(Task.objects.get(pk=receipts[0].task))
    stats = stats_of(countdown)
    assert (stats.runs, stats.running, stats.tasks) == (0, 0, 3)


def test_percentiles_are_of_successful_turns(ada, echo, countdown):
    make_runs(ada, echo, *[("done", number / 10, float(number)) for number in range(1, 101)], ("failed", 0, 5000.0))
    make_runs(ada, countdown, ("done", 2.0, 7.0))
    stats = stats_of(echo)
    assert (stats.runs, stats.succeeded) == (101, 100)
    assert [stats.took_p50, stats.took_p95, stats.waited_p50, stats.waited_p95] == pytest.approx(
        [50, 95, 5.0, 9.5], abs=1e-3
    )
    assert [stats_of(countdown).took_p50, stats_of(countdown).waited_p95] == pytest.approx([7, 2], abs=1e-3)


def test_newest_turns_and_their_tokens_count(ada, echo):
    make_runs(ada, echo, *[("failed", 0, 1.0)] * 500)
    make_runs(ada, echo, *[("done", 0, 2.0)] * 190, at=NOW + datetime.timedelta(seconds=10_000))
    newest = [("failed", 0, 1.0)] * 4 + [("canceled", 0, 1.0)] * 90 + [("running", 0, 0)]
    make_runs(ada, echo, *newest, at=NOW + datetime.timedelta(seconds=20_000))
    for run, counts in zip(
        Run.objects.filter(state="failed").order_by("-queued_at")[:2], [(100, 7), (11, 0)], strict=True
    ):
        spent = UsageTotals()
        spent.add(Usage("a-model", 1, *counts))
        Run.objects.filter(pk=run.pk).update(usage=spent.as_json)
    stats = stats_of(echo)
    assert (stats.runs, stats.succeeded) == (monitoring.MEASURED_RUNS, 190)
    assert (stats.newest_runs, stats.newest_succeeded) == (20, 16)
    assert (stats.input_tokens, stats.output_tokens) == (111, 7)
