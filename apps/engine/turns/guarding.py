"""Guards check what an agent is told and what it says. Apps add them (`turn_guards`); a turn does what they decide.

On the way in, a verdict is part of the run's input, recorded with the decisions in one transaction, so that another
attempt tells the agent the same. On the way out, nothing is recorded before it was checked: text that may pass in
pieces is held back as far as a pattern may still match it, and all else until the turn ends.
"""

from __future__ import annotations

import copy
import json
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from agentkit import Answer, Failed, Outcome, Part, ReferencedTask, Rejected, TaskContext
from agentkit import Message as Said
from agentkit.slots import answer_of
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.turns import emitted, payments
from apps.engine.turns.assignment import Assignment, handler_message
from apps.engine.turns.guards import GUARDED, NOT_READ, Choice, Guard, Verdict, Way, guard_for, question
from apps.engine.turns.output import NewEvent
from apps.engine.turns.recorder import Recorder
from apps.record import ledger
from apps.record.content import blobs
from apps.record.content.strict_json import digest_of
from apps.record.events import JSON, EventType
from apps.record.execution import Run, Withheld
from apps.record.ledger import Ledger
from apps.record.models import Event, Message
from parley import db

log = logging.getLogger("parley.engine")

TOLD = ("told", "metadata")  # parts and metadata, by the keys of messages
CODE = "guardrail"  # of a failure
NOT_CHECKED = "A guardrail could not check this, so it was stopped. Try again, or ask a manager of the workspace."
STOPPED = {"in": "The message was not sent to the agent.", "out": "The answer was not shown."}


# In


async def before_agent(assignment: Assignment, recorder: Recorder, task: TaskContext) -> Outcome | None:
    """Check what the turn's agent is told, and set it on the assignment.

    Returns the outcome if the agent is not asked: a refusal, a question, or the answer that somebody decided to show.
    Raises LeaseLost.
    """
    guard = await guard_for(await _agents_of(assignment), assignment.task.workspace_id)
    recorder.guard = guard
    noted: JSON | None = assignment.input.get(GUARDED)
    asked = assignment.answered.get("guard")
    if asked and asked["way"] == Way.OUT:
        return await _show_or_not(assignment, recorder, task)
    if asked and noted and noted.get("asks"):
        noted = await _answered(assignment, guard, noted)
    elif guard is not None and Way.IN in guard.ways and not _is_checked(assignment, noted):
        _tell(assignment, noted or {})
        noted = await _checked(assignment, recorder, guard, noted)
    if guard is not None and Way.IN in guard.ways and assignment.decisions:
        noted = await _with_decisions(assignment, recorder, guard, noted or {})
    if not noted:
        return None
    if noted.get("blocked"):
        return Failed(noted["blocked"], CODE)
    if noted.get("stopped"):
        return Rejected(STOPPED[Way.IN])
    if noted.get("asks"):
        return question(_verdict_of(noted), Way.IN)
    _tell(assignment, noted)
    return None


async def _agents_of(assignment: Assignment) -> list[Agent]:
    """The turn's agent; for a fallback, also the one that it stands in for."""
    if assignment.fallback_id is None:
        return [assignment.agent]
    return [await db.run(lambda: Agent.objects.get(tasks=assignment.task.pk)), assignment.agent]


def for_fallback(noted: JSON | None) -> JSON:
    """Of what was decided for an agent, what its fallback is told too. It is checked again for the fallback."""
    return {name: noted[name] for name in TOLD if name in noted} if noted else {}


def told(task: TaskContext, assignment: Assignment) -> TaskContext:
    """The task with what the guards let pass."""
    said: dict[str, Any] = {"message": assignment.input_message, "history": assignment.history}
    return replace(task, **said, references=assignment.references)


def _is_checked(assignment: Assignment, noted: JSON | None) -> bool:
    """Also what a remote agent got already is not checked again."""
    was_sent = bool(assignment.input.get("sent"))
    return was_sent or (noted is not None and assignment.message.message_id in noted.get("checked", ()))


