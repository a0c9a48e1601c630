"""Approval of tool calls: the policies of a turn, calls that begin once, and decisions by others than the owner."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from agentkit import ToolCall
from agentkit.llm import approvals
from agentkit.tools import Policy, ToolKind
from apps.accounts.principals import Principal
from apps.agents.tool_policies import policies_of, policy_for
from apps.engine.accept import decide_and_continue
from apps.engine.queue import publish
from apps.engine.turns import questions
from apps.engine.turns.assignment import Assignment
from apps.engine.turns.recorder import Recorder, event_of
from apps.record import ledger
from apps.record.errors import AlreadyAnswered, Kind, Refusal, TaskNotFound
from apps.record.events import JSON, EventType
from apps.record.models import Event, Task
from parley import db


class NeedsKey(Refusal):
    """Approve on the card in the session or in the inbox. A program approves with an API key."""

    kind = Kind.FORBIDDEN


HIDDEN = "hidden"
"""Instead of the name of a tool that a guardrail stopped."""
INTERRUPTED = (
    "This call was interrupted. Nobody knows whether it took effect. Do not repeat it: say so, or check by other means."
)


@dataclass
class TurnApprovals:
    """The policies of a turn's agent, and its approved calls."""

    assignment: Assignment
    recorder: Recorder
    _policies: dict[str, str] = field(default_factory=dict)
    _remembered: list[str] = field(default_factory=list)
    _agent: int = 0  # the key of the agent whose policies were read

    @property
    def decided(self) -> JSON:
        return self.assignment.decisions

    async def policy(self, kind: ToolKind, name: str, declared: bool) -> Policy:
        """As operators set it, or as the task's owner chose for this session: two queries for a turn."""
        agent = self.assignment.agent
        if self._agent != agent.pk:  # a fallback has its own
            self._policies, self._remembered = await db.run(self._load)
            self._agent = agent.pk
        found, task = policy_for(self._policies, kind, name, declared), self.assignment.task
        remembered = questions.remembered_name(task.owner_id, task.agent.slug, kind, name)
        return "run" if found == "ask" and remembered in self._remembered else found

    def _load(self) -> tuple[dict[str, str], list[str]]:
        policies = policies_of(self.assignment.agent)
        return policies, questions.approved_tools(self.assignment.context_id)

    async def begin(self, key: str, name: str, arguments: dict[str, Any]) -> tuple[Any, bool] | None:
        """Record the call before it runs, under the run's fence. Raises LeaseLost.

        A call that began before is not made again: its result is the recorded one, or that nobody knows it.
        """
        earlier = await db.run(_earlier_result, self.assignment.task.pk, key)
        if earlier is None:
            called = await self.recorder.checked(ToolCall(key, name, arguments))
            called = called or await self.recorder.checked(ToolCall(key, name, {}))
            hidden = ToolCall(key, HIDDEN, {})  # that something was called is recorded in any case
            await self.recorder.record_now(event_of(called or hidden))
        return earlier


def _earlier_result(task: uuid.UUID, key: str) -> tuple[Any, bool] | None:
    kinds = (EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT)
    events = {one.type: one for one in Event.objects.filter(task=task, type__in=kinds, payload__callId=key)}
    if (ended := events.get(EventType.AGENT_TOOL_RESULT)) is not None:
        return ended.payload["result"], ended.payload["isError"]
    return (INTERRUPTED, True) if events else None


def check_program(principal: Principal, answer: JSON) -> None:
    """A browser's login alone approves nothing at the APIs: pages ask the person. Raises NeedsKey."""
    if not principal.key and answer.get(approvals.DECISION) == approvals.APPROVE:
        raise NeedsKey


def check_message(principal: Principal, message: JSON) -> None:
    """`check_program` for a message to a task, also where an agent passes on the question of one that it called."""
    if principal.key or not message.get("taskId"):
        return
    slot = Task.objects.filter(pk=message["taskId"]).values_list("slot", flat=True).first()
    if questions.asks_approval(questions.asking_slot(slot)):
        check_program(principal, questions.answer_of(message))


def decide(principal: Principal, task: uuid.UUID, asked: int, answer: JSON) -> None:
    """Record a decision about a tool call of any task that the caller may decide about, and continue the task.

    `asked`: the event that asked. Raises TaskNotFound, AlreadyAnswered, and what `questions.record_decision` raises.
    """
    found = Task.objects.approvable_by(principal).filter(pk=task).first()
    if found is None:
        raise TaskNotFound
    with ledger.writing(found.context_id) as log:
        current = log.task(task)
        if current.status_event != asked or not questions.asks_approval(current.slot):
            raise AlreadyAnswered
        run = decide_and_continue(log, principal, current, answer)
        if run is not None:
            log.extra_rows.append(run)
    if run is not None:
        publish(run.pk)
