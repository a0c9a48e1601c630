"""Measuring any number of agents takes the same number of statements."""

import datetime
import uuid

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import db as database
from agentkit import Completed, Failed, Rejected, Usage
from apps.agents.models import Agent, AgentStats
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel, send
from apps.engine.send import wait_until_settled
from apps.features.health import monitoring
from apps.features.health.monitoring import measure_agents
from apps.features.sessions import commands
from apps.record.execution import Run
from apps.record.models import Context, Message, Task
from apps.record.runs import UsageTotals
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("its SQL is each database's own")]

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def second(number):
    return NOW + datetime.timedelta(seconds=number)


def stats_of(agent):
    measure_agents()
    return AgentStats.objects.get(pk=agent.pk)


@pytest.fixture
def hello(db):
    return register_hosted("hello", "examples.agents.hello:Hello")


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


def test_an_agent_that_did_nothing_has_nothing_measured(echo):
    stats = stats_of(echo)
    assert (stats.runs, stats.took_p50, stats.success_rate, stats.latency_ms, stats.tasks) == (0, None, None, None, 0)
    assert (stats.ratings, stats.mean_rating) == (0, None)


async def test_real_work_is_measured(worker, ada, echo, hello, said):
    for number in range(3):
        sent = await send.send(ada.principal, echo, said(f"hi {number}"))
        await wait_until_settled(sent.context, sent.task, sent.index, lambda task: task, sent.since)
    for number in range(2):
        await send.send(ada.principal, hello, said(f"hello {number}"))
    worked, spoke = await database.run(stats_of, echo), await database.run(stats_of, hello)
    assert (worked.runs, worked.succeeded, worked.success_rate) == (3, 3, 1.0)
    assert 0 < worked.took_p50 <= worked.took_p95 < 30
    assert 0 <= worked.waited_p50 <= worked.waited_p95 < 30
    assert worked.latency_ms == round(1000 * (worked.took_p50 + worked.waited_p50))
    assert (worked.tasks, worked.tasks_of_a_day, worked.messages) == (3, 3, 0)
    assert (spoke.tasks, spoke.messages, spoke.messages_of_a_day, spoke.runs) == (0, 2, 2, 0)


def test_a_failure_is_one_and_a_refusal_is_none(ada, echo, said):
    ends = [(Failed("broken"), 0), (Completed("done"), 1), (Rejected("not mine"), 2)]
    for runs, (outcome, succeeded) in enumerate(ends, 1):
        end(begin(accept.accept(ada.principal, echo, said()).run), outcome)
        stats = stats_of(echo)
        assert (stats.runs, stats.succeeded) == (runs, succeeded)
        assert (stats.took_p50 is None) == (succeeded == 0)


def test_load_is_what_waits_and_runs_and_what_a_person_stopped_is_neither_success_nor_failure(
    ada, echo, countdown, said
):
    receipts = [accept.accept(ada.principal, echo, said()) for _ in range(3)]
    begin(receipts[0].run)
    accept.accept(ada.principal, countdown, said())
    assert (stats_of(echo).queued, stats_of(echo).running) == (2, 1)
    assert stats_of(countdown).queued == 1
    cancel.cancel_task(Task.objects.get(pk=receipts[0].task))
    stats = stats_of(echo)
    assert (stats.runs, stats.running, stats.tasks) == (0, 0, 3)


def test_percentiles_are_by_nearest_rank_of_turns_that_succeeded(ada, echo, countdown):
    make_runs(ada, echo, *[("done", number / 10, float(number)) for number in range(1, 101)], ("failed", 0, 5000.0))
    make_runs(ada, countdown, ("done", 2.0, 7.0))
    stats = stats_of(echo)
    assert (stats.runs, stats.succeeded) == (101, 100)
    assert [stats.took_p50, stats.took_p95, stats.waited_p50, stats.waited_p95] == pytest.approx(
        [50, 95, 5.0, 9.5], abs=1e-3
    )
    assert [stats_of(countdown).took_p50, stats_of(countdown).waited_p95] == pytest.approx([7, 2], abs=1e-3)