async def _checked(assignment: Assignment, recorder: Recorder, guard: Guard, noted: JSON | None) -> JSON:
    """What was decided about the turn's message, or about an answer in it, and about what was said before."""
    is_answer = assignment.original is not None
    if is_answer and assignment.asked_by is not None:
        return noted or {}  # the agent that asked is told it, and its guards check it
    said = handler_message(assignment.message, assignment.task.context) if is_answer else assignment.input_message
    verdict = await guard.check(Way.IN, _shown(said))
    for one in verdict.used:
        recorder.note_usage(one)
    if is_answer:
        verdict = _unasked(verdict)
    found: JSON = dict(noted or {})
    found["checked"] = [*found.get("checked", []), said.id]
    if verdict.blocked or verdict.asks:
        named = {"blocked": verdict.blocked, "asks": verdict.asks, "byManagers": verdict.by_managers}
        found |= {name: one for name, one in named.items() if one}
        if verdict.asks:
            found |= {"parts": verdict.parts} | ({"safe": verdict.safe} if verdict.safe is not None else {})
    else:
        _add(found, _changes(said, verdict.parts))
        if not is_answer:
            _add(found, await _earlier(guard, assignment.history, assignment.references))
    decisions = [one | {"messageId": said.id} for one in verdict.decisions]
    if decisions or found.get("told") or found.get("metadata"):
        await db.persist(_note, assignment, guard, found, decisions)
    return found


def _unasked(verdict: Verdict) -> Verdict:
    """In the middle of a turn, nobody can be asked: it passes without what was found, or not at all."""
    if not verdict.asks:
        return verdict
    blocked = verdict.blocked or ("" if verdict.safe is not None else verdict.asks)
    return replace(verdict, parts=verdict.safe or [], asks="", blocked=blocked)


async def _with_decisions(assignment: Assignment, recorder: Recorder, guard: Guard, noted: JSON) -> JSON:
    """What was decided, with people's decisions about tool calls: edited arguments and reasons reach the agent."""
    known: JSON = noted.get("decisions", {})
    new = {key: one for key, one in assignment.decisions.items() if key not in known}
    written = [[one["arguments"], one["reason"]] for one in new.values()]
    if noted.get("blocked") or not any(any(one) for one in written):
        return noted
    verdict = await guard.check(Way.IN, [{"data": written}])
    for one in verdict.used:
        recorder.note_usage(one)
    verdict = _unasked(verdict)
    if verdict.blocked:
        found = {**noted, "blocked": verdict.blocked}
    else:
        passed = zip(new.items(), verdict.parts[0]["data"], strict=True)
        changed = {key: {**one, "arguments": given, "reason": why} for (key, one), (given, why) in passed}
        found = {**noted, "decisions": {**known, **changed}}
    if verdict.decisions:
        by = assignment.message.message_id
        await db.persist(_note, assignment, guard, found, [one | {"messageId": by} for one in verdict.decisions])
    return found


def _shown(said: Said) -> list[JSON]:
    """What is checked of a message."""
    return [*map(dict, said.parts), *_as_part(said.metadata)]


def _changes(said: Said, passed: list[JSON]) -> JSON:
    """What the agent is told otherwise of a message, of which this passed: TOLD."""
    parts, metadata = _apart(passed, said.metadata)
    found: JSON = {"told": {_key(said): parts}} if parts != list(said.parts) else {}
    return found | ({"metadata": {_key(said): metadata}} if metadata != said.metadata else {})


def _withheld_from_agent(said: Said) -> JSON:
    return {"told": {_key(said): [{"text": NOT_READ}]}} | ({"metadata": {_key(said): {}}} if said.metadata else {})


def _key(said: Said) -> str:
    """Of a message. Its sender chose its id, which may be that of an agent's message."""
    return said.id if said.role == "user" else f"agent:{said.id}"


def _add(found: JSON, more: JSON) -> None:
    """Add to TOLD."""
    for name in TOLD:
        if name in more:
            found[name] = {**found.get(name, {}), **more[name]}


