"""Edges of steps: other people's data, runs that must not hang, deleted sessions, and why a step waits."""

import datetime
import uuid

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from agentkit import Artifact as Made
from agentkit import Completed, Failed, Progress
from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.conversations.provenance.traversal import provenance_of
from apps.conversations.sessions import deletion
from apps.engine import accept, activity, finish
from apps.installation.models import Activity
from apps.plans import graphs, jobs
from apps.plans.models import PlanRun, Step
from apps.plans.progress import Progress as RunProgress
from apps.plans.progress import waiting_reasons
from apps.plans.running import engine, run_state, runs, transitions
from apps.plans.running.run_state import MOST_REFERENCES, RunState
from apps.plans.running.transitions import start_ready_steps
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Task
from tests import working
from tests.clients.delivering import delivered
from tests.plans.plan_agents import DONE
from tests.plans.playing import data, rows, words
from tests.plans.test_engine import TWO

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LIST = {"type": "object", "properties": {"list": {"type": "array"}}}
PATIENT = {"one": {"agent": "patient", "message": "x"}}


def why(task):
    return dict(Step.objects.filter(run=task.pk, state="skipped").values_list("key", "why"))


def test_data_that_look_like_references_open_nothing(play, bob):
    theirs = play.send(play.plan({"one": {"agent": "loud", "message": "the secret"}}, slug="secret"), user=bob)
    made, step = Artifact.objects.delivered().get(task=theirs), Step.objects.get()
    places = [{"task": str(theirs.pk), "artifact": made.artifact_id}, {"step": str(step.pk)}, {"file": 9}, {"step": 1}]
    given = [*({"$": place} for place in places), {"$": 5}, {"a": [{"$": {"value": {}}}]}, {"$": 1, "b": {"$": 2}}]
    each = {"each": {"agent": "loud", "message": "{{ item|tojson }}", "for_each": "inputs.list"}}
    task = play.send(play.plan(each, inputs=LIST), **data({"list": given}))
    assert task.state == "completed", words(task)
    heard = [message["parts"][0]["text"] for message in rows(task, "message")]
    assert len(heard) == len(given)
    assert all('"$"' in one for one in heard)
    assert not any("secret" in one.lower() for one in heard)


def test_what_no_database_takes_never_gets_there(play):
    steps = {
        "text": {"agent": "loud", "message": r"{{ 'a\x00b\ud800' }}"},
        "each": {"agent": "loud", "message": "{{ item }}", "for_each": r"['c\x00d', {'\x00': '\ud800'}]"},
        "data": {"agent": "parting", "message": "x"},
        "why": {"agent": "loud", "message": r"{{ steps.data.data['\x00'] }}", "on_failure": "skip"},
        "number": {"agent": "loud", "message": "{{ item }}", "for_each": "[1e308 * 10]", "on_failure": "skip"},
    }
    task = play(steps)
    assert task.state == "completed", words(task)
    assert DONE["loud:a\ufffdb\ufffd"] == DONE["loud:c\ufffdd"] == DONE['loud:{"\ufffd": "\ufffd"}'] == 1
    assert "has no `\ufffd`" in why(task)["why"]
    assert "JSON has no such numbers" in why(task)["number"]


@pytest.mark.parametrize("state", ["failed", "done"])
def test_the_sweep_finds_an_unrecorded_end(play, settings, state):
    """The worker was killed between the step's end and the paused plan's end."""
    settings.SWEEP_SECONDS = 0
    task = play({"slow": {"agent": "patient", "message": "x"}, "other": {"agent": "patient", "message": "y"}})
    runs.PAUSE.do(PlanRun.objects.get(), play.ada.principal)
    PlanRun.objects.update(told_at=None)
    assert "(paused)" in words(play.on(task.pk))
    assert jobs.RUNS_TO_ADVANCE.sweep() == 0
    seen = Step.objects.filter(key="other") if state == "failed" else Step.objects.all()
    seen.update(state=state, why="It broke.")
    assert jobs.RUNS_TO_ADVANCE.sweep() == 1
    assert play.on(task.pk).state == ("completed" if state == "done" else "failed")


def test_results_are_kept_while_they_are_the_steps(play):
    words_of = {"part": {"agent": "parting", "message": "a b"}}
    last = {"agent": "loud", "message": "{{ steps.shout|map(attribute='text')|join(',') }}"}
    one = {"shout": {"agent": "loud", "message": "one"}, "last": last | {"message": "{{ steps.shout.text }}"}}
    each = {"shout": {"agent": "loud", "message": "{{ item }}", "for_each": "steps.part.data.words"}, "last": last}
    task = play(words_of | each)
    assert DONE["loud:A,B"] == 1
    play.plan(words_of | one)
    task = play.again(task, "last")
    assert (task.state, DONE["loud:ONE"], DONE["parting"]) == ("completed", 1, 1), words(task)
    play.plan(words_of | each)
    task = play.again(task, "last")
    assert (task.state, DONE["loud:A,B"], DONE["parting"]) == ("completed", 2, 1), words(task)
    part = Context.objects.get(tasks__plan_steps__run=task.pk, tasks__plan_steps__key="part")
    deletion.delete([part], "a test")
    task = play.again(task, "last")
    assert (task.state, DONE["loud:A,B"], DONE["parting"]) == ("completed", 3, 2), words(task)


