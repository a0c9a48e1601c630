"""Random operations: the log and the rows agree, and the record's invariants hold."""

import json
import uuid
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Progress, Rejected
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel
from apps.engine.assignment import Assignment
from apps.engine.claim import claim
from apps.engine.worker import release_runs
from apps.record import ledger, projection, task_json, wire
from apps.record.errors import TaskBusy, TaskFinished, TaskNotCancelable
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Context, Event, Message, Task, TaskState
from apps.record.runs import LeaseLost
from apps.record.sql import TASK
from parley.db import sql
from tests.working import chunk, end, let_the_lease_run_out, say

OUTCOMES = st.sampled_from(
    [
        Completed("done"),
        Completed("done", [Artifact.text("report", "text")]),
        Failed("no"),
        Rejected("never"),
        InputRequired("which?", slot="word"),
        AuthRequired("who?"),
    ]
)
PICK = st.integers(min_value=0, max_value=1000)


class History(RuleBasedStateMachine):
    """People write and cancel; workers start, stop, die and come late."""

    def __init__(self) -> None:
        super().__init__()
        self.ada = User.objects.get(email="ada@example.org").principal
        self.agents = list(Agent.objects.filter(slug__startswith="history-").order_by("slug"))
        self.contexts: list[tuple[uuid.UUID, str, Agent]] = []
        self.sent: list[tuple[accept.Receipt, Agent, dict]] = []
        self.held: list[Assignment] = []

    @property
    def tasks(self) -> list[uuid.UUID]:
        return list(dict.fromkeys(receipt.task for receipt, _, _ in self.sent))

    def send(self, agent: Agent, **fields: str) -> accept.Receipt:
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}], **fields}
        receipt = accept.accept(self.ada, agent, message)
        self.sent.append((receipt, agent, message))
        return receipt

    @rule(pick=PICK)
    def open_a_context(self, pick: int) -> None:
        agent = self.agents[pick % len(self.agents)]
        context_id = str(uuid.uuid4())
        receipt = self.send(agent, contextId=context_id)
        self.contexts.append((receipt.context, context_id, agent))

    @precondition(lambda self: self.contexts)
    @rule(pick=PICK)
    def open_a_task(self, pick: int) -> None:
        _, context_id, agent = self.contexts[pick % len(self.contexts)]
        self.send(agent, contextId=context_id)

    @precondition(lambda self: self.sent)
    @rule(pick=PICK)
    def write_to_a_task(self, pick: int) -> None:
        receipt, agent, _ = self.sent[pick % len(self.sent)]
        state = TaskState(Task.objects.get(pk=receipt.task).state)
        try:
            self.send(agent, taskId=str(receipt.task))
        except TaskFinished:
            assert state.is_terminal
        except TaskBusy:
            assert agent.on_busy == Agent.OnBusy.REJECT
            assert not state.is_interrupted
        else:
            assert not state.is_terminal

    @precondition(lambda self: self.sent)
    @rule(pick=PICK)
    def repeat_a_message(self, pick: int) -> None:
        receipt, agent, message = self.sent[pick % len(self.sent)]
        again = accept.accept(self.ada, agent, message)
        assert again.repeated
        assert again.run is None
        assert (again.context, again.task, again.index) == (receipt.context, receipt.task, receipt.index)

    @precondition(lambda self: self.sent)
    @rule(pick=PICK)
    def a_worker_claims(self, pick: int) -> None:
        """Mostly an available run, sometimes an ended one."""
        runs = Run.objects.filter(task__in=self.tasks)
        keys = list((runs.unfinished() if pick % 4 else runs).order_by("queued_at", "pk").values_list("pk", flat=True))
        if keys and (assignment := claim(keys[pick % len(keys)], f"worker {pick}", alone=True)):
            self.held.append(assignment)

    @precondition(lambda self: self.held)
    @rule(pick=PICK, name=st.sampled_from("ab"), streamed=st.booleans())
    def a_handler_speaks(self, pick: int, name: str, streamed: bool) -> None:
        held = self.held[pick % len(self.held)]
        emission = chunk(f"{name}-{uuid.uuid4()}", "text") if streamed else Progress("working", 1, 2)
        self.act(held, lambda: say(held, emission))

    @precondition(lambda self: self.held)
    @rule(pick=PICK, outcome=OUTCOMES)
    def a_turn_ends(self, pick: int, outcome) -> None:
        held = self.held[pick % len(self.held)]
        self.act(held, lambda: end(held, outcome, memory={"seen": held.turn}))

    @precondition(lambda self: self.held)
    @rule(pick=PICK)
    def a_process_is_told_to_end(self, pick: int) -> None:
        release_runs([self.held[pick % len(self.held)]])

    @precondition(lambda self: self.held)
    @rule(pick=PICK)
    def a_worker_is_lost(self, pick: int) -> None:
        let_the_lease_run_out(self.held[pick % len(self.held)].lease)

    @precondition(lambda self: self.sent)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        task = Task.objects.get(pk=self.sent[pick % len(self.sent)][0].task)
        try:
            cancel.cancel_task(task)
        except TaskNotCancelable:
            assert task.is_finished

    @precondition(lambda self: self.contexts)
    @rule(pick=PICK)
    def rename(self, pick: int) -> None:
        with ledger.writing(self.contexts[pick % len(self.contexts)][0]) as log:
            log.add(EventType.SESSION_RENAMED, {"title": f"title {pick}"})

    def act(self, held: Assignment, doing) -> None:
        """Only the run's holder changes anything."""
        run = Run.objects.get(pk=held.lease.run_id)
        is_held = (
            run.fence == held.lease.fence and run.state == Run.State.RUNNING and run.lease_until > sql.database_time()
        )
        events = Event.objects.filter(context=held.context_id).count()
        try:
            doing()
        except LeaseLost:
            assert not is_held
            assert Event.objects.filter(context=held.context_id).count() == events
        else:
            assert is_held

    @invariant()
    def one_unfinished_run_for_each_task_that_is_at_work(self) -> None:
        unfinished = Counter(Run.objects.unfinished().filter(task__in=self.tasks).values_list("task", flat=True))
        for task in Task.objects.filter(pk__in=self.tasks):
            at_work = task.state in (TaskState.SUBMITTED, TaskState.WORKING)
            assert unfinished[task.pk] == at_work, task.state

    def teardown(self) -> None:
        for context, _, _ in self.contexts:
            assert projection.differences(context) == []
            indexes = Event.objects.filter(context=context).order_by("index").values_list("index", flat=True)
            assert list(indexes) == list(range(1, Context.objects.get(pk=context).last_event + 1))
        for task in Task.objects.filter(pk__in=self.tasks):
            check_artifacts(task)
            check_its_end(task)
            check_what_is_shown(task)
            acknowledged = {message["messageId"] for receipt, _, message in self.sent if receipt.task == task.pk}
            check_messages(task, acknowledged)


