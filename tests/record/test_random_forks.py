"""Random forks, messages, cancels and clears: each conversation matches a list of lines."""

import uuid
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Progress, Rejected
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import deletion
from apps.engine import accept, cancel
from apps.engine.claim import claim
from apps.record import lineage, projection
from apps.record.errors import InvalidParams, TaskBusy, TaskFinished, TaskNotCancelable
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from apps.record.reading import feed
from apps.record.runs import LeaseLost
from tests.working import chunk, end, let_the_lease_run_out, say

OUTCOMES = st.sampled_from(
    [
        Completed("done"),
        Completed("done", [Artifact.text("report", "text")]),
        Failed("no"),
        Rejected("never"),
        InputRequired("?", slot="a"),
        AuthRequired("who?"),
    ]
)
RUNNING = st.sampled_from(["finish", "cancel"])
PICK = st.integers(min_value=0, max_value=1000)
OVER = {"completed", "failed", "canceled", "rejected"}


@dataclass
class Talk:
    """A conversation as lines: (type, task, payload)."""

    key: uuid.UUID
    lines: list = field(default_factory=list)

    def told(self, upto=None):
        """Messages, task states and artifacts of the lines."""
        said, states, begun, delivered = [], {}, {}, {}
        for index, (kind, task, payload) in enumerate(self.lines[:upto], start=1):
            if kind == "user_message":
                states.setdefault(task, "submitted")
            if kind == "agent_status":
                states[task] = payload["state"]
            if "message" in payload and "progress" not in payload:
                said.append((index, payload["message"]["messageId"]))
            if kind == "artifact_update":
                key = task, payload["artifact"]["artifactId"]
                begun[key] = (begun.get(key, []) if payload["append"] else []) + payload["artifact"]["parts"]
            if kind == "agent_complete":
                delivered |= {(task, one): begun[task, one] for one in payload["artifacts"]}
            if kind == "fork":
                assert set(payload["left"]) == {str(key) for key, state in states.items() if state not in OVER}
                states = {key: state if state in OVER else "canceled" for key, state in states.items()}
                delivered = {key: parts for key, parts in delivered.items() if states[key[0]] == "completed"}
        return said, states, delivered


