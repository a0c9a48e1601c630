"""The A2A client: the only place that speaks A2A outward.

    async with a2a_client.connect(card, auth=auth) as peer:
        async for event in peer.send(message): ...

It gives and takes A2A 1.0 JSON, whatever version the agent speaks. The SDK's client knows the methods, paths and
versions of A2A; `transport` limits what agents may send and turns failures into sentences for people.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import quote

import httpx
from a2a.client import ClientCallContext
from a2a.client.transports.base import ClientTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.client.transports.tenant_decorator import TenantTransportDecorator
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import A2AError
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from apps.agents.models import Agent
from apps.remote import cards
from apps.remote.authentication import credentials
from apps.remote.cards import HTTP_JSON, JSONRPC, Interface, choose_interface
from apps.remote.errors import BadCard, Misbehaved, Refused
from apps.remote.transport import CallClient, pooled_transport
from outbound.transports import Transport

JSON = dict[str, Any]
NO_STREAMS = ("UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND")  # from an agent whose card promised streams
TRANSPORTS: dict[tuple[str, str], Callable[[CallClient, AgentCard, str], ClientTransport]] = {
    (JSONRPC, "1.0"): JsonRpcTransport,
    (HTTP_JSON, "1.0"): RestTransport,
    (JSONRPC, "0.3"): CompatJsonRpcTransport,
    (HTTP_JSON, "0.3"): CompatRestTransport,
}

EVENT_KINDS = ("task", "message", "statusUpdate", "artifactUpdate")
LONGEST_ID = 512  # characters; other servers' ids are longer than ours

FREE_FORM_TYPES = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")  # any JSON


@asynccontextmanager
async def connect_for(
    agent: Agent,
    owner: int | None,
    *,
    traceparent: str = "",
    skill: str = "",
    checking: bool = False,
    redact: Callable[[str], None] = lambda secret: None,
) -> AsyncIterator[Peer]:
    """The agent, whose `current_version` is loaded, in the name of a user. Arguments as of `credentials.auth_for`.

    Raises errors.RemoteError.
    """
    if agent.current_version is None:
        raise BadCard(f"{agent.name} has no card: an operator has to refresh it.")
    card = cards.card_of(agent.current_version)
    auth = await credentials.auth_for(agent, owner, skill=skill, checking=checking, redact=redact)
    headers = {"traceparent": traceparent} if traceparent else {}
    async with connect(card, auth=auth, headers=headers) as peer:
        yield peer


@asynccontextmanager
async def connect(
    card: AgentCard, *, auth: httpx.Auth | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Peer]:
    """The agent of this card. `auth` and `headers` go with each of its requests. Raises BadCard.

    It is cheap: an event loop keeps its connections to an origin open for the next call.
    """
    interface = choose_interface(card)
    async with pooled_transport(interface.origin) as transport:
        yield Peer(card, interface, transport, auth, headers or {})


class Peer:
    """Calls one remote agent. All of its calls raise `errors.RemoteError`.

    Attributes:
        card: the agent's card.
        interface: the interface of the card that is called.
        streams: does the card say that the agent can stream?
        calls_webhooks: does the card say that the agent calls webhooks?
        is_authenticated: does a credential go with the calls?
        event_id: the id of the last event, after which `subscribe` can go on; "" for none.
    """

    def __init__(
        self,
        card: AgentCard,
        interface: Interface,
        transport: Transport,
        auth: httpx.Auth | None,
        headers: Mapping[str, str],
    ) -> None:
        self.interface = interface
        self.streams: bool = card.capabilities.streaming
        self.calls_webhooks: bool = card.capabilities.push_notifications
        self.is_authenticated = auth is not None
        self.event_id = ""
        self.card, self._transport, self._auth, self._headers = card, transport, auth, headers

    async def send(
        self,
        message: JSON,
        configuration: Mapping[str, Any] | None = None,
        *,
        streaming: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[JSON]:
        """Send a message; gives stream responses: `{"task": …}`, `{"statusUpdate": …}` and so on.

        A stream is requested where the card promises one. An agent that breaks the promise is sent the message again
        with `returnImmediately`. A stream may end before the task does. Close it (`aclosing`) to leave it early.
        """
        request = SendMessageRequest()
        body = {"message": message, "configuration": configuration or {}, "metadata": metadata or {}}
        json_format.ParseDict(
            {name: value for name, value in body.items() if value or name == "configuration"}, request
        )
        check = EventCheck(message.get("taskId", ""), message.get("contextId", ""))
        client, sdk = self._make_client(with_exact_message(message))
        if streaming and self.streams:
            try:
                async with aclosing(self._events(sdk.send_message_streaming, request, client, check)) as events:
                    async for event in events:
                        yield event
                return
            except Refused as refusal:
                if refusal.reason not in NO_STREAMS:
                    raise
            self.streams = False
            request.configuration.return_immediately = True
        with sdk_failures():
            answer = await sdk.send_message(request, context=self._context())
        yield check.check_event(to_json(answer, self._original_json(client)))

    async def subscribe(self, task_id: str, *, after: str = "") -> AsyncGenerator[JSON]:
        """The events of a task from now on; from after the event `after`, where the agent supports that."""
        client, sdk = self._make_client()
        request = SubscribeToTaskRequest(id=self._path_id(task_id))
        headers = {"Last-Event-ID": after} if after else {}
        async with aclosing(self._events(sdk.subscribe, request, client, EventCheck(task_id), headers)) as events:
            async for event in events:
                yield event

    async def get(self, task_id: str, history_length: int | None = None) -> JSON:
        """The task as it is."""
        client, sdk = self._make_client()
        request = GetTaskRequest(id=self._path_id(task_id), history_length=history_length)
        with sdk_failures():
            task = await sdk.get_task(request, context=self._context())
        return EventCheck(task_id).check_task(to_json(task, self._original_json(client)))

    async def cancel(self, task_id: str) -> JSON:
        """Ask for a task to be canceled; gives the task."""
        client, sdk = self._make_client()
        with sdk_failures():
            task = await sdk.cancel_task(CancelTaskRequest(id=self._path_id(task_id)), context=self._context())
        return EventCheck(task_id).check_task(to_json(task, self._original_json(client)))

    async def set_webhook(self, task_id: str, config: Mapping[str, Any]) -> JSON:
        """Have the agent call a webhook about a task; gives the settings as the agent keeps them."""
        client, sdk = self._make_client()
        request = json_format.ParseDict({**config, "taskId": self._path_id(task_id)}, TaskPushNotificationConfig())
        with sdk_failures():
            answer = await sdk.create_task_push_notification_config(request, context=self._context())
        kept = to_json(answer, self._original_json(client))
        if kept.get("taskId", task_id) != task_id:
            raise Misbehaved("The agent answers with the webhook of another task.")
        return kept

    async def _events(
        self,
        call: Callable[..., AsyncGenerator[StreamResponse]],
        request: Message,
        client: CallClient,
        check: EventCheck,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[JSON]:
        with sdk_failures():
            async with aclosing(call(request, context=self._context(headers))) as events:
                async for event in events:
                    self.event_id = client.event_id
                    yield check.check_event(to_json(event, self._original_json(client)))

    def _make_client(self, rewrite_body: Callable[[JSON], JSON] | None = None) -> tuple[CallClient, ClientTransport]:
        """For one call: the HTTP client, and the SDK's client on top of it."""
        if rewrite_body is None or self.interface.is_old:
            rewrite_body = whole_numbers
        client = CallClient(self._transport, self.interface, self._auth, rewrite_body)
        sdk = TRANSPORTS[self.interface.binding, self.interface.version](client, self.card, self.interface.url)
        return client, TenantTransportDecorator(sdk, self.interface.tenant) if self.interface.tenant else sdk

    def _context(self, headers: Mapping[str, str] | None = None) -> ClientCallContext:
        return ClientCallContext(service_parameters={**self._headers, **(headers or {})})

    def _original_json(self, client: CallClient) -> Any:
        """The agent's own JSON of its last answer or event; None for 0.3, whose JSON has another shape."""
        return None if self.interface.is_old else client.value

    def _path_id(self, task_id: str) -> str:
        """A task's id for a request: the SDK puts it into paths without quoting it."""
        return quote(task_id, safe="") if self.interface.binding == HTTP_JSON else task_id


