"""The operations of A2A 1.0 (§3.1), for both bindings and versions.

An operation returns a JSON object, or updates to stream. It raises Refusal before the first update.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest

from apps.a2a import discovery, extensions, http, tasks, webhooks
from apps.a2a.authentication import TaskReading, agent_of_tenant, authenticate, names_no_agent
from apps.a2a.errors import JSON
from apps.a2a.requests import (
    ClearContextRequest,
    CreateWebhookRequest,
    FeedbackRequest,
    ListContextsRequest,
    ListTasksRequest,
    ListWebhooksRequest,
    OneWebhookRequest,
    Request,
    SendMessageRequest,
    TaskRequest,
    check_modes,
    check_webhooks,
)
from apps.a2a.tasks import Updates, list_contexts, list_tasks
from apps.a2a.versions.v0_3 import FIRST_WEBHOOK, METHODS, Form, downgrade_refusal, downgrade_stream
from apps.accounts import audit
from apps.accounts.principals import READ, WRITE, Principal
from apps.accounts.requests import bodies
from apps.accounts.requests.authentication import OpenStream
from apps.agents.models import Agent
from apps.conversations.sessions import commands, deletion
from apps.engine import cancel
from apps.engine.send import send, wait_for
from apps.engine.turns import approvals
from apps.limits import current as limits
from apps.record.errors import InvalidParams, Refusal, TaskNotCancelable, UnsupportedOperation, check_allowed
from apps.record.ledger import Ledger
from apps.record.models import TaskState
from apps.record.reading import task_json
from parley import db

Execute = Callable[[http.AuthenticatedRequest, str, Any], Awaitable[http.Answer]]
"""Runs an operation by its name in some version. Raises record.errors.Refusal."""


async def execute(
    incoming: http.AuthenticatedRequest,
    method: str,
    params: Any,
    version: str = http.V1_0,
    operations: Mapping[str, Operation] = MappingProxyType({}),
) -> http.Answer:
    """Run an operation, or its form in `operations`, for a caller of `version`. Raises Refusal, QuotaExceeded."""
    request, principal = incoming.request, incoming.principal
    check_allowed(principal, WRITE if method in WRITE_OPERATIONS else READ)
    agent = incoming.agent
    if agent is None and not (method in DOOR_OPERATIONS and names_no_agent(params)):
        agent = await db.run(agent_of_tenant, principal, params)
    concerns_extensions = agent and (agent.capabilities.get("extensions") or extensions.NAMED & request.META.keys())
    headers = extensions.activate(request, agent) if agent and concerns_extensions else {}
    is_stream = method in STREAMING_OPERATIONS
    call = Call(request, principal, agent, params, version, is_stream, reading=incoming.reading)
    operation = operations.get(method) or OPERATIONS.get(method) or EXTENSION_METHODS[method]
    recheck = partial(_recheck, request.META.get("HTTP_AUTHORIZATION", ""), agent.slug if agent else "", method)
    close = limits.open_stream(principal, incoming.address, call.agent.pk) if is_stream else _keep_nothing_open
    try:
        return http.Answer(await operation(call), headers, is_stream, close, recheck)
    except BaseException:
        close()
        raise


def _keep_nothing_open() -> None:
    """What closes an answer that is no stream."""


def _recheck(authorization: str, slug: str, method: str) -> None:
    principal, _ = authenticate(authorization, slug, OpenStream())
    check_allowed(principal, WRITE if method in WRITE_OPERATIONS else READ)


async def execute_old(incoming: http.AuthenticatedRequest, name: str, params: Any, form: Form) -> http.Answer:
    """Run a method of 0.3. Raises Refusal with 0.3's names of methods and fields."""
    method = FIRST_WEBHOOK if _asks_for_any_webhook(name, params) else METHODS[name]
    upgraded = method.upgrade(params, form)
    try:
        answer = await execute(incoming, method.operation, upgraded, http.V0_3)
    except Refusal as error:
        raise downgrade_refusal(error, method, form) from None
    content = json.loads(answer.content) if isinstance(answer.content, str) else answer.content
    old = downgrade_stream(content, method, form) if answer.is_stream else method.downgrade(content, form)
    activated = answer.headers.get(extensions.EXTENSIONS_HEADER)
    return replace(answer, content=old, headers={extensions.OLD_EXTENSIONS_HEADER: activated} if activated else {})


