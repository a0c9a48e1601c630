"""Records imported conversations: a session each, whose messages go to the agent that the person chooses as history."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from django.db import IntegrityError
from django.db.models import TextChoices

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.features.imports.formats import Conversation, Turn, read_conversations
from apps.record import ledger
from apps.record.content.rendering import shortened_title
from apps.record.events import JSON, EventType, Opening
from apps.record.lookup import check_may_use
from apps.record.models import MAX_TITLE, Context

KEY_NAMESPACE = uuid.UUID("b7b1bb1d-8bb2-5b52-8d7e-1f64a5a8c6a1")
NEW_AT_ONCE = 200  # sessions of one call, which a caller waits for


class Outcome(TextChoices):
    CREATED = "created"
    EXISTING = "existing"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one conversation. `problem`: why it was skipped."""

    title: str
    outcome: Outcome
    session: uuid.UUID | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    """`remaining`: the conversations after the last result; the same file again imports the next."""

    results: list[Result]
    remaining: int


def import_file(principal: Principal, agent: Agent, content: bytes) -> Import:
    """Import an exported file of a known caller: at most NEW_AT_ONCE new sessions with the agent.

    A conversation is recorded completely or skipped; one that was imported before keeps its session. Calls no agent.
    Raises InvalidParams for a file that is no export, UnsupportedOperation for an agent that the caller may not use;
    then nothing was recorded.
    """
    check_may_use(principal, agent)
    conversations = read_conversations(content)
    results: list[Result] = []
    new = 0
    for conversation in conversations:
        if new == NEW_AT_ONCE:
            break
        results.append(_import_one(principal, agent, conversation))
        new += results[-1].outcome == Outcome.CREATED
    return Import(results, len(conversations) - len(results))


def _import_one(principal: Principal, agent: Agent, conversation: Conversation) -> Result:
    title = conversation.title or (shortened_title(conversation.turns[0].text) if conversation.turns else "")
    title = title[:MAX_TITLE] or "Imported conversation"
    if conversation.problem:
        return Result(title, Outcome.SKIPPED, problem=conversation.problem)
    for key in _keys(principal, conversation):
        found = Context.objects.filter(pk=key).only("deleted_at").first()
        if found is None:
            try:
                _record(principal, agent, key, title, conversation)
            except IntegrityError:  # the same file is imported twice at once
                return Result(title, Outcome.EXISTING, key)
            return Result(title, Outcome.CREATED, key)
        if found.deleted_at is None:
            return Result(title, Outcome.EXISTING, key)
    raise AssertionError("endless")


def _keys(principal: Principal, conversation: Conversation) -> Iterator[uuid.UUID]:
    """The session's key by owner and content; the next after each that was deleted."""
    name = f"{principal.user_id} {principal.workspace_id} {conversation.digest}"
    return (uuid.uuid5(KEY_NAMESPACE, f"{name} {attempt}") for attempt in count())


def _record(principal: Principal, agent: Agent, key: uuid.UUID, title: str, conversation: Conversation) -> None:
    opens: Opening = {
        "contextId": "",
        "owner": principal.user_id,
        "workspace": principal.workspace_id or agent.workspace_id,
        "agent": agent.pk,
        "title": title,
    }
    with ledger.writing(Context(pk=key)) as log:
        log.add(EventType.SESSION_RENAMED, {"title": title, "opens": log.opening(opens)})
        for number, turn in enumerate(conversation.turns):
            type_ = EventType.USER_MESSAGE if turn.is_user else EventType.AGENT_MESSAGE
            log.add(type_, {"message": _message(key, number, turn), "imported": turn.imported})


def _message(session: uuid.UUID, number: int, turn: Turn) -> JSON:
    return {
        "messageId": str(uuid.uuid5(session, str(number))),
        "contextId": str(session),
        "role": "ROLE_USER" if turn.is_user else "ROLE_AGENT",
        "parts": [{"text": turn.text}],
        "metadata": {"imported": turn.imported},
    }