class Forks(RuleBasedStateMachine):
    """A person who writes, forks, cancels and clears, and workers during their turns."""

    def __init__(self) -> None:
        super().__init__()
        self.ada = User.objects.get(email="ada@example.org").principal
        self.agent = Agent.objects.get(slug="echo")
        self.talks: list[Talk] = []
        self.held: list = []

    def some(self, pick: int) -> Talk:
        return self.talks[pick % len(self.talks)]

    def heard(self) -> None:
        """Each list gets the lines that its conversation recorded."""
        for talk in self.talks:
            new = Event.objects.filter(context=talk.key, index__gt=len(talk.lines)).order_by("index")
            talk.lines += [(event.type, event.task_id, event.payload) for event in new]

    def send(self, **fields: str) -> accept.Receipt:
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}], **fields}
        receipt = accept.accept(self.ada, self.agent, message)
        self.heard()
        return receipt

    @rule()
    def begin(self) -> None:
        self.talks.append(Talk(self.send().context))
        self.heard()

    @precondition(lambda self: self.talks)
    @rule(pick=PICK)
    def write(self, pick: int) -> None:
        self.send(contextId=Context.objects.get(pk=self.some(pick).key).context_id)

    @precondition(lambda self: self.talks)
    @rule(pick=PICK)
    def write_to_a_task(self, pick: int) -> None:
        tasks = list(Task.objects.filter(context=self.some(pick).key).order_by("created_at"))
        with suppress(TaskFinished, TaskBusy):
            if tasks:
                self.send(taskId=str(tasks[pick % len(tasks)].pk))

    @precondition(lambda self: self.talks)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        tasks = list(Task.objects.filter(context=self.some(pick).key).order_by("created_at"))
        with suppress(TaskNotCancelable):
            if tasks:
                cancel.cancel_task(tasks[pick % len(tasks)])
        self.heard()

    @rule(pick=PICK)
    def a_worker_begins(self, pick: int) -> None:
        here = [talk.key for talk in self.talks]
        waiting = Run.objects.filter(state=Run.State.QUEUED, task__context__in=here).order_by("queued_at", "pk")
        queued = list(waiting.values_list("pk", flat=True))
        if queued and (assignment := claim(queued[pick % len(queued)], f"worker {pick}")):
            self.held.append(assignment)
        self.heard()

    @precondition(lambda self: self.held)
    @rule(pick=PICK, streamed=st.booleans())
    def a_worker_speaks(self, pick: int, streamed: bool) -> None:
        with suppress(LeaseLost):
            held = self.held[pick % len(self.held)]
            say(held, chunk(f"a-{uuid.uuid4()}", "text") if streamed else Progress("working", 1, 2))
        self.heard()

    @precondition(lambda self: self.held)
    @rule(pick=PICK, outcome=OUTCOMES)
    def a_worker_ends(self, pick: int, outcome) -> None:
        with suppress(LeaseLost):
            end(self.held.pop(pick % len(self.held)), outcome)
        self.heard()

    @precondition(lambda self: self.held)
    @rule(pick=PICK)
    def a_worker_is_lost(self, pick: int) -> None:
        let_the_lease_run_out(self.held[pick % len(self.held)].lease)

    @precondition(lambda self: self.talks)
    @rule(pick=PICK, at=PICK, running=RUNNING, edited=st.sampled_from(["", "a message"]))
    def fork(self, pick: int, at: int, running, edited: str) -> None:
        talk = self.some(pick)
        self.fork_at(talk, at % (len(talk.lines) + 2), running, edited)

    @precondition(lambda self: self.talks)
    @rule(pick=PICK, back=st.integers(min_value=0, max_value=3), running=RUNNING, outcome=OUTCOMES)
    def fork_in_the_middle_of_work(self, pick: int, back: int, running, outcome) -> None:
        talk = self.some(pick)
        sent = self.send(contextId=Context.objects.get(pk=talk.key).context_id)
        held = claim(sent.run, "a worker")
        say(held, chunk("a", "text"))
        self.heard()
        self.fork_at(talk, len(talk.lines) - back, running, "")
        with suppress(LeaseLost):
            end(held, outcome)
        self.heard()

    def fork_at(self, talk: Talk, at: int, running, edited: str) -> None:
        key = str(uuid.uuid4())
        try:
            child = fork(self.ada, talk.key, at, reason="fork", key=key, running=running, edited_message=edited)
        except InvalidParams:
            assert at == len(talk.lines) + 1
            return
        at -= at > 0 and talk.lines[at - 1][0] == "fork"  # a fork begins before another one's first line
        assert child.forked_at == at <= len(talk.lines)
        assert fork(self.ada, talk.key, at, reason="fork", key=key, running=running, edited_message=edited) == child
        self.talks.append(Talk(child.pk, talk.lines[:at]))
        self.heard()

    @precondition(lambda self: len(self.talks) > 2)
    @rule(pick=PICK)
    def clear(self, pick: int) -> None:
        talk = self.talks.pop(pick % len(self.talks))
        deletion.delete_context(self.ada, self.agent, Context.objects.get(pk=talk.key).context_id)
        self.compare(pick)

    @precondition(lambda self: self.talks)
    @rule(pick=PICK, at=PICK)
    def go_back(self, pick: int, at: int) -> None:
        talk = self.some(pick)
        at = at % len(talk.lines) + 1
        rebuilt = projection.rebuild(talk.key, upto=at)
        said, states, delivered = talk.told(at)
        assert [(row.index, row.message_id) for row in rebuilt.messages.values()] == said
        assert {task.pk: task.state for task in rebuilt.tasks.values()} == states
        parts = {(row.task_id, row.artifact_id): row.parts for row in rebuilt.artifacts if row.state == "delivered"}
        assert parts == delivered

    @precondition(lambda self: self.talks)
    @rule(pick=PICK)
    def compare(self, pick: int) -> None:
        talk = self.some(pick)
        context = Context.objects.get(pk=talk.key)
        said, states, delivered = talk.told()
        assert [(e.type, e.task_id, e.payload) for e in lineage.events(context)] == talk.lines
        assert list(lineage.messages(context).order_by("index").values_list("index", "message_id")) == said
        assert {task.pk: task.state for task in lineage.shown_tasks(context)} == states
        assert {(row.task_id, row.artifact_id): row.parts for row in lineage.artifacts(context)} == delivered
        assert [event.index for event in feed.read_events(talk.key, pick % 7)] == list(
            range(pick % 7 + 1, len(talk.lines) + 1)
        )
        assert projection.differences(talk.key) == []

    def teardown(self) -> None:
        for number in range(len(self.talks)):
            self.compare(number)
        here = [talk.key for talk in self.talks]
        while self.talks:
            talk = self.talks.pop(len(self.talks) // 2)
            deletion.delete_context(self.ada, self.agent, Context.objects.get(pk=talk.key).context_id)
        assert not Task.objects.filter(context__in=here).exists()


@pytest.mark.django_db
@pytest.mark.services("the record and its rows, by another database")
@pytest.mark.timeout(3600)  # hundreds of histories
def test_forks_hold_whatever_happens(ada, echo, monkeypatch):
    monkeypatch.setattr("apps.engine.worker.publish", lambda run: None)
    examples = settings().max_examples // 4  # each takes a second
    run_state_machine_as_test(Forks, settings=settings(stateful_step_count=20, max_examples=examples))