async def _earlier(guard: Guard, history: Sequence[Said], references: Sequence[ReferencedTask]) -> JSON:
    """What the agent is told otherwise of earlier messages: TOLD."""
    earlier = [*history, *(one for task in references for one in task.messages)]
    if not earlier:
        return {}
    tasks = {one.task_id for one in references} | {one.wire.get("taskId", "") for one in history}
    decided = await db.run(_decided, [uuid.UUID(one) for one in tasks if one])
    found: JSON = {}
    for choice in (None, Choice.SEND, Choice.REDACT, Choice.STOP):
        these = [one for one in earlier if (decided.get(one.id) if one.role == "user" else None) == choice]
        is_stopped = choice is Choice.STOP
        shown = [None] * len(these) if is_stopped else await guard.earlier(list(map(_shown, these)), choice)
        for said, passed in zip(these, shown, strict=True):
            _add(found, _changes(said, passed) if passed is not None else _withheld_from_agent(said))
    return found


def _decided(tasks: Sequence[uuid.UUID]) -> dict[str, str]:
    """By message of the tasks: what became of what was blocked or asked about. The newest decision counts."""
    found: dict[str, str] = {}
    events = Event.objects.filter(task__in=tasks, artifact_id="", type=EventType.GUARDRAIL)  # by the index of tasks
    for payload in events.order_by("id").values_list("payload", flat=True):
        if payload["direction"] == Way.IN and "messageId" in payload and not is_noted_only(payload):
            if "answer" in payload:
                found[payload["messageId"]] = payload["answer"]
            elif payload["action"] != "redact" or "failed" in payload:
                found[payload["messageId"]] = Choice.STOP
    return found


def is_noted_only(decision: JSON) -> bool:
    """Did nothing follow from it?"""
    return bool(decision.get("watched") or decision.get("passed"))


async def _answered(assignment: Assignment, guard: Guard | None, noted: JSON) -> JSON:
    """What somebody answered who was asked about the turn's message. Asks again for any other answer."""
    choice = _choice_of(assignment)
    if choice is None or (choice is Choice.REDACT and "safe" not in noted):
        return noted
    found = {name: one for name, one in noted.items() if name not in ("asks", "parts", "safe", "byManagers")}
    said = assignment.input_message
    if choice is Choice.STOP:
        found["stopped"] = True
    else:
        _add(found, _changes(said, noted["safe"] if choice is Choice.REDACT else noted["parts"]))
        if guard is not None:
            _add(found, await _earlier(guard, assignment.history, assignment.references))
    found["checked"] = [*found.get("checked", []), assignment.message.message_id]
    events = [one | {"messageId": said.id} for one in await db.run(_answers, assignment, Way.IN, choice)]
    await db.persist(_note, assignment, None, found, events)
    return found


def _choice_of(assignment: Assignment) -> Choice | None:
    answer = answer_of(assignment.answered, handler_message(assignment.message, assignment.task.context))
    return Choice(answer) if isinstance(answer, str) and answer in [*Choice] else None


def _answers(assignment: Assignment, way: Way, choice: Choice) -> list[JSON]:
    """The decisions of the rails that asked, with the answer."""
    asking = Event.objects.filter(task=assignment.task.pk, type=EventType.GUARDRAIL, payload__direction=way.value)
    newest: dict[str, JSON] = {}
    for one in asking.order_by("index").values_list("payload", flat=True):
        if one["action"] == "ask" and "answer" not in one and not is_noted_only(one):
            newest[one["rail"]] = one
    by = {"answer": choice.value, "by": assignment.message.author_id}
    return [{**one, **by} for one in newest.values()]


def _verdict_of(noted: JSON) -> Verdict:
    about: JSON = {"asks": noted["asks"], "safe": noted.get("safe"), "by_managers": noted.get("byManagers", False)}
    return Verdict(noted.get("parts", []), **about)


def _as_part(metadata: Mapping[str, Any]) -> list[JSON]:
    """Metadata as one part of data, without what the platform says about payments; none if it is empty."""
    checked = payments.without_payments(metadata)
    return [{"data": checked}] if checked else []


def _apart(parts: list[JSON], metadata: Mapping[str, Any]) -> tuple[list[JSON], JSON]:
    """The parts and the metadata that passed, of parts that ended with `_as_part`."""
    if not _as_part(metadata):
        return parts, dict(metadata)
    kept = {name: value for name, value in metadata.items() if name not in payments.without_payments(metadata)}
    return parts[:-1], parts[-1]["data"] | kept


