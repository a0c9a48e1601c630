"""The state of remote agents that let Parley keep it (`docs/extensions/state-v1.md`).

It comes with an agent's events, goes back with the next message, and is shown to nobody.
"""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.json_format import MessageToDict

from apps.engine.turns.assignment import Assignment
from apps.engine.turns.output import clean
from apps.record import lineage
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import TERMINAL_STATES, Context
from apps.record.runs import LeaseLost
from apps.remote.a2a_client import Peer
from apps.remote.models import AgentState
from parley import db
from parley.db import sql

STATE_EXTENSION = "/ext/state/v1"  # end of its URI
MOST_BYTES = 1024 * 1024
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
BEARERS = ("statusUpdate", "task", "message")
"""What has the state in its metadata."""

log = logging.getLogger("parley.remote")


class StateKeeper:
    """Keeps the state of one turn's agent.

    Attributes:
        uri: of the extension, as the agent's card has it; "" if its state is not kept.
        is_repeatable: says the agent that a turn may be taken again?
    """

    def __init__(self, assignment: Assignment, peer: Peer) -> None:
        self._assignment = assignment
        declared = (one for one in peer.card.capabilities.extensions if one.uri.endswith(STATE_EXTENSION))
        extension = next(declared, None)
        is_local = urlsplit(peer.interface.url).hostname in LOCAL_HOSTS
        is_trusted = peer.is_authenticated or peer.runs_here or is_local
        self.uri = extension.uri if extension is not None and is_trusted else ""
        params = MessageToDict(extension.params) if extension is not None else {}
        self.is_repeatable = bool(self.uri) and params.get("retrySafe") is True

    async def added_to(self, message: JSON) -> JSON:
        """The message with the newest state, from which the agent goes on."""
        if not self.uri:
            return message
        stated = await db.run(_newest, self._assignment)
        return {
            **message,
            "metadata": {**message.get("metadata", {}), self.uri: stated},
            "extensions": [*message.get("extensions", []), self.uri],
        }

    async def taken_from(self, event: JSON) -> JSON:
        """The event without the state, which is stored. Raises LeaseLost."""
        for kind in BEARERS:
            metadata = (event.get(kind) or {}).get("metadata") or {}
            stated = {name: one for name, one in metadata.items() if name.endswith(STATE_EXTENSION)}
            if not stated:
                continue
            if isinstance(changed := stated.get(self.uri), dict):
                await db.persist(_store, self._assignment, changed)
            others = {name: one for name, one in metadata.items() if name not in stated}
            body = {name: one for name, one in event[kind].items() if name != "metadata"}
            return {**event, kind: body | ({"metadata": others} if others else {})}
        return event

    async def has_ended(self) -> bool:
        """Is the state the one after this turn, so that the turn cannot be taken again?"""
        return await db.run(_has_ended, self._assignment)


def _store(assignment: Assignment, changed: JSON) -> None:
    """Raises LeaseLost."""
    with sql.write_transaction():
        if not Run.objects.filter(**assignment.lease.is_held, state=Run.State.RUNNING).exists():
            raise LeaseLost
        known = AgentState.objects.filter(task=assignment.task.pk, agent=assignment.agent.pk).first()
        state = known or AgentState(agent_id=assignment.agent.pk, task_id=assignment.task.pk)
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
        state.updated_at = sql.database_time()
        state.save()
        if "conversation" in changed:
            _supersede(assignment, state)


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


def _supersede(assignment: Assignment, newest: AgentState) -> None:
    """Only the newest state of the conversation is kept, and those of tasks that wait."""
    others = AgentState.objects.filter(agent=newest.agent_id, task__context=assignment.context_id)
    others = others.exclude(pk=newest.pk)
    others.filter(task__state__in=TERMINAL_STATES).delete()
    others.update(conversation=None)


def _newest(assignment: Assignment) -> JSON:
    found = AgentState.objects.filter(agent=assignment.agent.pk, task__context=assignment.context_id)
    states = list(found.order_by("-updated_at"))
    own = next((one for one in states if one.task_id == assignment.task.pk), None)
    kept: JSON = {"steps": own.steps} if own and own.steps else {}
    if own and own.kept:
        kept["task"] = own.kept
    conversation = next((one.conversation for one in states if one.conversation is not None), None)
    if not states and (shared := at_branch_point(assignment.agent.pk, assignment.task.context)):
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


def _has_ended(assignment: Assignment) -> bool:
    own = AgentState.objects.filter(task=assignment.task.pk, agent=assignment.agent.pk)
    return bool(own.filter(ended_turn__gte=assignment.turn).exists())
