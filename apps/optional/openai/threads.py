"""Which session a request goes on with.

A client names the session, or sends the whole thread with each request. A thread's session is found by the ids of its
messages, which are digests of the thread so far. Where the thread differs from what is recorded (an answer was
generated again, an older message was edited), a new session begins with a copy of the thread.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from apps.a2a.requests import checked_message
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.doors.clients import json_or_text, results_message
from apps.engine import accept, activity
from apps.optional.openai.requests import Content, Message, named, parts_of, spoken, user_message
from apps.record import ledger, lineage
from apps.record.content import blobs
from apps.record.content.parts import words_of
from apps.record.content.strict_json import digest_of
from apps.record.errors import InvalidParams
from apps.record.events import JSON, EventType, Imported
from apps.record.execution import Accepted
from apps.record.models import Context, Task
from apps.record.models import Message as Recorded
from apps.record.reading import lookup

UNNAMED = "-"  # a message without an id yet
COPIED: Imported = {"source": "client"}  # of what a client says was said
REFERENCE = re.compile(r"msg_([0-9a-f]{32})_(\d{1,18})", re.ASCII)  # the id of a response's message
SAME_THREADS = 8  # answers to the same thread that are told apart


def message_of(
    agent: Agent, messages: Sequence[Message], session: str = "", message_id: str = "", told: JSON | None = None
) -> JSON:
    """The A2A message of what the user said after the last answer. Raises InvalidParams.

    Results of tools that no task waits for are a part of it, in words. `session`: the client's name of the
    conversation; `told`: what else goes along as metadata.
    """
    said = [_in_words(one, messages) if one.is_result else one for one in newest(messages)]
    place = {"contextId": session} if session else {}
    return user_message(agent, said, message_id or UNNAMED, **place, **metadata_of(messages, told))


def answer_of(principal: Principal, agent: Agent, messages: Sequence[Message], session: str, told: JSON) -> JSON | None:
    """The A2A message of results that a task waits for, with what the user says after them; None without such a task.

    Raises InvalidParams.
    """
    said = newest(messages)
    results = {one.tool_call_id: json_or_text(one.words) for one in said if one.is_result}
    answer = results_message(principal, agent, results) if results else None
    if answer is None:
        return None
    answer["parts"] += parts_of([one for one in said if not one.is_result])
    place = {"contextId": session} if session else {}
    return checked_message(agent, {**answer, **place, **metadata_of(messages, told)}, named)


def _in_words(result: Message, messages: Sequence[Message]) -> Message:
    calls = {call.id: call.function.name for one in messages for call in one.tool_calls or ()}
    name = calls.get(result.tool_call_id) or "the tool"
    return spoken("user", f"The result of {name}: {result.words}")


def message_ids(messages: Sequence[Message]) -> list[str]:
    """The ids that the newest message of this thread may have, by which a later request finds it."""
    return _ids(_key(_spoken(messages)))


def session_of(principal: Principal, agent: Agent, messages: Sequence[Message]) -> str:
    """The caller's name of the thread's session, which may be made here with a copy of it.

    Empty for a thread without an answer. Raises Refusal.
    """
    before = _before(messages)
    earlier = _spoken(before)
    if not earlier:
        return ""
    _, answers = next(_turns(reversed(earlier)))
    known = Accepted.objects.filter(
        sender=principal.sender, agent=agent, message_id__in=_ids(_key(earlier[: -len(answers)]))
    )
    answer = "\n".join(one.words for one in reversed(answers))
    context = _session_of(principal, known.select_related("answer"), answer) or _copy(principal, agent, before)
    return context.name_for(principal) if context else ""


def resolved(principal: Principal, messages: Sequence[Message]) -> list[Message]:
    """The messages with the answers that they refer to by the ids of earlier responses' items."""
    named = {one.reference: found for one in messages if (found := REFERENCE.fullmatch(one.reference))}
    if not named:
        return list(messages)
    contexts = Context.objects.of(principal).filter(pk__in={found[1] for found in named.values()}, deleted_at=None)
    said = list(Recorded.objects.filter(context__in=contexts, role=Recorded.Role.AGENT).order_by("index"))

    def resolve(message: Message) -> Message:
        if (found := named.get(message.reference)) is None:
            return message
        answers = (one for one in said if one.context_id.hex == found[1] and one.index >= int(found[2]))
        row = next(answers, None)
        return spoken("assistant", _words_in(row)) if row else message

    return list(map(resolve, messages))


def _words_in(row: Recorded) -> str:
    return words_of([blobs.inline(part) for part in row.parts])


