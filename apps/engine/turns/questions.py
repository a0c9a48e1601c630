"""What is recorded when a task asks, and people's decisions about tool calls.

The slot of such a question has `approvers`, and in `value` the calls (see `agentkit.llm.approvals`). Only the platform
writes it, so that no agent can make one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from agentkit import AuthRequired, CallClient, InputRequired, Outcome, PaymentRequired
from agentkit.content.messages import Message as Said
from agentkit.llm import approvals
from agentkit.llm.approvals import APPROVE, ARGUMENTS, DECISION, FOR_SESSION, REASON, REFUSE
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.engine.turns import payments
from apps.engine.turns.guards import GuardQuestion
from apps.engine.turns.output import agent_message, clean
from apps.record.content import blobs, json_schema
from apps.record.content.parts import words_of
from apps.record.errors import AlreadyApproved, ApproverUnknown, InvalidParams
from apps.record.events import JSON, EventType
from apps.record.execution import Run
from apps.record.ledger import Ledger
from apps.record.models import Context, Task, TaskState
from parley.db.sql import write_transaction


def slot_of(outcome: Outcome | None) -> JSON | None:
    """What the task waits for by an outcome; None if it does not wait."""
    if not isinstance(outcome, InputRequired | AuthRequired):
        return None
    slot: JSON = {"name": outcome.slot} | ({} if outcome.value is None else {"value": outcome.value})
    if isinstance(outcome, AuthRequired) and outcome.service:
        slot["service"] = outcome.service
    if isinstance(outcome, CallClient):
        return slot | ({"repeats": True} if outcome.repeats else {})
    if isinstance(outcome, InputRequired) and outcome.calls:
        calls = list(outcome.calls)
        slot |= {"approvers": open_call(calls)["needs"], "value": {"calls": calls}}
    if isinstance(outcome, PaymentRequired):
        return slot | {"payment": payments.requirements(outcome)}
    if isinstance(outcome, GuardQuestion):
        slot |= {"repeats": True, "guard": outcome.asked}
    if not outcome.schema:
        return slot
    slot["schema"] = outcome.schema
    properties = outcome.schema.get("properties")
    # A database may reorder them; the form keeps the author's order.
    return slot | ({"order": list(properties)} if isinstance(properties, dict) else {})


def answered_slot(task: Task, message_id: str) -> JSON | None:
    """The slot of the question that the message with this id answered; if it answered none, what the task asks now."""
    earlier = Run.objects.filter(task=task, message__message_id=message_id, slot__isnull=False).first()
    return earlier.slot if earlier else task.slot


def asks_approval(slot: JSON | None) -> bool:
    return slot is not None and "approvers" in slot


def asking_task(slot: JSON | None) -> Task | None:
    """The task that asks what `slot` passes on from a called agent; None if nothing is passed on. A query for each."""
    found = None
    while slot and "child" in slot:
        found = Task.objects.filter(pk=slot["child"]).select_related("agent").first()
        slot = found.slot if found else None
    return found


def asking_slot(slot: JSON | None) -> JSON | None:
    """The slot of the task that asks: below the tasks that pass on a called agent's question. A query for each."""
    if slot and "child" in slot:
        below = asking_task(slot)
        return below.slot if below else None
    return slot


def calls_of_others(principal: Principal, most: int = 100) -> list[Task]:
    """Others' tasks that ask about a tool call, about which the caller may still decide, newest first. One query."""
    asking = Task.objects.approvable_by(principal).exclude(owner=principal.user_id).select_related("context", "agent")
    newest = asking.order_by("-status_at", "-pk")[:most]
    return [task for task in newest if principal.user_id not in approvers_of(task.slot)]


def approvers_of(slot: JSON | None) -> list[int]:
    """The keys of the users who approved the call that the slot asks about."""
    return [one["by"] for one in open_call(slot["value"]["calls"])["decisions"]] if slot else []


def decided_in(slot: JSON | None) -> JSON:
    """People's decisions in the slot of a run, by the calls' keys."""
    return approvals.decided(slot["value"]["calls"]) if slot and asks_approval(slot) else {}


def overtaken(slot: JSON, parts: Sequence[JSON]) -> JSON:
    """The slot if somebody wrote before the question came: nothing is approved, and the agent learns their words."""
    return {**slot, "value": {"calls": approvals.refuse_all(slot["value"]["calls"], unasked(parts)[REASON])}}


def unasked(parts: Sequence[JSON]) -> JSON:
    """The refusal that words stand for which somebody wrote before the question about a tool call came."""
    reason = f"Nobody was asked, because the user wrote meanwhile: {words_of(list(parts))}"[: approvals.MAX_REASON]
    return {DECISION: REFUSE, REASON: reason}


def answer_of(message: JSON) -> JSON:
    """The decision in a message in the A2A shape."""
    return approvals.answer_in(Said(message, blobs.content_of))


@dataclass(frozen=True, slots=True)
class Decided:
    """`slot`: with the decision. `is_final`: all calls are decided, so that the task continues."""

    slot: JSON
    is_final: bool


def record_decision(log: Ledger, principal: Principal, task: Task, answer: JSON) -> Decided:
    """Record somebody's decision about a task's tool call, and the next question if there is one.

    Raises ApproverUnknown, AlreadyApproved, InvalidParams.
    """
    slot: JSON = task.slot or {}
    calls = _decide(log, principal, task, slot["value"]["calls"], answer)
    while _is_allowed(principal, task, calls):
        calls = _decide(log, principal, task, calls, {DECISION: APPROVE})
    is_final = all("approved" in one for one in calls)
    slot = {**slot, "value": {"calls": calls}} if is_final else _ask_next(log, task, calls)
    return Decided(slot, is_final)


