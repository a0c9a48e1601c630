"""A remote agent, as the gateway speaks with it: A2A 1.0 JSON on this side, whatever the agent speaks on the other."""

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
from google.protobuf.message import Message

from apps.remote.connecting import pools
from apps.remote.connecting.border import exactly, to_json, whole_numbers
from apps.remote.connecting.interfaces import HTTP_JSON, JSONRPC, Interface, choose
from apps.remote.connecting.lines import Line
from apps.remote.connecting.subjects import Subject, check_webhook
from apps.remote.errors import Misbehaved, Refused
from outbound.transports import Transport

JSON = dict[str, Any]
NO_STREAMS = ("UNSUPPORTED_OPERATION", "METHOD_NOT_FOUND")  # how an agent says that nothing came of its card's promise
TRANSPORTS: dict[tuple[str, str], Callable[[Line, AgentCard, str], ClientTransport]] = {
    (JSONRPC, "1.0"): JsonRpcTransport,
    (HTTP_JSON, "1.0"): RestTransport,
    (JSONRPC, "0.3"): CompatJsonRpcTransport,
    (HTTP_JSON, "0.3"): CompatRestTransport,
}


@asynccontextmanager
async def peer(
    card: AgentCard, *, auth: httpx.Auth | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Peer]:
    """The agent of this card. `auth` and `headers` go with each of its requests. Raises BadCard.

    It is cheap: connections are those of the event loop, and stay open for the next who calls the same origin.
    """
    interface = choose(card)
    async with pools.lent(interface.origin) as transport:
        yield Peer(card, interface, transport, auth, headers or {})


class Peer:
    """Calls one remote agent. All of its calls raise `errors.RemoteError`.

    Attributes:
        interface: what was chosen of the card.
        streams: does the card say that it can stream?
        calls_webhooks: does the card say that it calls webhooks?
        card: the card that it goes by.
        is_known_there: does somebody's credential go with the calls?
        event_id: what the agent called the event that came last, for `subscribe` to go on after it; "" for nothing.
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
        self.is_known_there = auth is not None
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
        """Send a message; gives what comes back as stream responses: `{"task": …}`, `{"statusUpdate": …}` and so on.

        An agent whose card says that it cannot stream is not asked to, one that then does not is asked for the task at
        once, and one that answers a request for a stream at once gives just that answer. A stream may end before the
        task does. Who leaves it early closes it (`aclosing`).
        """
        request = SendMessageRequest()
        body = {"message": message, "configuration": configuration or {}, "metadata": metadata or {}}
        json_format.ParseDict(
            {name: value for name, value in body.items() if value or name == "configuration"}, request
        )
        subject = Subject(message.get("taskId", ""), message.get("contextId", ""))
        line, client = self._client(exactly(message))
        if streaming and self.streams:
            try:
                async with aclosing(self._followed(client.send_message_streaming, request, line, subject)) as events:
                    async for event in events:
                        yield event
                return
            except Refused as refusal:
                if refusal.reason not in NO_STREAMS:
                    raise
            self.streams = False
            request.configuration.return_immediately = True
        with misread():
            answer = await client.send_message(request, context=self._context())
        yield subject.checked(to_json(answer, self._sent(line)))

    async def subscribe(self, task_id: str, *, after: str = "") -> AsyncGenerator[JSON]:
        """What happens to a task from now on; from after the event `after`, where the agent knows to do that."""
        line, client = self._client()
        request = SubscribeToTaskRequest(id=self._named(task_id))
        more = {"Last-Event-ID": after} if after else {}
        subject = Subject(task_id)
        async with aclosing(self._followed(client.subscribe, request, line, subject, more)) as events:
            async for event in events:
                yield event

    async def get(self, task_id: str, history_length: int | None = None) -> JSON:
        """The task as it is."""
        line, client = self._client()
        request = GetTaskRequest(id=self._named(task_id), history_length=history_length)
        with misread():
            task = await client.get_task(request, context=self._context())
        return Subject(task_id).check_task(to_json(task, self._sent(line)))

    async def cancel(self, task_id: str) -> JSON:
        """Ask for a task to be canceled; gives the task."""
        line, client = self._client()
        with misread():
            task = await client.cancel_task(CancelTaskRequest(id=self._named(task_id)), context=self._context())
        return Subject(task_id).check_task(to_json(task, self._sent(line)))

    async def set_webhook(self, task_id: str, config: Mapping[str, Any]) -> JSON:
        """Have the agent call a webhook about a task; gives the settings as the agent keeps them."""
        line, client = self._client()
        request = json_format.ParseDict({**config, "taskId": self._named(task_id)}, TaskPushNotificationConfig())
        with misread():
            kept = await client.create_task_push_notification_config(request, context=self._context())
        return check_webhook(to_json(kept, self._sent(line)), task_id)

    async def _followed(
        self,
        call: Callable[..., AsyncGenerator[StreamResponse]],
        request: Message,
        line: Line,
        subject: Subject,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[JSON]:
        with misread():
            async with aclosing(call(request, context=self._context(headers))) as events:
                async for event in events:
                    self.event_id = line.event_id
                    yield subject.checked(to_json(event, self._sent(line)))

    def _client(self, faithful: Callable[[JSON], JSON] | None = None) -> tuple[Line, ClientTransport]:
        if faithful is None or self.interface.is_old:
            faithful = whole_numbers
        line = Line(self._transport, self.interface, self._auth, faithful)
        make = TRANSPORTS[self.interface.binding, self.interface.version]
        client = make(line, self.card, self.interface.url)
        return line, TenantTransportDecorator(client, self.interface.tenant) if self.interface.tenant else client

    def _context(self, more: Mapping[str, str] | None = None) -> ClientCallContext:
        return ClientCallContext(service_parameters={**self._headers, **(more or {})})

    def _sent(self, line: Line) -> Any:
        """The agent's own JSON, where it is that of the same version."""
        return None if self.interface.is_old else line.value

    def _named(self, task_id: str) -> str:
        """A task's id for a request: the SDK puts it into paths as it is."""
        return quote(task_id, safe="") if self.interface.binding == HTTP_JSON else task_id


@contextmanager
def misread() -> Iterator[None]:
    """What the SDK cannot make sense of. Raises Misbehaved."""
    try:
        yield
    except (A2AError, json_format.ParseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Misbehaved("The agent's answer does not have the form that A2A gives it.") from error
