"""A run needs its lease; its fence rejects later writes, and lost writes are repeated once."""

import signal

import pytest
from django.core import mail
from django.db import OperationalError

from agentkit import Answer, Completed, Failed
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel
from apps.engine.claim import RunsAlone, claim
from apps.engine.jobs import sweep
from apps.engine.send import AgentAnswer, Claim, NoAnswer, _claim_message, _record_answer_or_release
from apps.engine.send import send as send_message
from apps.engine.turns.isolation import PAUSE_AFTER, ChildProcesses, note_end
from apps.engine.turns.recorder import EventBatch, event_of
from apps.engine.worker import check_leases, release_runs
from apps.installation.models import Activity
from apps.record import projection
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Artifact, Message, Task
from apps.record.runs import LeaseLost
from parley import db as database
from parley.db import sql
from tests.engine.delegating import until, words
from tests.working import begin, carry_out, chunk, end, let_the_lease_run_out, log_of, say, state_of, types_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("the ledger writes each database's own SQL"),
]


@pytest.fixture(autouse=True)
def unrepeatable(echo, published):
    echo.retry_safe = False
    echo.save()


@pytest.fixture
def repeatable(echo, unrepeatable):
    echo.retry_safe, echo.attempts = True, 2
    echo.save()
    return echo


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said())


def writes_nothing(sent, held):
    before = log_of(sent.context)
    with pytest.raises(LeaseLost):
        say(held, chunk("late", "text"))
    with pytest.raises(LeaseLost):
        end(held, Failed("late"))
    assert (log_of(sent.context), state_of(sent.task)) == (before, "working")


def test_expired_lease_writes_nothing(sent):
    held = begin(sent.run)
    say(held, chunk("in-time", "text"))
    let_the_lease_run_out(held.lease)
    writes_nothing(sent, held)


def test_old_fence_writes_nothing(repeatable, sent):
    old = begin(sent.run)
    let_the_lease_run_out(old.lease)
    new = begin(sent.run, "another")
    writes_nothing(sent, old)
    end(new, Completed("in time"))
    assert state_of(sent.task) == "completed"


def test_claim_that_the_database_lost_writes_nothing(repeatable, sent):
    held = begin(sent.run)
    Run.objects.update(worker="another", fence=held.lease.fence)  # who claimed it after the crash got the same fence
    writes_nothing(sent, held)
    assert check_leases([held.lease], extend=True).get(held.lease) is None


def test_heartbeat_extends_held_leases_only(repeatable, sent, ada, said):
    lost = begin(sent.run)
    let_the_lease_run_out(lost.lease)
    new = begin(sent.run, "another")
    canceled = begin(accept.accept(ada.principal, repeatable, said()).run)
    cancel.cancel_task(canceled.task)
    before = Run.objects.get(pk=sent.run).lease_until
    assert check_leases([canceled.lease], extend=True) == {}
    assert lost.lease not in check_leases([lost.lease], extend=True)
    assert Run.objects.get(pk=sent.run).lease_until == before
    assert check_leases([new.lease], extend=True) == {new.lease: (False, False)}
    assert Run.objects.get(pk=sent.run).lease_until > before


@pytest.mark.parametrize("is_given_back", [False, True])
def test_next_attempt_begins_again(repeatable, sent, published, is_given_back):
    first = begin(sent.run)
    say(first, chunk("first", "half", last=False), chunk("both", "half", last=False))
    if is_given_back:
        release_runs([first])
        assert published == [sent.run]
    else:
        let_the_lease_run_out(first.lease)
    second = begin(sent.run)
    assert (second.attempt, second.lease.fence) == (1, 2)
    say(second, chunk("both", "whole"))
    end(second, Completed("done"))
    assert dict(Artifact.objects.values_list("artifact_id", "state")) == {"first": "discarded", "both": "delivered"}
    assert Artifact.objects.get(artifact_id="both").parts[0]["text"] == "whole"
    assert projection.differences(sent.context) == []


@pytest.mark.parametrize("is_given_back", [False, True])
def test_unrepeatable_run_fails_with_its_process(sent, is_given_back):
    held = begin(sent.run)
    if is_given_back:
        release_runs([held])
        release_runs([held])
    else:
        let_the_lease_run_out(held.lease)
        assert claim(sent.run, "another") is None
    assert (state_of(sent.task), Run.objects.get().error["code"]) == ("failed", "worker_lost")
    assert "not retry" in Run.objects.get().error["message"]
    assert projection.differences(sent.context) == []


