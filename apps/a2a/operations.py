"""The operations of A2A 1.0 (§3.1), whatever binding they are called through.

An operation answers with a JSON object, or with updates to be streamed. It raises record.errors.Refusal:
what can be refused is refused before the first update.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import db
from apps.a2a import discovery, snapshots, streams, versions
from apps.a2a.contexts import list_contexts
from apps.a2a.errors import JSON, Forbidden
from apps.a2a.listing import list_tasks
from apps.a2a.requests import (
    Sending,
    read_asking,
    read_asking_for_webhook,
    read_clearing,
    read_context_listing,
    read_feedback,
    read_listing,
    read_listing_of_webhooks,
    read_new_webhook,
    read_nothing,
    read_sending,
)
from apps.a2a.streams import Updates
from apps.a2a.webhooks import configs
from apps.accounts.principals import READ, WRITE, Principal
from apps.agents.models import Agent
from apps.engine.send import Sent, send, settled
from apps.features.sessions import deletion, feedback
from apps.record import whole_tasks, wire
from apps.record.errors import InvalidParams, UnsupportedOperation


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls which agent with what: the request message in its ProtoJSON form."""

    principal: Principal
    agent: Agent
    params: Any
    last_event_id: str = ""  # of a stream that is to be resumed
    version: str = versions.CURRENT  # of A2A that the caller speaks, and in which its webhooks are called
    traceparent: str = ""  # the caller's span (W3C Trace Context), as it was sent


Operation = Callable[[Call], Awaitable[JSON | Updates]]


async def _send(call: Call) -> JSON:
    """SendMessage: waits until the task ends or asks for something, unless the caller will not."""
    sending = read_sending(call.params, call.agent, call.version)
    sent = await _sent(call, sending)
    if sent.task is None:
        return {"message": sent.answer}
    show = partial(wire.load_task, history_length=sending.history_length)
    if sending.return_immediately:
        return {"task": await db.run(snapshots.load, sent.task, show)}
    find = partial(whole_tasks.find, history_length=sending.history_length)
    return {"task": await settled(sent.context, sent.task, sent.index, show, sent.since, find)}


async def _send_streaming(call: Call) -> Updates:
    """SendStreamingMessage: a task as it was when the message came in, and everything since."""
    _require_streaming(call.agent)
    sending = read_sending(call.params, call.agent, call.version)
    sent = await _sent(call, sending)
    if sent.task is None:
        return streams.answered(sent.index, sent.answer or {})
    snapshot = await db.run(snapshots.accepted, sent.task, sent.index, sending.history_length)
    return streams.begun(snapshot, streams.at_a_question)


async def _sent(call: Call, sending: Sending) -> Sent:
    alongside = None
    if sending.webhook is not None:
        await configs.vet(sending.webhook, "configuration.taskPushNotificationConfig.url")
        alongside = configs.keep_with(sending.webhook)
    span = call.traceparent
    return await send(call.principal, call.agent, sending.message, alongside=alongside, traceparent=span)


async def _get(call: Call) -> JSON:
    asking = read_asking(call.params, call.agent)
    return await db.run(snapshots.find, call.principal, call.agent, asking.task, asking.history_length)


async def _list(call: Call) -> JSON:
    listing = read_listing(call.params, call.agent)
    return await db.run(list_tasks, call.principal, call.agent, listing)


async def _cancel(call: Call) -> JSON:
    asking = read_asking(call.params, call.agent)
    return await db.run(snapshots.cancel, call.principal, call.agent, asking.task)


async def _subscribe(call: Call) -> Updates:
    """SubscribeToTask: the task and what follows; with a `Last-Event-ID`, only what was missed and what follows."""
    _require_streaming(call.agent)
    asking = read_asking(call.params, call.agent)
    snapshot = await db.run(snapshots.now, call.principal, call.agent, asking.task)
    if call.last_event_id:
        return streams.resumed(snapshot, _index(call.last_event_id, snapshot.index))
    if snapshot.state.is_terminal:
        raise UnsupportedOperation("The task has ended, so there is nothing to subscribe to. GetTask shows it.")
    return streams.begun(snapshot, streams.at_the_end)


def _require_streaming(agent: Agent) -> None:
    if not agent.streams:
        raise UnsupportedOperation("This agent does not stream. Use SendMessage and GetTask.")


def _index(last_event_id: str, newest: int) -> int:
    is_index = last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 20
    if not is_index or int(last_event_id) > newest:
        raise InvalidParams("Last-Event-ID must be the id of an event that this task's stream sent.", "Last-Event-ID")
    return int(last_event_id)


async def _create_webhook(call: Call) -> JSON:
    task, webhook = read_new_webhook(call.params, call.agent, call.version)
    await configs.vet(webhook, "url")
    return await db.run(configs.create, call.principal, call.agent, task, webhook)


async def _get_webhook(call: Call) -> JSON:
    asking = read_asking_for_webhook(call.params, call.agent)
    return await db.run(configs.find, call.principal, call.agent, asking)


async def _list_webhooks(call: Call) -> JSON:
    listing = read_listing_of_webhooks(call.params, call.agent)
    return await db.run(configs.listed, call.principal, call.agent, listing)


async def _delete_webhook(call: Call) -> JSON:
    asking = read_asking_for_webhook(call.params, call.agent)
    return await db.run(configs.delete, call.principal, call.agent, asking)


async def _extended_card(call: Call) -> JSON:
    read_nothing(call.params, call.agent)
    return await db.run(discovery.extended_card, call.principal, call.agent)


async def _feedback(call: Call) -> JSON:
    """tasks/feedback of our own extension."""
    asked = read_feedback(call.params, call.agent)
    await db.run(feedback.give, call.principal, call.agent, asked.task, asked.feedback)
    return {}


async def _list_contexts(call: Call) -> JSON:
    """contexts/list of our own extension."""
    listing = read_context_listing(call.params, call.agent)
    return await db.run(list_contexts, call.principal, call.agent, listing)


async def _clear_context(call: Call) -> JSON:
    """contexts/clear of our own extension."""
    context_id = read_clearing(call.params, call.agent)
    await db.run(deletion.clear, call.principal, call.agent, context_id)
    return {}


CHANGING = frozenset(
    {
        "SendMessage",
        "SendStreamingMessage",
        "CancelTask",
        "CreateTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfig",
        "tasks/feedback",
        "contexts/clear",
    }
)
"""The operations that a key needs the scope to write for; the others are for reading."""


STREAMING = frozenset({"SendStreamingMessage", "SubscribeToTask"})
"""The operations that answer with updates; the others answer with a JSON object."""


def check_scope(principal: Principal, method: str) -> None:
    """Raises Forbidden where the caller's key is limited to other things."""
    scope = WRITE if method in CHANGING else READ
    if not principal.may(scope):
        raise Forbidden(f"This API key may not do this: it lacks the scope {scope}.")


OPERATIONS: dict[str, Operation] = {
    "SendMessage": _send,
    "SendStreamingMessage": _send_streaming,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
    "CreateTaskPushNotificationConfig": _create_webhook,
    "GetTaskPushNotificationConfig": _get_webhook,
    "ListTaskPushNotificationConfigs": _list_webhooks,
    "DeleteTaskPushNotificationConfig": _delete_webhook,
    "GetExtendedAgentCard": _extended_card,
}
"""By the names that the protocol gives them, which are JSON-RPC's method names."""

OWN_METHODS: dict[str, Operation] = {
    "tasks/feedback": _feedback,
    "contexts/list": _list_contexts,
    "contexts/clear": _clear_context,
}
"""JSON-RPC's methods of our own extension (docs/extensions/conversations-v1.md)."""