def test_one_look_takes_only_so_much_time(play, monkeypatch):
    """Templates may take two seconds each: the lock is released in between."""
    monkeypatch.setattr(run_state, "TICK_SECONDS", 0)
    bad = {"agent": "loud", "message": "{{ inputs.text + item }}", "for_each": "range(3)|list", "on_failure": "skip"}
    steps = {
        "each": {"agent": "patient", "message": "{{ item }}", "for_each": "range(3)|list"},
        "bad": bad,
        "join": {"agent": "loud", "message": "{{ steps.each|length }} {{ steps.bad|length }}"},
    }
    task = play(steps)
    skipped = Step.objects.filter(key="bad", state="skipped")
    assert (skipped.count(), Step.objects.filter(key="each", state="running").count()) == (3, 3)
    assert len(set(skipped.values_list("ended_at", flat=True))) >= 2  # two may share a clock tick
    task = play.release(task)
    assert (task.state, DONE["loud:3 3"]) == ("completed", 1), words(task)


def test_a_broken_run_keeps_no_others_waiting(play):
    task = play(PATIENT)
    Step.objects.update(key="nobody_knows_it", state="ended")
    PlanRun.objects.update(advanced_at=LONG_AGO)
    with pytest.raises(KeyError):
        engine.advance(task.pk)
    assert PlanRun.objects.get().advanced_at > LONG_AGO  # the sweep takes the longest-waiting first


def test_a_run_of_an_unreadable_plan_ends(play, settings):
    settings.SWEEP_SECONDS = 0
    task = play(PATIENT)
    AgentVersion.objects.filter(agent=task.agent).update(content={"steps": "no steps"})
    versions.version_at.cache_clear()
    graphs.plan_at.cache_clear()
    for number in range(engine.MOST_FAILURES):
        assert Task.objects.get(pk=task.pk).state == "working", number
        with pytest.raises(ValidationError):
            engine.advance(task.pk)
    task = play.on(task.pk)
    assert (task.state, words(task), rows(task, "state")) == ("failed", engine.GIVEN_UP, ["canceled"])
    assert PlanRun.objects.get().finished_at
    assert Task.objects.get(parent=task.pk).state == "canceled"


def test_a_cut_look_is_continued_by_the_sweep(play, monkeypatch):
    task = play({key: {"agent": "patient", "message": key} for key in ("one", "two", "three")})
    Step.objects.filter(key="three").update(state="waiting", task=None)
    monkeypatch.setattr(run_state, "TICK_SECONDS", 0)
    assert transitions.decide(task.pk).is_out_of_time
    assert PlanRun.objects.get().advanced_at is None
    assert jobs.RUNS_TO_ADVANCE.sweep() == 1


def test_a_step_whose_task_moved_is_set_right(play):
    task = play({"ask": {"agent": "curious", "message": "it"}, "wait": {"agent": "patient", "message": "x"}})
    wait = Step.objects.filter(key="wait")
    turn = working.begin(Run.objects.get(task=wait.get().task).pk)
    Step.objects.filter(key="ask").update(state="running", asked_at=None)
    wait.update(state="asking")
    jobs.RUNS_TO_ADVANCE.sweep()
    assert rows(task, "key", "state") == [("ask", "asking"), ("wait", "running")]
    asks = Step.objects.get(key="ask")
    assert asks.asked_at is not None
    wait.update(phase="answering", consulted=asks.task)  # as if an answer were on its way
    working.end(turn, Completed("I have waited."))
    assert (wait.get().task.state, wait.get().state) == ("completed", "running")
    wait.update(phase="work", consulted=None)
    jobs.RUNS_TO_ADVANCE.sweep()
    assert wait.get().state == "ended"
    assert play.on(task.pk).state == "input-required"
    assert wait.get().state == "done"


def test_nobody_else_is_asked_in_peoples_place(play):
    taken = {"one": {"agent": "loud", "message": "yes"}}
    with pytest.raises(ValidationError, match="slug person"):
        play.plan(taken, slug="person")
    Agent.objects.filter(slug="person").delete()
    spy = play.plan(taken, slug="spy")
    Agent.objects.filter(pk=spy.pk).update(slug="person")
    task = play({"one": {"agent": "loud", "message": "hello", "approve": "before"}})
    assert (task.state, sum(DONE.values())) == ("failed", 0)
    task = play({"one": {"agent": "loud", "message": "hello", "approve": "after", "retries": 3}})
    assert (task.state, sum(DONE.values())) == ("failed", 1), "the work is not done again because nobody can be asked"
    assert "is not Parley's own" in words(task)
    assert not Task.objects.filter(agent=spy).exists()


# Sessions that are deleted