def test_sweep_finds_what_the_queue_lost(sent, published, settings):
    assert sweep() == 0, "its wake-up may still be on its way"
    settings.SWEEP_SECONDS = -1
    assert sweep() == 1
    assert published == [sent.run]
    begin(sent.run)
    assert sweep() == 0, "its worker is alive"


def test_lost_run_is_tried_as_often_as_allowed(repeatable, sent, published):
    for attempt in (1, 1, 2):  # the first loss may be a neighbor's fault
        held = begin(sent.run)
        assert held.attempt == attempt
        let_the_lease_run_out(held.lease)
        assert sweep() == 1
    assert claim(sent.run, "a third") is None
    assert state_of(sent.task) == "failed"
    run = Run.objects.get()
    assert (run.state, run.attempt, run.error["code"]) == (Run.State.FAILED, 2, "worker_lost")
    assert "2 attempts" in run.error["message"]
    assert sweep() == 0


@pytest.fixture
def tried_twice(monkeypatch):
    """Everything sent to the bridge is done, then done again."""
    run = database.run

    async def twice(function, *args, **kwargs):
        await run(function, *args, **kwargs)
        return await run(function, *args, **kwargs)

    monkeypatch.setattr(database, "run", twice)


async def test_repeated_write_of_anonymous_message_counts_once(public, said, tried_twice):
    first = await send_message(ANONYMOUS, public, said())
    assert [task.pk async for task in Task.objects.all()] == [first.task]
    answer = await send_message(ANONYMOUS, public, said("more", taskId=str(first.task)))
    assert answer.task == first.task
    assert (await Message.objects.acount(), await Run.objects.acount()) == (2, 1)


@pytest.fixture
def public(db):
    return register_hosted("open-echo", "examples.agents.echo:Echo", access=Agent.Access.PUBLIC)


def test_repeated_claim_holds_what_it_took(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said())
    first, again = [claim(sent.run, "this very claim") for _ in range(2)]
    assert again.lease == first.lease
    assert again.attempt == 1
    assert types_of(sent.task) == ["user_message", "agent_status", "agent_start"]
    assert claim(sent.run, "another") is None
    end(again, Completed("done"))
    assert state_of(sent.task) == "completed"
    assert claim(sent.run, "this very claim") is None
    assert projection.differences(sent.context) == []


@pytest.fixture
def fail_once(monkeypatch):
    """Fails the next transaction's last statement, as if the server went away."""

    def prepare():
        write = sql.write

        def fail(inserts=(), updates=(), **how):
            if not inserts:  # the lease, which is extended first
                return write(inserts, updates, **how)
            monkeypatch.setattr(sql, "write", write)
            raise OperationalError("the server closed the connection")

        monkeypatch.setattr(sql, "write", fail)

    return prepare


def test_rolled_back_write_is_recorded_when_repeated(ada, echo, said, fail_once):
    sent = accept.accept(ada.principal, echo, said())
    held = begin(sent.run)
    recording = EventBatch(held, [event_of(chunk("a", "x"))])
    for write in (recording.write, lambda: recording.write() or end(held, Completed("done"))):
        fail_once()
        with pytest.raises(OperationalError):
            write()
        assert state_of(sent.task) == "working"
        write()
    assert state_of(sent.task) == "completed"
    assert types_of(sent.task).count(EventType.ARTIFACT_UPDATE) == 1
    assert projection.differences(sent.context) == []


HI = Answer([{"text": "hi"}])


def test_unconfirmed_answer_is_recorded_once(ada, echo, said):
    message = said()
    with pytest.raises(NoAnswer):
        _record_answer_or_release(ada.principal, echo, message, AgentAnswer(HI))
    assert not Message.objects.exists(), "it had no claim"
    assert _claim_message(ada.principal, echo, message) is Claim.OURS
    first, second = [_record_answer_or_release(ada.principal, echo, message, AgentAnswer(HI)) for _ in range(2)]
    assert (first.context, first.index, first.answer) == (second.context, second.index, second.answer)
    assert Message.objects.count() == 2


# A run whose process died runs alone next time, so that another death shows whose fault it is

FIRST, SECOND = "host:1:aaaaaa:1", "other:2:bbbbbb:1"


@pytest.fixture
def send(ada, echo, said):
    echo.retry_safe, echo.attempts = True, 1
    echo.save()
    return lambda: accept.accept(ada.principal, echo, said())


def lose(run_id, worker=FIRST):
    held = claim(run_id, worker, alone=True)
    let_the_lease_run_out(held.lease)