def _note(assignment: Assignment, guard: Guard | None, noted: JSON, decisions: Sequence[JSON]) -> None:
    """Record the decisions and, with them, the run's input. Raises LeaseLost."""
    given = {**assignment.input, GUARDED: noted}
    values: JSON = {"input": given, "input_hash": digest_of(given)}
    task = assignment.task
    with ledger.writing(task.context_id, lease=assignment.lease, lease_values=values) as record:
        stored = Run.objects.filter(pk=assignment.lease.run_id).values_list("input", flat=True).first() or {}
        if stored.get(GUARDED) != noted:  # else an earlier try was committed, and only its reply was lost
            for one in decisions:
                record.add(EventType.GUARDRAIL, one, task=task.pk)
                if guard is not None:
                    record.extra_rows.append(guard.row(one, task.context_id, task.pk))
    assignment.input, assignment.input_hash = given, values["input_hash"]


def as_told(assignment: Assignment, rows: Iterable[Message]) -> list[Message]:
    """The user's messages of a task up to the turn's, as its agent is told them, without answers to guards' questions.

    Blocking.
    """
    noted, answers = dict[str, Any](), set()
    runs = Run.objects.filter(task=assignment.task.pk).order_by("turn")
    for message, slot, given in runs.values_list("message", "slot", "input"):
        _add(noted, given.get(GUARDED) or {})
        if slot and "guard" in slot:
            answers.add(message)
    read = [one for one in rows if one.index <= assignment.message.index and one.pk not in answers]
    return [_row_as_told(one, assignment, noted) for one in read]


def _row_as_told(row: Message, assignment: Assignment, noted: JSON) -> Message:
    said = handler_message(row, assignment.task.context)
    if (told := _as_told(said, noted)) is said:
        return row
    changed = copy.copy(row)
    changed.parts, changed.metadata = list(map(dict, told.parts)), told.metadata
    return changed


def _tell(assignment: Assignment, noted: JSON) -> None:
    """Set on the assignment what passed."""
    assignment.decisions = {**assignment.decisions, **noted.get("decisions", {})}
    if not any(noted.get(name) for name in TOLD):
        return
    assignment.message = _row_as_told(assignment.message, assignment, noted)
    assignment.input_message = _as_told(assignment.input_message, noted)
    assignment.history = [_as_told(one, noted) for one in assignment.history]
    assignment.references = _references_as_told(assignment.references, noted)


def _references_as_told(tasks: Sequence[ReferencedTask], noted: JSON) -> list[ReferencedTask]:
    return [replace(task, messages=[_as_told(one, noted) for one in task.messages]) for task in tasks]


def _as_told(said: Said, noted: JSON) -> Said:
    key = _key(said)
    changed = {"parts": noted.get("told", {}).get(key), "metadata": noted.get("metadata", {}).get(key)}
    changed = {name: value for name, value in changed.items() if value is not None}
    return Said({**said.wire, **changed}, blobs.content_of) if changed else said


class SteeredMessages:
    """Checks what a turn reads while it runs. A message about which somebody must be asked waits for its own turn."""

    def __init__(self, assignment: Assignment, recorder: Recorder) -> None:
        self._assignment, self._recorder = assignment, recorder
        self._passed: dict[str, list[JSON] | None] = {}  # by the ids of messages; None: somebody must be asked

    async def checked(self, rows: Sequence[Message]) -> list[Message]:
        """The messages that may be read now, as the agent is told them."""
        guard = self._recorder.guard
        if guard is None or Way.IN not in guard.ways:
            return list(rows)
        found = []
        for row in rows:
            if row.message_id not in self._passed:
                self._passed[row.message_id] = await self._check(guard, row)
            if (passed := self._passed[row.message_id]) is None:
                break
            row.parts, row.metadata = _apart(passed, row.metadata) if passed else ([{"text": NOT_READ}], {})
            found.append(row)
        return found

    async def _check(self, guard: Guard, row: Message) -> list[JSON] | None:
        """What passes of a message: nothing of one that is stopped; None if somebody must be asked."""
        said = handler_message(row, self._assignment.task.context)
        verdict = await guard.check(Way.IN, _shown(said))
        for one in verdict.used:
            self._recorder.note_usage(one)
        if verdict.asks and not verdict.blocked:
            return None
        decisions = [one | {"messageId": row.message_id} for one in verdict.decisions]
        if self._assignment.lease.fence > 1 and decisions:
            decisions = await db.run(_new_ones, self._assignment.task.pk, decisions)
        await record_decisions(self._assignment, self._recorder, guard, decisions)
        return [] if verdict.blocked else verdict.parts