def test_only_the_newest_count(ada, echo):
    make_runs(ada, echo, *[("failed", 0, 1.0)] * 500)
    make_runs(ada, echo, *[("done", 0, 2.0)] * 190, at=second(10_000))
    make_runs(ada, echo, *[("failed", 0, 1.0)] * 4, *[("canceled", 0, 1.0)] * 90, ("running", 0, 0), at=second(20_000))
    stats = stats_of(echo)
    assert (stats.runs, stats.succeeded) == (monitoring.MEASURED_RUNS, 190)
    assert (stats.newest_runs, stats.newest_succeeded) == (20, 16)


def test_tokens_of_language_models_are_summed(ada, echo):
    make_runs(ada, echo, ("done", 0, 1), ("done", 0, 1), ("failed", 0, 1))
    first, _, third = Run.objects.order_by("queued_at")
    for run, counts in ((first, (100, 7)), (third, (11, 0))):
        spent = UsageTotals()
        spent.add(Usage("a-model", 1, *counts))
        Run.objects.filter(pk=run.pk).update(usage=spent.as_json)
    assert (stats_of(echo).input_tokens, stats_of(echo).output_tokens) == (111, 7)


def test_the_newest_rating_of_each_task_counts(ada, echo, countdown, said):
    tasks = [str(accept.accept(ada.principal, echo, said()).task) for _ in range(2)]
    for task, rating in ((tasks[0], 1), (tasks[0], 5), (tasks[1], 2)):
        commands.give_feedback(ada.principal, echo, task, {"rating": rating})
    stats = stats_of(echo)
    assert (stats.ratings, stats.mean_rating) == (2, 3.5)
    assert stats_of(countdown).ratings == 0


def test_what_was_counted_is_counted_once_and_stays_when_it_is_gone(ada, echo, said):
    long_ago = timezone.now() - datetime.timedelta(days=3)
    make_runs(ada, echo, *[("done", 0, 1.0)] * 10, at=long_ago)
    accept.accept(ada.principal, echo, said())
    for _ in range(3):
        stats = stats_of(echo)
        assert (stats.tasks, stats.tasks_of_a_day) == (11, 1)
    Task.objects.filter(created_at__lt=long_ago + datetime.timedelta(seconds=5)).delete()
    accept.accept(ada.principal, echo, said())
    assert (stats_of(echo).tasks, stats_of(echo).tasks_counted) == (12, 10)


def test_many_agents_cost_as_many_statements_as_one(ada, echo):
    costs = []
    for more in (0, 40):
        Agent.objects.bulk_create(
            Agent(slug=f"a{number}", name="A", handler="a:B", workspace=echo.workspace) for number in range(more)
        )
        with CaptureQueriesContext(connection) as captured:
            measure_agents()
        costs.append(len([one for one in captured if not one["sql"].startswith(("BEGIN", "COMMIT"))]))
    assert costs[0] == costs[1] <= 12
    assert AgentStats.objects.count() == 41


def test_recent_runs_are_found_along_an_index(ada, echo, countdown):
    for agent in (echo, countdown):
        make_runs(ada, agent, *[("done", 0, 1.0)] * 500)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        if connection.vendor == "postgresql":  # reading a few rows is cheap; the index must do without
            for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
                cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(
            ("EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN ") + monitoring.recent_runs_sql()
        )
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    assert plan.count("tasks_of_an_agent") == (1 if connection.vendor == "postgresql" else 2), plan
    assert "one_run_per_turn" in plan or "SEARCH run USING INDEX sqlite_autoindex" in plan, plan
    for table in ("task", "run"):
        assert f"SCAN {table}" not in plan
        assert f"Seq Scan on record_{table}" not in plan