def kill(send, code=-signal.SIGKILL):
    """Send a message whose run ends the process that it has alone."""
    sent = send()
    lose(sent.run)
    with pytest.raises(RunsAlone):
        claim(sent.run, SECOND)
    begin(sent.run, SECOND)
    note_end(sent.run, SECOND, code)
    return sent


def test_lost_run_waits_for_its_own_process(send):
    sent = send()
    lose(sent.run)
    with pytest.raises(RunsAlone) as reserved:
        claim(sent.run, SECOND)
    run = Run.objects.get()
    assert (reserved.value.run_id, reserved.value.worker) == (sent.run, SECOND)
    assert (run.state, run.alone, run.worker) == (Run.State.QUEUED, True, SECOND)
    assert run.lease_until > sql.database_time()
    end(begin(sent.run, SECOND), Completed("done"))
    assert (state_of(sent.task), Run.objects.get().attempt) == ("completed", 1), "a neighbor lost no attempt"


async def test_handler_sees_starts_that_cost_nothing(agent, ada, said):
    async def counting(task):
        return str(task.attempt)

    counter = await agent(counting, retry_safe=True)
    sent = await database.run(accept.accept, ada.principal, counter, said())
    await database.run(lose, sent.run)
    await carry_out(sent.run)
    task = await Task.objects.aget(pk=sent.task)
    assert words(task) == "2"


async def test_closing_worker_releases_runs_for_children(send, published):
    sent, children = await database.run(send), ChildProcesses()
    await database.run(lose, sent.run)
    with pytest.raises(RunsAlone):
        await database.run(claim, sent.run, SECOND)
    children.stop()
    children.begin(sent.run, SECOND)
    await until(lambda: published == [sent.run])
    run = await Run.objects.aget()
    assert (run.state, run.alone, run.attempt, run.lease_until) == (Run.State.QUEUED, True, 0, None)


@pytest.mark.parametrize(("code", "how"), [(-signal.SIGSEGV, "SIGSEGV"), (3, "exit code 3"), (0, "exit code 0")])
def test_runs_that_kill_twice_fail_by_name(send, echo, code, how):
    sent = kill(send, code)
    error = Run.objects.get().error
    assert (state_of(sent.task), error["code"]) == ("failed", "worker_killed")
    assert "killed its worker" in error["message"]
    assert echo.name in error["message"]
    assert how in error["message"]
    assert projection.differences(sent.context) == []


def test_only_the_run_of_a_process_is_blamed(send):
    ended, others, unclaimed = send(), send(), send()
    end(begin(ended.run, SECOND), Completed("done"))
    note_end(ended.run, SECOND, -signal.SIGKILL)
    assert state_of(ended.task) == "completed"
    lose(others.run, SECOND)
    begin(others.run, FIRST)
    note_end(others.run, SECOND, -signal.SIGKILL)
    assert state_of(others.task) == "working"
    lose(unclaimed.run)
    with pytest.raises(RunsAlone):
        claim(unclaimed.run, SECOND)
    note_end(unclaimed.run, SECOND, -signal.SIGKILL)
    assert Run.objects.get(pk=unclaimed.run).lease_until is None
    begin(unclaimed.run)


def test_the_third_kill_pauses_the_agent(send, echo, settings):
    settings.ADMINS, settings.EMAIL_URL = ["olga@parley.local"], "memory://"
    for kills in range(1, PAUSE_AFTER + 1):
        assert Agent.objects.get(pk=echo.pk).activity == Activity.ACTIVE, kills
        kill(send)
    assert Agent.objects.get(pk=echo.pk).activity == Activity.PAUSED
    [letter] = mail.outbox
    assert (letter.to, echo.slug in letter.subject) == (["olga@parley.local"], True)
    entry = AuditEntry.objects.get(action=AuditAction.AGENT_CHANGED)
    assert (entry.actor_kind, entry.object_key) == ("system", str(echo.pk))


def test_suspected_agent_runs_alone_until_one_succeeds(send):
    Agent.objects.update(retry_safe=False)
    lost = send()
    lose(lost.run)
    assert claim(lost.run, SECOND) is None
    assert state_of(lost.task) == "failed"
    sent = send()
    with pytest.raises(RunsAlone):
        claim(sent.run, SECOND)
    end(begin(sent.run, SECOND), Completed("done"))
    note_end(sent.run, SECOND, None)
    assert claim(send().run, FIRST) is not None
    Agent.objects.update(retry_safe=True)
    kill(send)
    sent = send()
    end(begin(sent.run, SECOND), Completed("done"))
    note_end(sent.run, SECOND, None)
    with pytest.raises(RunsAlone):  # one success does not clear a killer
        claim(send().run, FIRST)