def _new_ones(task: uuid.UUID, decisions: Sequence[JSON]) -> list[JSON]:
    """Those that no earlier attempt recorded."""
    earlier = Event.objects.filter(task=task, type=EventType.GUARDRAIL).values_list("payload", flat=True)
    known = {(one["rail"], one.get("messageId")) for one in earlier}
    return [one for one in decisions if (one["rail"], one["messageId"]) not in known]


async def record_decisions(assignment: Assignment, recorder: Recorder, guard: Guard, decisions: Iterable[JSON]) -> None:
    """Record them in order with what the agent says. Raises LeaseLost, RecordLost."""
    for one in decisions:
        assignment.at_end.rows.append(guard.row(one, assignment.context_id, assignment.task.pk))
        await recorder.record(NewEvent(EventType.GUARDRAIL, one))


# Out


async def after_agent(assignment: Assignment, recorder: Recorder, task: TaskContext, outcome: Outcome) -> Outcome:
    """Check what waits and the outcome, and let pass what may. Returns the outcome that is recorded.

    Raises LeaseLost, RecordLost.
    """
    guard = recorder.guard
    if guard is None or Way.OUT not in guard.ways:
        return outcome
    held = emitted.joined(recorder.held) if guard.holds else []
    parts, put_back = emitted.laid_out(held, outcome)
    verdict = Verdict([], blocked=recorder.blocked) if recorder.blocked else await _safely(guard, parts)
    recorder.note_verdict(verdict)
    decisions = merged(await recorder.end_guarded())
    blocked = verdict.blocked or recorder.blocked
    if verdict.asks and not blocked and not emitted.may_wait(outcome):
        blocked = verdict.asks
    try:
        if not blocked and verdict.asks:
            verdict, kept = _kept(task, put_back, verdict)
            await db.persist(_withhold, assignment, kept)
        elif not blocked:
            emissions, outcome = put_back(verdict.parts)
            await recorder.pass_on(emissions)
    except emitted.CannotHide as problem:
        blocked = str(problem)
    await record_decisions(assignment, recorder, guard, decisions)
    if blocked:
        return Failed(blocked, CODE)
    return question(verdict, Way.OUT) if verdict.asks else outcome


def not_checked() -> Failed:
    """The end of a turn whose answer nobody could check."""
    return Failed(NOT_CHECKED, CODE)


async def _safely(guard: Guard, parts: list[JSON]) -> Verdict:
    try:
        return await guard.check(Way.OUT, parts)
    except Exception:
        log.exception("a guard failed")
        return Verdict([], blocked=NOT_CHECKED)


def merged(decisions: Iterable[JSON]) -> list[JSON]:
    """One of each rail, with the sums of what it found and of its time."""
    found: dict[str, JSON] = {}
    for one in decisions:
        if (known := found.get(one["rail"])) is None:
            found[one["rail"]] = dict(one)
            continue
        names = known["counts"].keys() | one["counts"].keys()
        counts = {name: known["counts"].get(name, 0) + one["counts"].get(name, 0) for name in sorted(names)}
        known |= {**one, "counts": counts, "ms": known["ms"] + one["ms"]}
    return list(found.values())


def _kept(task: TaskContext, put_back: emitted.PutBack, verdict: Verdict) -> tuple[Verdict, JSON]:
    """What is kept until somebody has decided, and what they may choose. Raises CannotHide."""
    kept: JSON = {"show": emitted.written(*put_back(verdict.parts)), "memory": dict(task.memory)}
    kept["session"] = dict(task.session.memory)
    if verdict.safe is not None:
        try:
            kept["redact"] = emitted.written(*put_back(verdict.safe))
        except emitted.CannotHide:
            verdict = replace(verdict, safe=None)
    return verdict, kept