def test_a_deleted_conversation_takes_its_runs_along(play):
    deletion.delete_session(play.ada.principal, play(TWO).context_id)
    assert not PlanRun.objects.exists()
    assert not Step.objects.exists()


def test_a_step_whose_session_is_deleted_has_failed(play):
    task = play(PATIENT)
    deletion.delete_session(play.ada.principal, Task.objects.get(parent=task.pk).context_id)
    jobs.RUNS_TO_ADVANCE.sweep()
    task = play.on(task.pk)
    assert (task.state, words(task)) == ("failed", "The step “one” failed: Its session was deleted.")


def test_what_a_run_refers_to_is_not_archived(play, echo):
    task, other = play(TWO), play.send(echo)
    found = {context.pk: runs.archive_obstacle(context) for context in Context.objects.all()}
    assert found.pop(other.context_id) == ""
    assert task.context_id in found
    assert set(found.values()) == {"A run of a plan refers to it."}


def test_a_task_without_a_run_ends_once(play):
    task = play(PATIENT)
    assert finish.record_outcome(task, Progress("half of it", 1, 2))
    assert words(Task.objects.get(pk=task.pk)) == "half of it"
    assert finish.record_outcome(task, Completed("That is all."))
    assert not finish.record_outcome(task, Failed("Or not."))
    assert not finish.record_outcome(task, Progress("more"))
    task = play.on(task.pk)
    assert (task.state, words(task), rows(task, "state")) == ("completed", "That is all.", ["canceled"])
    working = play.send(Agent.objects.get(slug="patient"))
    assert not finish.record_outcome(working, Completed("Done.")), "nothing is recorded beside a run"
    assert play.release(working).state == "completed"


# Why a step waits


@pytest.mark.parametrize(("wanted", "sentence"), [("paused", "is paused"), ("draining", "accepts no new tasks")])
def test_a_step_says_that_its_agent_is_paused(play, wanted, sentence):
    loud = Agent.objects.get(slug="loud")
    activity.set_activity(loud, Activity(wanted))
    play.held.add("loud")
    task = play({"one": {"agent": "loud", "message": "hello"}})
    assert task.state == "working"
    [reason] = waiting_reasons(RunProgress.of(PlanRun.objects.get()))
    assert sentence in reason.sentence
    activity.set_activity(loud, Activity.ACTIVE)
    Step.objects.filter(state="starting").update(due_at="2026-01-01T00:00Z")
    assert play.release(task).state == "completed"


# A step's message refers to the tasks that it uses

MANY = 600
WIDE = {
    "spread": {"agent": "loud", "message": "{{ item }}", "for_each": "range(600) | list"},
    "again": {"agent": "loud", "message": "{{ item.text }}", "for_each": "steps.spread"},
    "plain": {"agent": "loud", "message": "{{ item }}", "for_each": "steps.spread | map(attribute='text')"},
    "join": {"agent": "loud", "message": "{{ steps.spread | length }}"},
}


def test_references_of_steps_after_a_fan_out(ada, plan, said, monkeypatch):
    def board_of(task):
        return RunState(PlanRun.objects.select_related("task").get(pk=task.pk), timezone.now())

    monkeypatch.setattr(run_state, "TICK_SECONDS", float("inf"))  # on a busy machine, too, all begin at once
    agent = plan(WIDE, limit=20)
    run = Task.objects.get(pk=accept.accept(ada.principal, agent, said()).task)
    runs.begin_run(run, agent.current_version)
    like = Task.objects.get(pk=delivered(ada, agent, said()).task)
    kept = {field.attname: getattr(like, field.attname) for field in Task._meta.concrete_fields}
    tasks = Task.objects.bulk_create([Task(**kept | {"id": uuid.uuid4(), "parent_id": run.pk}) for _ in range(MANY)])
    Step.objects.filter(run=run.pk, key="spread").delete()
    Step.objects.bulk_create(
        Step(run_id=run.pk, key="spread", item=at, state="done", task=one) for at, one in enumerate(tasks)
    )
    start_ready_steps(board_of(run))
    made = [str(one.pk) for one in tasks]
    again, plain, (join,) = (
        list(Step.objects.filter(run=run.pk, key=key).order_by("item")) for key in ("again", "plain", "join")
    )
    referred = [step.message["referenceTaskIds"] for step in again if step.message]
    assert referred
    assert referred == [[key] for key in made[: len(referred)]]
    # An element made of plain values refers to as many as it may.
    assert board_of(run).references(plain[7]) == made[:MOST_REFERENCES]
    # A join refers to all of them, and the provenance of its result is complete.
    assert board_of(run).references(join) == made
    receipt = delivered(ada, like.agent, said(referenceTaskIds=made), [Made.text("all", "600")])
    assert Task.objects.get(pk=receipt.task).references == made
    found = provenance_of(ada.principal, Artifact.objects.get(task=receipt.task))
    assert not found.truncated
    assert {f"task:{key}" for key in made} <= {node.id for node in found.nodes}