def _dialogue(messages: Sequence[Message]) -> list[Message]:
    """Without what the client says to models, such as the date in a system prompt."""
    return [one for one in messages if one.role not in ("system", "developer")]


def _spoken(messages: Sequence[Message]) -> list[Message]:
    return [one for one in messages if one.role in ("user", "assistant")]


def newest(messages: Sequence[Message]) -> list[Message]:
    """The user's messages, and the results of tools, after the last answer. Raises InvalidParams."""
    found = list(takewhile(lambda one: one.role != "assistant", reversed(_dialogue(messages))))
    if not found:
        raise InvalidParams("The last message must be the user's, with content.", "messages")
    return found[::-1]


def _before(messages: Sequence[Message]) -> list[Message]:
    """What was said up to the last answer."""
    return _dialogue(messages)[: -len(newest(messages))]


def _turns(messages: Iterator[Message]) -> Iterator[tuple[str, list[Message]]]:
    for role, group in groupby(messages, key=lambda one: one.role):
        yield role, list(group)


def metadata_of(messages: Sequence[Message], told: JSON | None = None) -> JSON:
    """A system prompt goes to the agent as metadata, beside its own instructions."""
    prompts = [one.words for one in messages if one.role in ("system", "developer") and one.words]
    metadata = ({"instructions": "\n\n".join(prompts)} if prompts else {}) | (told or {})
    return {"metadata": metadata} if metadata else {}


def _key(messages: Sequence[Message]) -> str:
    return digest_of([[one.role, [_said(content) for content in one.contents]] for one in messages])[:40]


def _said(content: Content) -> JSON:
    """Clients name the type of text in several ways."""
    is_text = content.type in ("text", "input_text", "output_text")
    return {"type": "text", "text": content.text} if is_text else content.model_dump(exclude_unset=True)


def _ids(key: str) -> list[str]:
    return [f"chat-{key}-{number}" for number in range(SAME_THREADS)]


def _session_of(principal: Principal, accepted: Iterable[Accepted], answer: str) -> Context | None:
    """The session of one of these messages, if this answer to it is the newest that was said there."""
    for one in accepted:
        context = _context_of(principal, one)
        if context and _ends_with(context, answer):
            return context
    return None


def _ends_with(context: Context, answer: str) -> bool:
    last = lineage.newest_messages(context, 1)
    if not last or last[0].role != Recorded.Role.AGENT:
        return False
    return _plain(_words_in(last[0])) in _plain(answer)


def _context_of(principal: Principal, accepted: Accepted) -> Context | None:
    if accepted.task_id is None and accepted.answer_id is None and lookup.restore_answer(accepted):
        accepted.refresh_from_db()
    task = Task.objects.filter(pk=accepted.task_id).first() if accepted.task_id else None
    key = task.context_id if task else accepted.answer.context_id if accepted.answer else None
    found = Context.objects.of(principal).filter(pk=key, deleted_at=None).first() if key else None
    return lookup.restored_or_none(found)


def _plain(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class _Copied:
    is_user: bool
    parts: list[JSON]


def _copy(principal: Principal, agent: Agent, messages: Sequence[Message]) -> Context | None:
    """A new session with these messages; None if they have no content. Nobody answers them.

    Raises Refusal where the agent takes no message now.
    """
    accept.check_obstacles(principal, agent)
    activity.check_accepts(agent, is_delegated=False)
    by_side = groupby(messages, key=lambda one: one.role == "user")
    copied = [_Copied(is_user, _copied(agent, list(group), is_user)) for is_user, group in by_side]
    copied = [one for one in copied if one.parts]
    if not copied:
        return None
    blobs.check_room(principal.workspace_id, [part for one in copied for part in one.parts])
    with ledger.writing(Context()) as log:
        for one in copied:
            role = "ROLE_USER" if one.is_user else "ROLE_AGENT"
            said: JSON = {"messageId": str(uuid.uuid4()), "role": role, "parts": one.parts}
            if one.is_user:
                payload = accept.message_payload(log, principal, agent, said)
                log.add(EventType.USER_MESSAGE, payload | {"imported": COPIED})
            else:
                said["contextId"] = log.context.context_id
                log.add(EventType.AGENT_MESSAGE, {"message": said, "imported": COPIED})
        return log.context


def _copied(agent: Agent, messages: Sequence[Message], is_user: bool) -> list[JSON]:
    if is_user:
        has_content = bool(parts_of(messages))
        return blobs.store_large(user_message(agent, messages, UNNAMED)["parts"]) if has_content else []
    words = "\n\n".join(one.shown for one in messages if one.shown)
    return blobs.store_large([{"text": words}]) if words else []