def _withhold(assignment: Assignment, kept: JSON) -> None:
    content = json.dumps(kept, ensure_ascii=False)
    Withheld.objects.update_or_create(task_id=assignment.task.pk, defaults={"content": content})


def _withheld(assignment: Assignment) -> JSON | None:
    content = Withheld.objects.filter(task=assignment.task.pk).values_list("content", flat=True).first()
    return json.loads(content) if content else None


async def _show_or_not(assignment: Assignment, recorder: Recorder, task: TaskContext) -> Outcome:
    """What somebody decided about the answer of the turn. Asks again for any other answer."""
    kept, choice = await db.run(_withheld, assignment), _choice_of(assignment)
    if kept is None:
        return Failed("The answer is not kept any more. Send the message again.", CODE)
    if choice is None or (choice is not Choice.STOP and choice not in kept):
        again = Verdict([], asks="Choose one of the answers.", safe=[] if "redact" in kept else None)
        by = assignment.answered["guard"]["byManagers"]
        return question(replace(again, by_managers=by), Way.OUT)
    for one in await db.run(_answers, assignment, Way.OUT, choice):
        await recorder.record(NewEvent(EventType.GUARDRAIL, one))
    if choice is Choice.STOP:
        return Rejected(STOPPED[Way.OUT])
    emissions, outcome = emitted.read(kept[choice])
    recorder.guard = None  # it was checked
    await recorder.pass_on(emissions)
    task.memory.update(kept["memory"])
    task.session.memory.update(kept["session"])
    return outcome


# Answers without a task


class Talk(Protocol):
    """What an agent that answers with a message is told beside it."""

    @property
    def history(self) -> Sequence[Said]: ...

    @property
    def references(self) -> Sequence[ReferencedTask]: ...


@dataclass
class Admitted:
    """A message that an agent may answer with a message, as far as guards are concerned.

    Attributes:
        message: as the agent is told it.
        needs_task: it is stopped, somebody must or may be asked, or a model judges. The turn of a task decides again.
    """

    guard: Guard
    message: JSON
    needs_task: bool
    _decisions: list[JSON] = field(default_factory=list)

    async def told(self, talk: Talk) -> JSON:
        """Of what was said before, what the agent is told otherwise: fields of the conversation."""
        if Way.IN not in self.guard.ways:
            return {}
        told = await _earlier(self.guard, talk.history, talk.references)
        history = [_as_told(one, told) for one in talk.history]
        return {"history": history, "references": _references_as_told(talk.references, told)}

    async def checked(self, answer: Answer) -> Answer:
        """The answer as it is recorded."""
        if Way.OUT not in self.guard.ways:
            return answer
        shown = [*(dict(part) for part in answer.parts), *_as_part(answer.metadata)]
        verdict = await _safely(self.guard, shown)
        self._decisions += verdict.decisions
        if stopped := verdict.blocked or verdict.asks:
            return Answer.error(stopped, CODE)
        parts, metadata = _apart(verdict.parts, answer.metadata)
        return Answer(cast("list[Part]", parts), metadata)

    def record(self, log: Ledger) -> None:
        """Record what was decided, with the answer."""
        for one in self._decisions:
            log.add(EventType.GUARDRAIL, one)
            log.extra_rows.append(self.guard.row(one, log.context.pk, None))


async def admit(principal: Principal, agent: Agent, message: JSON) -> Admitted | None:
    """Check a message before the agent's code sees it that chooses how to answer. None without guards."""
    guard = await guard_for([agent], principal.workspace_id)
    if guard is None:
        return None
    if guard.uses_models:  # a run counts what they use
        return Admitted(guard, message, needs_task=True)
    said = Said(message, blobs.content_of)
    shown = _shown(said)
    verdict = await guard.check(Way.IN, shown) if Way.IN in guard.ways else Verdict(shown)
    decisions = [one | {"messageId": message["messageId"]} for one in verdict.decisions]
    needs_task = bool(verdict.blocked or verdict.asks or guard.asks)
    if verdict.blocked:
        return Admitted(guard, message, needs_task, decisions)
    parts, metadata = _apart(verdict.parts, said.metadata)
    told = {**message, "parts": parts} | ({"metadata": metadata} if metadata else {})
    return Admitted(guard, told, needs_task, decisions)
