"""The state of remote agents that let Parley keep it (`docs/extensions/state-v1.md`).

It comes with an agent's events, goes back with the next message, and is shown to nobody.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any
from urllib.parse import urlsplit

from a2a.types import AgentCard
from django.db.models import Model
from google.protobuf.json_format import MessageToDict

from apps.engine.turns.assignment import Assignment
from apps.engine.turns.output import clean
from apps.record import lineage
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import TERMINAL_STATES, Context, Task
from apps.record.runs import LeaseLost
from apps.remote.a2a_client import Peer
from apps.remote.models import AgentState
from parley import db
from parley.db import sql
from parley.db.sql import Query, Update

STATE_EXTENSION = "/ext/state/v1"  # end of its URI
MOST_BYTES = 1024 * 1024
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
BEARERS = ("statusUpdate", "task", "message")
"""What has the state in its metadata."""

log = logging.getLogger("parley.remote")

STATES = Query[AgentState](
    "SELECT {state}, {task} FROM {state.table} JOIN {task.table} ON task.id = state.task_id "
    "WHERE state.agent_id = %s AND task.context_id = %s ORDER BY state.updated_at DESC",
    attached={"task": "state.task"}, state=AgentState, task=Task,
)  # fmt: skip


class StateKeeper:
    """Keeps the state of one turn's agent.

    Attributes:
        uri: of the extension, as the agent's card has it; "" if its state is not kept.
        is_repeatable: says the agent that a turn may be taken again?
        streams_whole: is a stream of it that comes to its end the whole task, which nobody need ask for?
    """

    def __init__(self, assignment: Assignment, peer: Peer, *, has_begun: bool) -> None:
        self._assignment = assignment
        extension = _declared(peer.card)
        is_local = urlsplit(peer.interface.url).hostname in LOCAL_HOSTS
        is_trusted = peer.is_authenticated or peer.runs_here or is_local
        self.uri, params = extension if is_trusted else ("", {})
        self.is_repeatable = bool(self.uri) and params.get("retrySafe") is True
        self.streams_whole = bool(self.uri) and params.get("wholeStreams") is True
        # Nothing can be known before the first message of a conversation that nobody took up.
        is_new = not (assignment.history or has_begun or assignment.task.context.forked_at or assignment.turn > 1)
        self._rows: list[AgentState] | None = [] if is_new and assignment.attempt == 1 else None
        self._has_ended = False

    async def added_to(self, message: JSON) -> JSON:
        """The message with the newest state, from which the agent goes on."""
        if not self.uri:
            return message
        rows = await self._loaded()
        return {
            **message,
            "metadata": {**message.get("metadata", {}), self.uri: await _newest(self._assignment, rows)},
            "extensions": [*message.get("extensions", []), self.uri],
        }

    async def taken_from(self, event: JSON) -> JSON:
        """The event without the state. Steps are stored at once, and what is kept between turns with the turn's end.

        Raises LeaseLost.
        """
        for kind in BEARERS:
            metadata = (event.get(kind) or {}).get("metadata") or {}
            stated = {name: one for name, one in metadata.items() if name.endswith(STATE_EXTENSION)}
            if not stated:
                continue
            if isinstance(changed := stated.get(self.uri), dict):
                await self._keep(changed)
            others = {name: one for name, one in metadata.items() if name not in stated}
            body = {name: one for name, one in event[kind].items() if name != "metadata"}
            return {**event, kind: body | ({"metadata": others} if others else {})}
        return event

    async def has_ended(self) -> bool:
        """Is the state the one after this turn, so that the turn cannot be taken again?"""
        own = self._own(await self._loaded())
        return self._has_ended or (own is not None and own.ended_turn >= self._assignment.turn)

    async def _loaded(self) -> list[AgentState]:
        """The rows of the conversation, the newest first."""
        if self._rows is None:
            agent, context = self._assignment.agent.pk, self._assignment.context_id
            self._rows = await db.run(_load, agent, context)
        return self._rows

    def _own(self, rows: list[AgentState]) -> AgentState | None:
        return next((one for one in rows if one.task_id == self._assignment.task.pk), None)

    async def _keep(self, changed: JSON) -> None:
        if "task" not in changed and "conversation" not in changed and not changed.get("steps"):
            return
        assignment, rows = self._assignment, await self._loaded()
        state = self._own(rows) or AgentState(agent=assignment.agent, task=assignment.task)
        _change(assignment, state, changed)
        if "task" in changed or "conversation" in changed:
            self._has_ended |= "task" in changed
            assignment.at_end.rows, assignment.at_end.updates = _at_end(state, rows)
        elif changed.get("steps"):
            await db.persist(_store_steps, assignment, state)
            self._rows = [state, *(one for one in rows if one is not state)]


def _declared(card: AgentCard) -> tuple[str, JSON]:
    """The URI under which a card declares the extension, and its parameters."""
    for one in card.capabilities.extensions:
        if one.uri.endswith(STATE_EXTENSION):
            return one.uri, MessageToDict(one.params)
    return "", {}


def _change(assignment: Assignment, state: AgentState, changed: JSON) -> None:
    """Take over what the agent says that changed."""
    redact = assignment.redaction
    if isinstance(steps := changed.get("steps"), dict):
        merged = {name: one for name, one in {**state.steps, **steps}.items() if one is not None}
        storable = _storable(assignment, redact(merged))
        state.steps = state.steps if storable is None else storable
    if "task" in changed:
        state.kept = _storable(assignment, redact(changed["task"]))
        state.ended_turn, state.seen = assignment.turn, assignment.message.message_id
        state.steps = state.steps if state.kept else {}
    if "conversation" in changed:
        state.conversation = _storable(assignment, redact(changed["conversation"]))
    state.updated_at = sql.corrected_time()


KEPT_FIELDS = ("conversation", "kept", "steps", "ended_turn", "seen", "updated_at")


def _at_end(state: AgentState, rows: list[AgentState]) -> tuple[list[Model], list[Update]]:
    """What is written with the turn's end: only the newest state of the conversation is kept, and those of tasks that
    wait. `_load` deletes what is left of others.
    """
    older = [one for one in rows if one is not state and one.conversation is not None]
    updates = [Update(AgentState, {"id": one.pk}, {"conversation": None}) for one in older]
    if state._state.adding:
        return [state], updates
    return [], [*updates, Update(AgentState, {"id": state.pk}, {name: getattr(state, name) for name in KEPT_FIELDS})]


def _load(agent: int, context: uuid.UUID) -> list[AgentState]:
    """The rows of a conversation, the newest first."""
    kept = list[AgentState]()
    for one in STATES.all(agent, context):
        if one.task.state in TERMINAL_STATES and one.conversation is None:
            one.delete()
        else:
            kept.append(one)
    return kept


def _store_steps(assignment: Assignment, state: AgentState) -> None:
    """Raises LeaseLost."""
    with sql.write_transaction():
        if not Run.objects.filter(**assignment.lease.is_held, state=Run.State.RUNNING).exists():
            raise LeaseLost
        state.save()


def _storable(assignment: Assignment, value: Any) -> JSON | None:
    """The value as it can be stored; None for what is no object or too large."""
    if not isinstance(value, dict):
        return None
    try:
        kept: JSON = clean(value)
    except ValueError:
        log.info("the state of agent %s is not kept: it is no JSON", assignment.agent.slug)
        return None
    if len(json.dumps(kept, ensure_ascii=False).encode()) > MOST_BYTES:
        log.warning("the state of agent %s is not kept: it is larger than 1 MiB", assignment.agent.slug)
        return None
    return kept


async def _newest(assignment: Assignment, rows: list[AgentState]) -> JSON:
    own = next((one for one in rows if one.task_id == assignment.task.pk), None)
    kept: JSON = {"steps": own.steps} if own and own.steps else {}
    if own and own.kept:
        kept["task"] = own.kept
    conversation = next((one.conversation for one in rows if one.conversation is not None), None)
    context = assignment.task.context
    if not rows and context.forked_at and (shared := await db.run(at_branch_point, assignment.agent.pk, context)):
        conversation = shared.conversation
    return kept | ({"conversation": conversation} if conversation is not None else {})


def at_branch_point(agent: int, context: Context) -> AgentState | None:
    """The agent's state where a fork begins; None if it is not known, because the agent went on since."""
    if not context.forked_at:
        return None
    sources = {one.source for one in lineage.log_ranges(context, context.forked_at)}
    newest = AgentState.objects.filter(agent=agent, task__context__in=sources).order_by("-updated_at")
    state = newest.select_related("task").filter(conversation__isnull=False).first()
    return state if state is not None and state.task.status_event <= context.forked_at else None