def check_artifacts(task: Task) -> None:
    states = set(ArtifactRow.objects.filter(task=task).values_list("state", flat=True))
    if task.state == TaskState.COMPLETED:
        assert ArtifactRow.State.PROVISIONAL not in states
    elif task.is_finished:
        assert states <= {ArtifactRow.State.DISCARDED}
    else:
        assert ArtifactRow.State.DELIVERED not in states


def check_its_end(task: Task) -> None:
    """Nothing follows it, and no state stays."""
    states = list(Event.objects.filter(task=task, type=EventType.AGENT_STATUS).order_by("index"))
    ends = [event for event in states if TaskState(event.payload["state"]).is_terminal]
    assert len(ends) == task.is_finished
    if ends:
        assert Event.objects.filter(task=task).order_by("index").last() == ends[0]
        assert all(run.memory == {} for run in Run.objects.filter(task=task))


def check_what_is_shown(task: Task) -> None:
    """A whole task and its increments show the same."""
    for length in (None, 0, 1, 3):
        shown = wire.load_task(TASK.one(task.pk), history_length=length)
        assert json.loads(task_json.find(task.pk, length).json) == json.loads(json.dumps(shown))


def check_messages(task: Task, acknowledged: set[str]) -> None:
    """All are in the history, and a turn took each before the task's end."""
    users = Message.objects.filter(task=task, role=Message.Role.USER)
    assert set(users.values_list("message_id", flat=True)) == acknowledged
    if task.is_finished and task.state != TaskState.CANCELED:
        starts = Event.objects.filter(task=task, type=EventType.AGENT_START)
        assert {event.payload["messageId"] for event in starts} == acknowledged


@pytest.mark.django_db
@pytest.mark.services("the record and its rows, by another database")
@pytest.mark.timeout(3600)
def test_the_record_holds_whatever_happens(ada, monkeypatch):
    monkeypatch.setattr("apps.engine.worker.publish", lambda run: None)
    policies = [(on_busy, retry) for on_busy in ("enqueue", "interrupt", "reject") for retry in (True, False)]
    for number, (on_busy, retry_safe) in enumerate(policies):
        fields = {"on_busy": on_busy, "retry_safe": retry_safe, "attempts": 2}
        register_hosted(f"history-{number}", "examples.agents.echo:Echo", **fields)
    examples = settings().max_examples * 2 // 5
    run_state_machine_as_test(History, settings=settings(stateful_step_count=30, max_examples=examples))