def _decide(log: Ledger, principal: Principal, task: Task, calls: Sequence[JSON], answer: JSON) -> list[JSON]:
    """Record an answer about the first open call; returns the calls after it."""
    before = open_call(calls)
    answer = _checked(principal, before, answer)
    name = principal.name or f"user:{principal.user_id}"
    decided, given = approvals.decide(calls, answer, principal.user_id, name, timezone.now().isoformat())
    after = next(one for one in decided if one["key"] == before["key"])
    is_session = bool(answer.get(FOR_SESSION)) and given["approved"] and approvals.may_remember(after)
    approval: JSON = {name: given[name] for name in ("approved", "by", "name", "reason", "edited") if name in given}
    approval |= {"callId": after["key"], "tool": after["tool"], "arguments": after["arguments"]}
    approval |= {"final": "approved" in after} | ({"session": True} if is_session else {})
    approval |= {"title": after["title"]} if after.get("title") else {}
    log.add(EventType.AGENT_STATUS, {"state": TaskState.WORKING, "approval": approval}, task=task.pk)
    if is_session:
        _remember(log.context, remembered_name(task.owner_id, task.agent.slug, after["kind"], after["tool"]))
    _audit(principal, task, after, given, is_session)
    return decided


def _is_allowed(principal: Principal, task: Task, calls: Sequence[JSON]) -> bool:
    """Does the next open call need no question, because the task's person just allowed its tool in the session?"""
    after = next((one for one in calls if "approved" not in one), None)
    if after is None or principal.user_id != task.owner_id or not approvals.may_remember(after):
        return False
    return remembered_name(task.owner_id, task.agent.slug, after["kind"], after["tool"]) in approved_tools(
        task.context_id
    )


def _audit(principal: Principal, task: Task, call: JSON, given: JSON, is_session: bool) -> None:
    """Without the arguments, which are content: the log of the session has them."""
    details = {"tool": call["tool"], "task": str(task.pk), "session": str(task.context_id)}
    details |= {"edited": "edited" in given, "for_session": is_session}
    action = AuditAction.TOOL_APPROVED if given["approved"] else AuditAction.TOOL_REFUSED
    subject = audit.Subject("agents.agent", str(task.agent_id), task.agent.slug)
    audit.record(action, actor=principal, object=subject, workspace=task.workspace_id, details=details)


def open_call(calls: Sequence[JSON]) -> JSON:
    """The first call without a decision: the one that is asked about."""
    return next(one for one in calls if "approved" not in one)


def _checked(principal: Principal, call: JSON, answer: JSON) -> JSON:
    if not principal.is_known:
        raise ApproverUnknown
    if answer.get(DECISION) not in (APPROVE, REFUSE):
        raise InvalidParams(f"Send {APPROVE} or {REFUSE}.", DECISION)
    if answer[DECISION] == REFUSE:
        return clean(answer)  # type: ignore[no-any-return]
    arguments = answer.get(ARGUMENTS)
    if arguments is not None:
        if not isinstance(arguments, dict):
            raise InvalidParams("Send an object with the tool's arguments.", ARGUMENTS)
        json_schema.validate(call["schema"], arguments, ARGUMENTS)
    is_edited = arguments is not None and arguments != call["arguments"]
    if not is_edited and any(one["by"] == principal.user_id for one in call["decisions"]):
        raise AlreadyApproved
    return clean(answer)  # type: ignore[no-any-return]


def _ask_next(log: Ledger, task: Task, calls: Sequence[JSON]) -> JSON:
    asked = approvals.question(calls)
    slot = slot_of(asked) or {}
    message = agent_message(log, task, asked.parts, asked.metadata)
    payload = {"state": TaskState.INPUT_REQUIRED, "message": message, "agent": task.agent_id, "slot": slot}
    log.add(EventType.AGENT_STATUS, payload, task=task.pk)
    return slot


def remembered_name(person: int | None, agent: str, kind: str, tool: str) -> str:
    """For the person who began the task: what one allowed runs for no other who writes in a shared session."""
    return f"{person or 'anonymous'} {agent} {kind}:{tool}"


def _remember(context: Context, name: str) -> None:
    known: list[Any] = approved_tools(context.pk)
    if name not in known:
        Context.objects.filter(pk=context.pk).update(approved_tools=[*known, name])


def approved_tools(context: uuid.UUID) -> list[str]:
    """What runs in a session without asking, because somebody said so."""
    return Context.objects.filter(pk=context).values_list("approved_tools", flat=True).first() or []


@dataclass(frozen=True, slots=True)
class AllowedTool:
    """A tool of an agent that runs in a session without asking its person again. `name` is as it is stored."""

    name: str
    agent: str
    tool: str


def allowed_tools(principal: Principal, context: Context) -> list[AllowedTool]:
    """What the caller allowed in the session. No query."""
    stored = [one.split(" ", 2) for one in context.approved_tools]
    return [AllowedTool(" ".join(one), *one[1:]) for one in stored if one[0] == str(principal.user_id)]


def revoke_allowed_tool(principal: Principal, context: Context, name: str) -> None:
    """Ask the caller again before this tool runs. Nothing happens if they did not allow it."""
    with write_transaction():
        row = Context.objects.select_for_update().filter(pk=context.pk, deleted_at=None).first()
        allowed = next((one for one in allowed_tools(principal, row) if one.name == name), None) if row else None
        if row is None or allowed is None:
            return
        kept = [one for one in row.approved_tools if one != name]
        Context.objects.filter(pk=row.pk).update(approved_tools=kept)
        details = {"tool": allowed.tool, "agent": allowed.agent, "session": str(row.pk)}
        subject = audit.session_subject(row.pk)
        action = AuditAction.TOOL_ALLOWANCE_REVOKED
        audit.record(action, actor=principal, object=subject, workspace=row.workspace_id, details=details)