async def check_old(incoming: http.AuthenticatedRequest, name: str, params: Any, form: Form) -> None:
    """Check a request of 0.3 without running it. Raises Refusal as `execute_old`."""
    method = METHODS[name]
    upgraded = method.upgrade(params, form)
    agent = incoming.agent or await db.run(agent_of_tenant, incoming.principal, upgraded)
    try:
        await incoming.work_on_body(REQUESTS[method.operation].read, upgraded, agent)
    except Refusal as error:
        raise downgrade_refusal(error, method, form) from None


def _asks_for_any_webhook(name: str, params: Any) -> bool:
    return (
        name == "tasks/pushNotificationConfig/get"
        and isinstance(params, dict)
        and not (params.get("pushNotificationConfigId") or params.get("push_notification_config_id"))
    )


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation. `params` is in ProtoJSON form. `named_agent`: None at the front door."""

    request: HttpRequest
    principal: Principal
    named_agent: Agent | None
    params: Any
    version: str  # of the caller, and of its webhooks
    is_stream: bool
    check: cancel.Check | None = None  # may refuse, in the transaction that writes
    reading: TaskReading | None = None  # of a task, before it is known whether it is needed

    @property
    def agent(self) -> Agent:
        assert self.named_agent is not None, "an operation of DOOR_OPERATIONS"
        return self.named_agent


Operation = Callable[[Call], Awaitable[JSON | str | Updates]]
"""Gives a JSON object, its text, or updates to stream."""


async def _send(call: Call) -> JSON | str | Updates:
    """SendMessage, which waits until the task is settled unless the caller declines, and SendStreamingMessage.

    A stream begins with the task as it was when the message arrived.
    Raises PushNotificationNotSupported, ContentTypeNotSupported, and what `send` raises.
    """
    agent = call.named_agent
    assert agent is not None, "it is none of DOOR_OPERATIONS"
    if call.is_stream:
        _require_streaming(agent)
    read, size = SendMessageRequest.read_with_message, len(call.request.body)
    request, message = await bodies.work_on(size, read, call.params, agent)
    configuration = request.configuration
    webhook, extra_writes = configuration.task_push_notification_config, call.check
    if webhook is not None:
        check_webhooks(agent)
    modes = configuration.accepted_output_modes or []
    if modes or any("mediaType" in part for part in message["parts"]):
        check_modes(agent, message["parts"], modes)
    if webhook is not None:
        await webhooks.vet_url(webhook, "configuration.taskPushNotificationConfig.url")
        extra_writes = webhooks.create_with_task(webhook, call.version, call.check)
    if call.principal.user_id and not call.principal.key and message.get("taskId"):  # a page's token
        await db.run(approvals.check_message, call.principal, message)
    span = call.request.META.get("HTTP_TRACEPARENT", "")  # W3C Trace Context
    sent = await send(call.principal, agent, message, extra_writes=extra_writes, traceparent=span)
    history_length = configuration.history_length
    if call.is_stream:
        if sent.task is None:
            return tasks.message_stream(sent.index, sent.answer or {})
        snapshot = await db.run(tasks.accepted_snapshot, sent.task, sent.index, history_length)
        return tasks.task_stream(snapshot, tasks.closes_at_question)
    if sent.task is None:
        return {"message": sent.answer}
    if configuration.return_immediately:
        task = await db.run(task_json.load, sent.task, history_length)
    else:
        find = partial(task_json.find_settled, sent.task, history_length)
        task = await wait_for(sent.context, sent.index, find, sent.since, settled=True)
    return f'{{"task":{task}}}'


async def _get(call: Call) -> str:
    request = TaskRequest.read(call.params, call.agent)
    read = call.reading
    if read is not None and read.json is not None and read.asked == (request.id, request.history_length):
        return read.json
    return await db.run(tasks.find_task, call.principal, call.agent, request.id, request.history_length)


async def _list(call: Call) -> str:
    request = ListTasksRequest.read(call.params, call.named_agent)
    return await db.run(list_tasks, call.principal, call.named_agent, request)


async def _cancel(call: Call) -> str:
    """CancelTask; with the metadata of an extension, it only asks for a stop (docs/extensions/steering-v1.md)."""
    request = TaskRequest.read(call.params, call.agent)
    if extensions.stops_after_step(request.metadata):
        return await db.run(tasks.stop_after_step, call.principal, call.agent, request.id)
    check = _refuse_canceled if call.version == http.V0_3 else call.check
    return await db.run(tasks.cancel_task, call.principal, call.agent, request.id, check)


def _refuse_canceled(log: Ledger, task: uuid.UUID) -> None:
    """In 0.3 a canceled task cannot be canceled again."""
    if log.task(task).state == TaskState.CANCELED:
        raise TaskNotCancelable


async def _subscribe(call: Call) -> Updates:
    """SubscribeToTask: the task and later updates; with `Last-Event-ID` all updates after that."""
    _require_streaming(call.agent)
    request = TaskRequest.read(call.params, call.agent)
    snapshot = await db.run(tasks.current_snapshot, call.principal, call.agent, request.id)
    if last_event_id := call.request.headers.get("Last-Event-ID", ""):
        return tasks.resumed_stream(snapshot, _resume_index(last_event_id, snapshot.index))
    if snapshot.state.is_terminal:
        raise UnsupportedOperation("The task has ended, so there is nothing to subscribe to. GetTask shows it.")
    return tasks.task_stream(snapshot, tasks.closes_at_end)


def _require_streaming(agent: Agent) -> None:
    if not agent.streams:
        raise UnsupportedOperation("This agent does not stream. Use SendMessage and GetTask.")


def _resume_index(last_event_id: str, newest: int) -> int:
    is_index = last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 20
    if not is_index or int(last_event_id) > newest:
        raise InvalidParams("Last-Event-ID must be the id of an event that this task's stream sent.", "Last-Event-ID")
    return int(last_event_id)


async def _create_webhook(call: Call) -> JSON:
    request = CreateWebhookRequest.read(call.params, call.agent)
    await webhooks.vet_url(request, "url")
    return await db.run(webhooks.create_config, call.principal, call.agent, request, call.version)


async def _get_webhook(call: Call) -> JSON:
    request = OneWebhookRequest.read(call.params, call.agent)
    return await db.run(webhooks.find_config, call.principal, call.agent, request)


async def _list_webhooks(call: Call) -> JSON:
    request = ListWebhooksRequest.read(call.params, call.agent)
    return await db.run(webhooks.list_configs, call.principal, call.agent, request)


async def _delete_webhook(call: Call) -> JSON:
    request = OneWebhookRequest.read(call.params, call.agent)
    return await db.run(webhooks.delete_config, call.principal, call.agent, request)


async def _extended_card(call: Call) -> JSON:
    Request.read(call.params, call.agent)
    return await db.run(discovery.extended_card, call.principal, call.agent)


async def _feedback(call: Call) -> JSON:
    """tasks/feedback (our extension)."""
    request = FeedbackRequest.read(call.params, call.agent)
    await db.run(commands.give_feedback, call.principal, call.agent, request.task_id, request.stored())
    return {}


async def _list_contexts(call: Call) -> JSON:
    """contexts/list (our extension)."""
    request = ListContextsRequest.read(call.params, call.agent)
    return await db.run(list_contexts, call.principal, call.agent, request)


async def _clear_context(call: Call) -> JSON:
    """contexts/clear (our extension)."""
    request = ClearContextRequest.read(call.params, call.agent)
    delete = audit.for_request(call.request, deletion.delete_context)
    await db.run(delete, call.principal, call.agent, request.context_id)
    return {}


WRITE_OPERATIONS = frozenset(
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
"""The operations that need the scope WRITE; the others need READ."""


STREAMING_OPERATIONS = frozenset({"SendStreamingMessage", "SubscribeToTask"})
"""The operations that answer with updates."""

DOOR_OPERATIONS = frozenset({"ListTasks"})
"""The operations that concern all agents, at the front door without a tenant."""


REQUESTS: dict[str, type[Request]] = {
    "SendMessage": SendMessageRequest,
    "SendStreamingMessage": SendMessageRequest,
    "GetTask": TaskRequest,
    "CancelTask": TaskRequest,
    "SubscribeToTask": TaskRequest,
    "CreateTaskPushNotificationConfig": CreateWebhookRequest,
    "GetTaskPushNotificationConfig": OneWebhookRequest,
    "ListTaskPushNotificationConfigs": ListWebhooksRequest,
    "DeleteTaskPushNotificationConfig": OneWebhookRequest,
    "GetExtendedAgentCard": Request,
}
"""The requests of the operations that 0.3 has."""

OPERATIONS: dict[str, Operation] = {
    "SendMessage": _send,
    "SendStreamingMessage": _send,
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
"""By their names in the protocol and in JSON-RPC."""

EXTENSION_METHODS: dict[str, Operation] = {
    "tasks/feedback": _feedback,
    "contexts/list": _list_contexts,
    "contexts/clear": _clear_context,
}
"""JSON-RPC's methods of our own extension (docs/extensions/conversations-v1.md)."""