@contextmanager
def sdk_failures() -> Iterator[None]:
    """Raises Misbehaved for an answer that the SDK cannot read."""
    try:
        yield
    except (A2AError, json_format.ParseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Misbehaved("The agent's answer does not have the form that A2A gives it.") from error


class EventCheck:
    """Checks the events of one call, which must all be of one task in one context."""

    def __init__(self, task_id: str = "", context_id: str = "") -> None:
        """The ids that are known before the call; "" where the agent chooses them."""
        self._task_id, self._context_id = task_id, context_id

    def check_event(self, event: JSON) -> JSON:
        """The event. Raises Misbehaved."""
        kinds = [kind for kind in EVENT_KINDS if isinstance(event.get(kind), dict)]
        if len(kinds) != 1:
            raise Misbehaved("The agent sent an event that is not exactly one of: a task, a message, an update.")
        kind = kinds[0]
        value = event[kind]
        if kind == "task":
            self.check_task(value)
        else:
            self._check_ids(value.get("taskId", ""), value.get("contextId", ""), is_required=kind != "message")
        if kind == "statusUpdate":
            _check_state(value)
        if kind == "artifactUpdate":
            _check_artifact(value.get("artifact"))
        return event

    def check_task(self, task: JSON) -> JSON:
        """The task. Raises Misbehaved."""
        self._check_ids(task.get("id", ""), task.get("contextId", ""), is_required=True)
        _check_state(task)
        for artifact in task.get("artifacts", []):
            _check_artifact(artifact)
        return task

    def _check_ids(self, task_id: str, context_id: str, *, is_required: bool) -> None:
        if is_required and not task_id:
            raise Misbehaved("The agent sent a task without an id.")
        self._task_id = _check_same(self._task_id, task_id, "task")
        self._context_id = _check_same(self._context_id, context_id, "context")


def _check_same(expected: str, given: str, what: str) -> str:
    if len(given) > LONGEST_ID or not given.isprintable():
        raise Misbehaved(f"The agent sent the id of a {what} that cannot be kept.")
    if expected and given and expected != given:
        raise Misbehaved(f"The agent sent something of another {what} than the one that was asked for.")
    return expected or given


def _check_state(value: JSON) -> None:
    status = value.get("status")
    if not isinstance(status, dict) or not status.get("state"):
        raise Misbehaved("The agent sent a task without a state.")


def _check_artifact(artifact: Any) -> None:
    if not isinstance(artifact, dict) or not artifact.get("artifactId"):
        raise Misbehaved("The agent sent an artifact without an id.")
    if len(artifact["artifactId"]) > LONGEST_ID or not artifact["artifactId"].isprintable():
        raise Misbehaved("The agent sent the id of an artifact that cannot be kept.")


def to_json(message: Message, sent: Any = None) -> JSON:
    """The message as A2A 1.0 JSON.

    `sent` is the JSON that it was read from. From there come fields and states that this version of the SDK does not
    know, and exact numbers: protobuf keeps only doubles.
    """
    value: JSON = json_format.MessageToDict(message)
    if isinstance(sent, dict):
        _complete(value, sent, message.DESCRIPTOR)
    return value


def _complete(value: JSON, sent: JSON, kind: Descriptor) -> None:
    for name, given in sent.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if field is None:
            value.setdefault(name, given)
        elif field.message_type is not None:
            _complete_inner(value, given, field)
        elif field.enum_type is not None and isinstance(given, str) and given not in field.enum_type.values_by_name:
            value[field.camelcase_name] = given


def _complete_inner(value: JSON, given: Any, field: FieldDescriptor) -> None:
    name, kind = field.camelcase_name, field.message_type
    if name not in value or kind is None:
        return
    if kind.full_name in FREE_FORM_TYPES:
        value[name] = given
    elif isinstance(given, list):
        for one, one_given in zip(value[name], given, strict=False):
            if isinstance(one_given, dict):  # protobuf takes an empty list for an empty object, too
                _complete(one, one_given, kind)
    elif isinstance(given, dict) and not kind.full_name.startswith("google.protobuf."):
        _complete(value[name], given, kind)


def with_exact_message(message: JSON) -> Callable[[JSON], JSON]:
    """For a request of 1.0: puts the message into its body unchanged."""

    def put(body: JSON) -> JSON:
        inner = body.get("params", body)
        if "message" in inner:
            inner["message"] = message
        return body

    return put


def whole_numbers(value: Any) -> Any:
    """For 0.3, whose messages the SDK converts from protobuf: writes whole numbers without a fraction."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: whole_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return value
