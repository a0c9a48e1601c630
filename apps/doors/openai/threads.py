"""Which session a request goes on with.

A client names the session, or sends the whole thread with each request. A thread's session is found by the ids of its
messages, which are digests of the thread so far. Where the thread differs from what is recorded (an answer was
generated again, an older message was edited), a new session begins with a copy of the thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.api.framework.views import IDEMPOTENCY_HEADER
from apps.doors import turns
from apps.doors.openai.requests import Message, user_message
from apps.engine import accept, activity
from apps.engine.send import Sent
from apps.record import ledger, lineage, lookup
from apps.record.content import blobs
from apps.record.content.parts import words_of
from apps.record.content.strict_json import digest_of
from apps.record.errors import InvalidParams
from apps.record.events import JSON, EventType, Imported
from apps.record.execution import Accepted
from apps.record.models import Context, Task
from apps.record.models import Message as Recorded

UNNAMED = "-"  # a message without an id yet
COPIED: Imported = {"source": "client"}  # of what a client says was said
SAME_THREADS = 8  # answers to the same thread that are told apart


def message_of(agent: Agent, messages: Sequence[Message], session: str = "", message_id: str = "") -> JSON:
    """The A2A message of the user's words after the last answer. Raises InvalidParams.

    `session`: the client's name of the conversation.
    """
    place = {"contextId": session} if session else {}
    return user_message(agent, _newest(messages), message_id or UNNAMED, **place, **_instructions(messages))


def sent_before(principal: Principal, agent: Agent, message: JSON) -> Sent | None:
    """What the message led to, if it was sent before. Raises InvalidParams if its key was used for another one."""
    sent = turns.sent_before(principal, agent, message["messageId"])
    if sent is None:
        return None
    same = Recorded.objects.filter(context=sent.context, message_id=message["messageId"], role=Recorded.Role.USER)
    row = same.first()
    if row is None or row.parts != blobs.store_large(message["parts"]):
        raise InvalidParams("This key was used for another message. Use a new one.", IDEMPOTENCY_HEADER)
    return sent


def message_ids(messages: Sequence[Message]) -> list[str]:
    """The ids that the newest message of this thread may have, by which a later request finds it."""
    return _ids(_key(_spoken(messages)))


def session_of(principal: Principal, agent: Agent, messages: Sequence[Message]) -> str:
    """The caller's name of the thread's session, which may be made here with a copy of it.

    Empty for a thread without an answer. Raises Refusal.
    """
    earlier = _spoken(messages)[: -len(_newest(messages))]
    if not earlier:
        return ""
    _, answers = next(_turns(reversed(earlier)))
    known = Accepted.objects.filter(
        sender=principal.sender, agent=agent, message_id__in=_ids(_key(earlier[: -len(answers)]))
    )
    answer = "\n".join(one.words for one in reversed(answers))
    context = _session_of(principal, known.select_related("answer"), answer) or _copy(principal, agent, earlier)
    return context.name_for(principal)


def _spoken(messages: Sequence[Message]) -> list[Message]:
    """Without what the client says to models, such as the date in a system prompt."""
    return [one for one in messages if one.role in ("user", "assistant")]


def _newest(messages: Sequence[Message]) -> list[Message]:
    """The user's messages after the last answer. Raises InvalidParams."""
    spoken = _spoken(messages)
    role, newest = next(_turns(reversed(spoken)), ("", []))
    if role != "user":
        raise InvalidParams("The last message must be the user's, with content.", "messages")
    return newest[::-1]


def _turns(messages: Iterator[Message]) -> Iterator[tuple[str, list[Message]]]:
    for role, group in groupby(messages, key=lambda one: one.role):
        yield role, list(group)


def _instructions(messages: Sequence[Message]) -> JSON:
    """A system prompt goes to the agent as metadata, beside its own instructions."""
    told = [one.words for one in messages if one.role in ("system", "developer") and one.words]
    return {"metadata": {"instructions": "\n\n".join(told)}} if told else {}


def _key(messages: Sequence[Message]) -> str:
    thread = [[one.role, [content.model_dump(exclude_unset=True) for content in one.contents]] for one in messages]
    return digest_of(thread)[:40]


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
    newest = lineage.newest_messages(context, 1)
    if not newest or newest[0].role != Recorded.Role.AGENT:
        return False
    return _plain(words_of([blobs.inline(part) for part in newest[0].parts])) in _plain(answer)


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
    role: str
    parts: list[JSON]


def _copy(principal: Principal, agent: Agent, messages: Sequence[Message]) -> Context:
    """A new session with these messages. Nobody answers them. Raises Refusal where the agent takes no message now."""
    accept.check_obstacles(principal, agent)
    activity.check_accepts(agent, is_delegated=False)
    copied = [_copied(agent, role, group) for role, group in _turns(iter(messages))]
    blobs.check_room(principal.workspace_id, [part for one in copied for part in one.parts])
    with ledger.writing(Context()) as log:
        for one in copied:
            said: JSON = {"messageId": str(uuid.uuid4()), "role": one.role, "parts": one.parts}
            if one.role == "ROLE_USER":
                payload = accept.message_payload(log, principal, agent, said)
                log.add(EventType.USER_MESSAGE, payload | {"imported": COPIED})
            else:
                said["contextId"] = log.context.context_id
                log.add(EventType.AGENT_MESSAGE, {"message": said, "imported": COPIED})
        return log.context


def _copied(agent: Agent, role: str, messages: Sequence[Message]) -> _Copied:
    if role == "user":
        parts = user_message(agent, messages, UNNAMED)["parts"]
        return _Copied("ROLE_USER", blobs.store_large(parts))
    words = "\n\n".join(one.words for one in messages)
    return _Copied("ROLE_AGENT", blobs.store_large([{"text": words}]))
