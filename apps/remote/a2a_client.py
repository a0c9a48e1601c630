"""The A2A client: the only module that sends A2A requests.

    async with a2a_client.connect(card, auth=auth) as peer:
        async for event in peer.send(message): ...

It uses A2A 1.0 JSON, whatever version the agent speaks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from a2a.client import ClientCallContext
from a2a.client.transports.base import ClientTransport
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
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import A2AError
from a2a.utils.proto_utils import parse_lenient
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from apps.agents.models import Agent
from apps.remote.agent_cards import cards
from apps.remote.agent_cards.card_shapes import HTTP_JSON, JSONRPC
from apps.remote.agent_cards.cards import Interface, choose_interface
from apps.remote.authentication import credentials
from apps.remote.authentication.http_auth import SigningAuth
from apps.remote.errors import BadCard, Misbehaved, OtherTask, Refused, RemoteError, Unreachable, Unsendable
from apps.remote.exact_numbers import NONE, Indistinct, known_integers, large_integers, whole_numbers
from apps.remote.federation.known import find_special, remember_version
from apps.remote.transport import CallClient, JsonRpc, pooled_transport, repair_timestamps, wrapped_event
from apps.remote.wire_shapes import is_exact
from parley import db
from parley.outbound.transports import Transport
from parley.registry import added

JSON = dict[str, Any]
OTHER_VERSION = {"1.0": "0.3", "0.3": "1.0"}
# Refusals of an agent that speaks another version than its card says. It did nothing with the request.
UNKNOWN_VERSION = ("METHOD_NOT_FOUND", "VERSION_NOT_SUPPORTED", "INVALID_REQUEST")
UNKNOWN_PATH = ("HTTP_404", "HTTP_405")
NO_STREAMS = ("UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND")  # the stream, which the card promised, is refused
TRANSPORTS: dict[tuple[str, str], Callable[[CallClient, AgentCard, str], ClientTransport]] = {
    (HTTP_JSON, "1.0"): RestTransport,
    (JSONRPC, "0.3"): CompatJsonRpcTransport,
    (HTTP_JSON, "0.3"): CompatRestTransport,
}


class Operation(NamedTuple):
    """An operation of A2A: its name in the SDK, its request, and the shape of its answer."""

    name: str
    request: type[Message]
    shape: str


OPERATIONS = {
    "SendMessage": Operation("send_message", SendMessageRequest, "event"),
    "SendStreamingMessage": Operation("send_message_streaming", SendMessageRequest, "event"),
    "SubscribeToTask": Operation("subscribe", SubscribeToTaskRequest, "event"),
    "GetTask": Operation("get_task", GetTaskRequest, "task"),
    "CancelTask": Operation("cancel_task", CancelTaskRequest, "task"),
    "CreateTaskPushNotificationConfig": Operation(
        "create_task_push_notification_config", TaskPushNotificationConfig, "webhook"
    ),
}
ANSWERS: Mapping[str, type[Message]] = {"event": StreamResponse, "task": Task, "webhook": TaskPushNotificationConfig}
EVENT_KINDS = ("task", "message", "statusUpdate", "artifactUpdate")
LONGEST_ID = 512  # characters

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
    """Connect to the agent, whose `current_version` is loaded. Arguments as of `credentials.auth_for`.

    Raises errors.RemoteError.
    """
    if agent.current_version is None:
        raise BadCard(f"{agent.name} has no card: an operator has to refresh it.")
    card = cards.card_of(agent.current_version)
    auth = await credentials.auth_for(agent, owner, skill=skill, checking=checking, redact=redact)
    headers = {"traceparent": traceparent} if traceparent else {}
    remote = await find_special(agent.pk) if agent.kind == Agent.Kind.REMOTE else None

    def remember(version: str) -> None:
        is_stated = version == choose_interface(card).version
        db.later(remember_version, agent.pk, "" if is_stated else version)

    speaks = remote.spoken_version if remote else ""
    find_socket = added.get("agent_socket")
    socket = await find_socket(agent) if find_socket else ""
    why = ""

    async def start_again() -> None:
        nonlocal why
        why = await added["agent_failure"](agent) or why
        if await find_socket(agent) != socket:
            raise Unreachable("The agent's process was lost.", is_transient=False)

    try:
        async with connect(
            card, auth=auth, headers=headers, speaks=speaks, socket=socket, on_other_version=remember
        ) as peer:
            peer.start_again = start_again if socket else None
            yield peer
    except RemoteError as error:
        if socket and (why := why or await added["agent_failure"](agent)):
            error.args = (f"{error} {why}",)
        raise


@asynccontextmanager
async def connect(
    card: AgentCard,
    *,
    auth: SigningAuth | None = None,
    headers: Mapping[str, str] | None = None,
    speaks: str = "",
    socket: str = "",
    on_other_version: Callable[[str], None] = lambda version: None,
) -> AsyncIterator[Peer]:
    """Connect to the agent of this card. `auth` and `headers` go with each request. Raises BadCard.

    This is cheap: an event loop pools its connections.

    Args:
        speaks: the version of A2A in which the agent answers, if it is known to be another than its card says.
        socket: the path of the Unix socket of an agent that runs on this machine.
        on_other_version: called with that version when it is found out.
    """
    interface = choose_interface(card)
    if speaks:
        interface = replace(interface, version=speaks)
    async with pooled_transport(interface.origin, socket) as transport:
        yield Peer(card, interface, transport, auth, headers or {}, on_other_version, runs_here=bool(socket))


class Peer:
    """Calls one remote agent. All calls raise `errors.RemoteError`.

    Attributes:
        streams, calls_webhooks: the capabilities in its card.
        is_authenticated: does a credential go with the calls?
        runs_here: is it a process of this machine, which starts again with the next connection?
        event_id: the id of the last event, for `subscribe`; "" for none.
        start_again: starts its process, which ended. Raises errors.Unreachable. None for one that runs elsewhere.
    """

    start_again: Callable[[], Awaitable[None]] | None = None

    def __init__(
        self,
        card: AgentCard,
        interface: Interface,
        transport: Transport,
        auth: SigningAuth | None,
        headers: Mapping[str, str],
        on_other_version: Callable[[str], None] = lambda version: None,
        *,
        runs_here: bool = False,
    ) -> None:
        self.interface, self.runs_here = interface, runs_here
        self._on_other_version = on_other_version
        self._tried_version = ""  # the other one
        self._is_understood = False
        self.streams: bool = card.capabilities.streaming
        self.calls_webhooks: bool = card.capabilities.push_notifications
        self.is_authenticated = auth is not None and auth.has_credential
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
        """Send a message; yields stream responses: `{"task": …}`, `{"statusUpdate": …}` and so on.

        It streams if the card promises streaming. An agent that refuses the stream gets the message again with
        `returnImmediately`, and one that does not know the version of A2A gets it once more in the other. A stream may
        end before the task. Use `aclosing` to leave it early.
        """
        body = {"message": message, "configuration": configuration or {}, "metadata": metadata or {}}
        body = {name: value for name, value in body.items() if value or name == "configuration"}
        try:
            async with aclosing(self._send(body, streaming)) as events:
                async for event in events:
                    self._understood()
                    yield event
        except Refused as refusal:
            with self._other_version(refusal, *(UNKNOWN_PATH if self.interface.binding == HTTP_JSON else ())):
                async with aclosing(self._send(body, streaming)) as events:
                    async for event in events:
                        self._understood()
                        yield event

    async def _send(self, body: JSON, streaming: bool) -> AsyncGenerator[JSON]:
        message = body["message"]
        check = EventCheck(message.get("taskId", ""))
        used = {self._extensions_header: ", ".join(message["extensions"])} if message.get("extensions") else {}
        if streaming and self.streams:
            try:
                async with aclosing(self._events("SendStreamingMessage", body, check, used)) as events:
                    async for event in events:
                        yield event
                return
            except Refused as refusal:
                if refusal.reason not in NO_STREAMS:
                    raise
            self.streams = False
            body = {**body, "configuration": {**body["configuration"], "returnImmediately": True}}
        yield check.check_event(await self._ask("SendMessage", body, used))

    @contextmanager
    def _other_version(self, refusal: Refused, *also: str) -> Iterator[None]:
        """Speak the other version once. Raises the first refusal if the agent does not know that one either."""
        if self._is_understood or self._tried_version or refusal.reason not in (*UNKNOWN_VERSION, *also):
            raise refusal
        stated, self._tried_version = self.interface, OTHER_VERSION[self.interface.version]
        self.interface = replace(stated, version=self._tried_version)
        self.streams = self.card.capabilities.streaming
        try:
            yield
        except RemoteError as error:
            if self._is_understood or not isinstance(error, Refused | Misbehaved):
                raise
            self.interface = stated
            raise refusal from None

    def _understood(self) -> None:
        if self.interface.version == self._tried_version and not self._is_understood:
            self._on_other_version(self._tried_version)
        self._is_understood = True

    async def subscribe(self, task_id: str, *, after: str = "") -> AsyncGenerator[JSON]:
        """The events of a task from now on, or after the event `after` if the agent supports that."""
        headers = {"Last-Event-ID": after} if after else {}
        asked = {"id": self._path_id(task_id)}
        async with aclosing(self._events("SubscribeToTask", asked, EventCheck(task_id), headers)) as events:
            async for event in events:
                yield event

    async def get(self, task_id: str, history_length: int | None = None) -> JSON:
        asked: JSON = {"id": self._path_id(task_id)}
        asked |= {} if history_length is None else {"historyLength": history_length}
        try:
            task = await self._ask("GetTask", asked)
        except Refused as refusal:
            with self._other_version(refusal):
                task = await self._ask("GetTask", asked)
        self._understood()
        return EventCheck(task_id).check_task(task)

    async def cancel(self, task_id: str, metadata: Mapping[str, Any] | None = None) -> JSON:
        """Cancel a task, or what the `metadata` asks for by an extension, whose URIs are its names."""
        asked: JSON = {"id": self._path_id(task_id)} | ({"metadata": dict(metadata)} if metadata else {})
        used = {self._extensions_header: ", ".join(metadata)} if metadata else {}
        return EventCheck(task_id).check_task(await self._ask("CancelTask", asked, used))

    async def set_webhook(self, task_id: str, config: Mapping[str, Any]) -> JSON:
        asked = {**config, "taskId": self._path_id(task_id)}
        kept = await self._ask("CreateTaskPushNotificationConfig", asked)
        if kept.get("taskId", task_id) != task_id:
            raise Misbehaved("The agent answers with the webhook of another task.")
        return kept

    async def _ask(self, method: str, params: JSON, headers: Mapping[str, str] | None = None) -> JSON:
        """The answer to a request, as JSON of 1.0."""
        operation = OPERATIONS[method]
        if self._is_plain:
            rpc = JsonRpc(self._transport, self.interface, self._auth, self._headers)
            return read_plain(await rpc.ask(method, self._with_tenant(params), headers), operation.shape)
        client, sdk = self._make_client(params, gives_events=operation.shape == "event")
        request = self._request(operation, params)
        with sdk_failures():
            return self._json_of(await getattr(sdk, operation.name)(request, context=self._context(headers)), client)

    async def _events(
        self, method: str, params: JSON, check: EventCheck, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[JSON]:
        operation = OPERATIONS[method]
        if self._is_plain:
            rpc = JsonRpc(self._transport, self.interface, self._auth, self._headers)
            async with aclosing(rpc.stream(method, self._with_tenant(params), headers)) as results:
                async for result in results:
                    self.event_id = rpc.event_id
                    yield check.check_event(read_plain(result, "event"))
            return
        client, sdk = self._make_client(params, gives_events=True)
        request = self._request(operation, params)
        with sdk_failures():
            async with aclosing(getattr(sdk, operation.name)(request, context=self._context(headers))) as events:
                async for event in events:
                    self.event_id = client.event_id
                    yield check.check_event(self._json_of(event, client))

    @property
    def _is_plain(self) -> bool:
        """Does it speak the version and binding that need no SDK?"""
        return (self.interface.binding, self.interface.version) == (JSONRPC, "1.0")

    def _with_tenant(self, params: JSON) -> JSON:
        return {**params, "tenant": self.interface.tenant} if self.interface.tenant else params

    def _request(self, operation: Operation, params: JSON) -> Message:
        with sendable_numbers():
            return json_format.ParseDict(params, operation.request())

    def _exact_body(self, params: JSON) -> Callable[[JSON], JSON]:
        """Restores in a request what protobuf changes. Raises Unsendable for numbers that it cannot restore."""
        if "message" not in params:
            return whole_numbers
        if not self.interface.is_old:
            return with_exact_message(params["message"], params.get("metadata"))
        with sendable_numbers():
            return partial(whole_numbers, large=large_integers([params["message"], params.get("metadata")]))

    def _make_client(self, params: JSON, *, gives_events: bool) -> tuple[CallClient, ClientTransport]:
        rewrite = self._exact_body(params)
        client = CallClient(self._transport, self.interface, self._auth, rewrite, gives_events=gives_events)
        sdk = TRANSPORTS[self.interface.binding, self.interface.version](client, self.card, self.interface.url)
        return client, TenantTransportDecorator(sdk, self.interface.tenant) if self.interface.tenant else sdk

    def _context(self, headers: Mapping[str, str] | None = None) -> ClientCallContext:
        return ClientCallContext(service_parameters={**self._headers, **(headers or {})})

    def _json_of(self, message: Message, client: CallClient) -> JSON:
        """With the numbers of the agent's own JSON, its last answer or event; 0.3 has another shape."""
        if not self.interface.is_old:
            return to_json(message, client.value)
        return to_json(message, large=known_integers(client.value))

    @property
    def _extensions_header(self) -> str:
        """Names the extensions that a request uses (A2A 1.0 §3.2.6)."""
        return "X-A2A-Extensions" if self.interface.is_old else "A2A-Extensions"

    def _path_id(self, task_id: str) -> str:
        return quote(task_id, safe="") if self.interface.binding == HTTP_JSON else task_id


