"""What chat completions and responses share: a request's turn, and how it is streamed and stopped."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from apps.a2a.http import AuthenticatedRequest, checked_frames
from apps.accounts.principals import WRITE, Principal
from apps.agents.models import Agent
from apps.api.framework.problems import IDEMPOTENCY_HEADER
from apps.doors import turns
from apps.doors.callers import recheck
from apps.doors.clients import Wishes
from apps.doors.turns import Piece, Pieces
from apps.engine.repeats import Sent, sent_before
from apps.engine.send import send
from apps.limits import current as limits
from apps.optional.openai import threads
from apps.optional.openai.errors import error_json
from apps.optional.openai.requests import Message
from apps.record import wire
from apps.record.errors import KeyUsed
from apps.record.events import JSON
from parley import db

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Turn:
    """A message that was sent, and who sent it."""

    incoming: AuthenticatedRequest
    agent: Agent
    sent: Sent
    session: str  # the caller's name for it
    is_kept: bool = False  # the task goes on if the client leaves
    is_of_others: bool = False
    warning: str = ""  # what of the request has no effect

    @property
    def headers(self) -> dict[str, str]:
        """Where the conversation goes on, and what had no effect."""
        named = {"X-Parley-Session": self.session} if self.session.isascii() else {}
        return named | ({"Warning": self.warning} if self.warning else {})

    @property
    def principal(self) -> Principal:
        return self.incoming.principal

    def pieces(self) -> Pieces:
        """What follows. A task whose client leaves is canceled, unless it `is_kept`."""
        return turns.stopping(
            turns.follow(self.sent, is_of_others=self.is_of_others),
            self.principal,
            self.agent,
            None if self.is_kept else self.sent.task,
        )


async def begin(
    incoming: AuthenticatedRequest,
    agent: Agent,
    messages: Sequence[Message],
    session: str,
    wishes: Wishes,
    **options: Any,
) -> Turn:
    """Send what is new in a thread, in the session that the client names or in the thread's own. Raises Refusal.

    `options` are those of `send`.
    """
    principal, key = incoming.principal, incoming.request.headers.get(IDEMPOTENCY_HEADER, "")
    told, warning = await wishes.told(agent)
    if answer := await db.run(threads.answer_of, principal, agent, messages, session, told):
        with suppress(KeyUsed):  # its task has ended: the results are words of another message
            return await _send(incoming, agent, answer, options, warning, is_kept=bool(key))
    message = threads.message_of(agent, messages, session, key, told)
    if key and (sent := await db.run(sent_before, principal, agent, message)) is not None:
        return Turn(incoming, agent, sent, session or str(sent.context), is_kept=True, warning=warning)
    if not session and len(messages) > 1 and (own := await db.run(threads.session_of, principal, agent, messages)):
        message["contextId"] = own
    if key or session:
        message["messageId"] = key or str(uuid.uuid4())
        return await _send(incoming, agent, message, options, warning, is_kept=bool(key))
    for message_id in threads.message_ids(messages):
        try:
            turn = await _send(incoming, agent, {**message, "messageId": message_id}, options, warning)
        except KeyUsed:  # the id is of a message in another session
            continue
        if not turn.sent.repeated:
            return turn
    return await _send(incoming, agent, {**message, "messageId": str(uuid.uuid4())}, options, warning)


async def _send(
    incoming: AuthenticatedRequest, agent: Agent, message: JSON, options: JSON, warning: str, *, is_kept: bool = False
) -> Turn:
    trace = incoming.request.headers.get("traceparent", "")
    sent = await send(incoming.principal, agent, message, finds_question=True, traceparent=trace, **options)
    session = message.get("contextId") or str(sent.context)
    return Turn(incoming, agent, sent, session, is_kept, warning=warning)


async def collect(pieces: Pieces) -> list[tuple[int, Piece]]:
    """All pieces, once the turn has settled."""
    async with aclosing(pieces):
        return [piece async for batch in pieces for piece in batch]


def event_stream(
    request: HttpRequest,
    agent: Agent,
    pieces: Pieces,
    encode: Callable[[list[tuple[int, Piece]]], Iterator[bytes]],
    close: Callable[[], None],
    headers: dict[str, str],
    scope: str = WRITE,
) -> wire.EventStream:
    """What `encode` makes of the pieces, as server-sent events."""

    def error_frame(error: Exception) -> bytes:
        return wire.sse_frame(error_json(error))

    frames = checked_frames(pieces, encode, error_frame, recheck(request, agent.slug, scope))
    return wire.EventStream(frames, close, headers)


def open_stream(incoming: AuthenticatedRequest, agent: Agent) -> ExitStack:
    """Counts a request that waits or streams, until it is closed. Raises QuotaExceeded."""
    stack = ExitStack()
    stack.callback(limits.open_stream(incoming.principal, incoming.address, agent.pk))
    return stack