def read_plain(value: Any, shape: str) -> JSON:
    """A result of 1.0 as JSON in exactly A2A's form. Raises Misbehaved."""
    value = wrapped_event(value) if shape == "event" else value
    repair_timestamps(value)
    if is_exact(value, shape):
        return dict(whole_numbers(value))
    with sdk_failures():
        return to_json(parse_lenient(value, ANSWERS[shape]()), value)


@contextmanager
def sdk_failures() -> Iterator[None]:
    try:
        yield
    except Indistinct as error:
        raise Misbehaved(f"{error}, which this version of A2A cannot keep.") from error
    except (A2AError, json_format.ParseError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise Misbehaved("The agent's answer does not have the form that A2A gives it.") from error


@contextmanager
def sendable_numbers() -> Iterator[None]:
    """Raises Unsendable for numbers that would reach the agent as other ones."""
    try:
        yield
    except (Indistinct, OverflowError) as error:
        reason = str(error) if isinstance(error, Indistinct) else "A number is beyond 10^308"
        raise Unsendable(f"{reason}, so the agent would get another one. Send such numbers as text.") from error


class EventCheck:
    """Checks that all events of a call are of one task. All methods raise Misbehaved.

    The context may be another than the one that was sent: the agent chooses it.
    """

    def __init__(self, task_id: str = "") -> None:
        """The known id; "" where the agent chooses it."""
        self._task_id = task_id

    def check_event(self, event: JSON) -> JSON:
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
        self._check_ids(task.get("id", ""), task.get("contextId", ""), is_required=True)
        _check_state(task)
        for artifact in task.get("artifacts", []):
            _check_artifact(artifact)
        return task

    def _check_ids(self, task_id: str, context_id: str, *, is_required: bool) -> None:
        if is_required and not task_id:
            raise Misbehaved("The agent sent a task without an id.")
        _check_id(task_id, "a task")
        _check_id(context_id, "a context")
        if self._task_id and task_id and self._task_id != task_id:
            raise OtherTask("The agent sent something of another task than the one that was asked for.")
        self._task_id = self._task_id or task_id


def _check_id(value: str, what: str) -> None:
    if len(value) > LONGEST_ID or not value.isprintable():
        raise Misbehaved(f"The agent sent the id of {what} that cannot be kept.")


def _check_state(value: JSON) -> None:
    status = value.get("status")
    if not isinstance(status, dict) or not status.get("state"):
        raise Misbehaved("The agent sent a task without a state.")


def _check_artifact(artifact: Any) -> None:
    if not isinstance(artifact, dict) or not artifact.get("artifactId"):
        raise Misbehaved("The agent sent an artifact without an id.")
    _check_id(artifact["artifactId"], "an artifact")


def to_json(message: Message, sent: Any = None, large: Mapping[float, int] = NONE) -> JSON:
    """The message as A2A 1.0 JSON.

    The original JSON, `sent`, adds what protobuf loses: unknown fields and states, and exact numbers. Whole numbers are
    integers: many agents get `[1]`, and make `[1.0]` of it on the way through protobuf. `large`: those beyond 2**53.
    """
    value: JSON = json_format.MessageToDict(message)
    if isinstance(sent, dict):
        _complete(value, sent, message.DESCRIPTOR)
    whole: JSON = whole_numbers(value, large)
    return whole


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


def with_exact_message(message: JSON, metadata: Mapping[str, Any] | None = None) -> Callable[[JSON], JSON]:
    """Puts message and metadata into the body of a 1.0 request unchanged."""

    def put(body: JSON) -> JSON:
        inner = body.get("params", body)
        if "message" in inner:
            inner["message"] = message
            if metadata:
                inner["metadata"] = dict(metadata)
        return body

    return put
