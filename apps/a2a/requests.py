"""The operations' requests (A2A 1.0 §3.1, §4.1.4, §4.3), parsed from ProtoJSON and checked.

Names are those of specification/a2a.proto. `read` takes the params and the agent.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Annotated, Any, Self, cast

from django.conf import settings
from django.utils.dateparse import parse_datetime
from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo

from apps.a2a.errors import JSON
from apps.a2a.protojson import Base64, Integer, Line, Lines, ProtoMessage, RequiredLine, Struct, Text, Url, Value
from apps.agents.models import Agent
from apps.conversations.sessions import commands
from apps.record.content.composing import PART_KINDS, check_taken, last_component
from apps.record.errors import ContentTypeNotSupported, InvalidFields, PushNotificationNotSupported
from apps.record.events import Feedback
from apps.record.models import TaskState


def _tenant(name: str, info: ValidationInfo) -> str:
    if name and name != cast(Agent, info.context).slug:
        raise ValueError("Names another agent than the URL does.")
    return name


class Request(ProtoMessage):
    """A request to an agent."""

    tenant: Annotated[str, AfterValidator(_tenant)] = ""


HistoryLength = Annotated[Integer, Field(ge=0, lt=2**31)]
PageSize = Annotated[Integer, Field(ge=1, le=100)]
PAGE_SIZE = 50


class Part(ProtoMessage):
    """A part: exactly one of `PART_KINDS`, and its details."""

    nullable = frozenset({"data"})
    one_of = PART_KINDS

    text: Text | None = None
    raw: Base64 | None = None
    url: Url | None = None
    data: Value = None
    filename: Annotated[Line, AfterValidator(last_component)] = ""
    media_type: Line = ""
    metadata: Struct | None = None


def _user_role(value: Any) -> str:
    if value not in ("ROLE_USER", 1) or value is True:  # ProtoJSON allows enum names and numbers
        raise ValueError("Must be ROLE_USER: that is how a client speaks.")
    return "ROLE_USER"


class Message(ProtoMessage):
    """A user's message."""

    role: Annotated[str, PlainValidator(_user_role)]
    message_id: RequiredLine
    parts: Annotated[list[Part], Field(min_length=1, max_length=settings.MAX_PARTS)]
    context_id: Line = ""
    task_id: Line = ""
    metadata: Struct | None = None
    extensions: Lines | None = None
    reference_task_ids: Lines | None = None


AUTH_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # RFC 9110 §11.1
HEADER_VALUE = re.compile(r"(?! )[ -~]{0,4096}(?<! )")  # valid in an HTTP header


def _auth_scheme(name: str) -> str:
    if not AUTH_SCHEME.fullmatch(name):
        raise ValueError("Must be the name of an HTTP authentication scheme, such as Bearer.")
    return name


def _header_value(text: str) -> str:
    if not HEADER_VALUE.fullmatch(text):
        raise ValueError("Must be at most 4096 visible ASCII characters, with no space at either end.")
    return text


HeaderValue = Annotated[str, AfterValidator(_header_value)]


class AuthenticationInfo(ProtoMessage):
    """How Parley authenticates to a webhook."""

    scheme: Annotated[str, AfterValidator(_auth_scheme)]
    credentials: HeaderValue = ""


class Webhook(ProtoMessage):
    """A TaskPushNotificationConfig without its task. If `id` is empty, the server chooses one."""

    id: Line = ""
    url: Url
    token: HeaderValue = ""
    authentication: AuthenticationInfo | None = None


class SendMessageConfiguration(ProtoMessage):
    """`history_length`: None means the platform's default."""

    accepted_output_modes: Lines | None = None
    task_push_notification_config: Webhook | None = None
    history_length: HistoryLength | None = None
    return_immediately: bool = False


class SendMessageRequest(Request):
    """SendMessage, SendStreamingMessage."""

    metadata: Struct | None = None
    message: Message
    configuration: SendMessageConfiguration = SendMessageConfiguration()

    @classmethod
    def read_with_message(cls, params: Any, agent: Agent) -> tuple[Self, JSON]:
        """The request, and its message as it is stored: without empty fields. Raises as `read`."""
        request = cls.read(params, agent)
        given = request.message.model_dump(by_alias=True, exclude_unset=True)
        parts = [
            {name: value for name, value in part.items() if value or name in PART_KINDS} for part in given["parts"]
        ]
        return request, {name: value for name, value in (given | {"parts": parts}).items() if value}


MEDIA_RANGE = re.compile(r"[^/\s]+/[^/\s]+")


def check_modes(agent: Agent, parts: list[JSON], accepted: list[str]) -> None:
    """Raises ContentTypeNotSupported if the agent does not take a part, or makes nothing that is accepted.

    A client that accepts something other than a media type, such as `text`, accepts anything.
    """
    check_taken(agent, parts)
    modes = [mode.partition(";")[0].strip().lower() for mode in accepted]
    if modes and all(MEDIA_RANGE.fullmatch(mode) for mode in modes) and not agent.makes_any_of(modes):
        made = ", ".join(agent.output_modes)
        raise ContentTypeNotSupported(f"The agent makes none of the acceptedOutputModes. It makes {made}.")


def checked_message(agent: Agent, fields: JSON, named: Callable[[str], str] = str) -> JSON:
    """A client's message in the stored form, for other protocols: `named` gives their names of A2A's fields.

    Raises InvalidParams, ContentTypeNotSupported.
    """
    try:
        _, stored = SendMessageRequest.read_with_message({"message": {"role": "ROLE_USER", **fields}}, agent)
    except InvalidFields as refused:
        raise InvalidFields([(named(path), sentence) for path, sentence in refused.violations]) from None
    check_modes(agent, stored["parts"], [])
    return stored


class TaskRequest(Request):
    """GetTask, CancelTask, SubscribeToTask."""

    id: RequiredLine
    history_length: HistoryLength | None = None
    metadata: Struct | None = None


# Numbers of the states in specification/a2a.proto.
_STATES_BY_NUMBER = (
    None,
    TaskState.SUBMITTED,
    TaskState.WORKING,
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.CANCELED,
    TaskState.INPUT_REQUIRED,
    TaskState.REJECTED,
    TaskState.AUTH_REQUIRED,
)
STATES: dict[Any, TaskState | None] = {
    "TASK_STATE_UNSPECIFIED": None,
    **dict(enumerate(_STATES_BY_NUMBER)),
    **{state.wire: state for state in TaskState},
}


def _state(value: Any) -> TaskState | None:
    if isinstance(value, bool | dict | list) or value not in STATES:
        raise ValueError("Is no state of a task, such as TASK_STATE_WORKING.")
    return STATES[value]


def _time(text: Any) -> datetime.datetime | None:
    if text == "":
        return None
    try:
        time = parse_datetime(text) if isinstance(text, str) and "T" in text.upper() else None
        in_utc = time.astimezone(datetime.UTC) if time and time.tzinfo else None
    except (ValueError, OverflowError):  # no date, or out of range in UTC
        in_utc = None
    if in_utc is None:
        raise ValueError("Must be a time with its zone, such as 2026-01-31T12:00:00Z.")
    return in_utc


class ListTasksRequest(Request):
    """ListTasks."""

    context_id: Line = ""
    status: Annotated[TaskState | None, PlainValidator(_state)] = None
    status_timestamp_after: Annotated[datetime.datetime | None, PlainValidator(_time)] = None
    page_size: PageSize = PAGE_SIZE
    page_token: Text = ""
    history_length: HistoryLength | None = None
    include_artifacts: bool = False


def check_webhooks(agent: Agent) -> None:
    """Raises PushNotificationNotSupported, which says what else the agent offers."""
    if not agent.calls_webhooks:
        ways = "Use a streaming method, or poll with GetTask." if agent.streams else "Poll with GetTask."
        raise PushNotificationNotSupported(f"This agent does not support push notifications. {ways}")


class WebhookRequest(Request):
    """A request about webhooks; `read` also raises PushNotificationNotSupported."""

    task_id: RequiredLine

    @classmethod
    def read(cls, params: Any, context: Any = None) -> Self:
        check_webhooks(cast(Agent, context))
        return super().read(params, context)


class CreateWebhookRequest(Webhook, WebhookRequest):
    """CreateTaskPushNotificationConfig."""


class OneWebhookRequest(WebhookRequest):
    """GetTaskPushNotificationConfig, DeleteTaskPushNotificationConfig."""

    id: RequiredLine


class ListWebhooksRequest(WebhookRequest):
    """ListTaskPushNotificationConfigs."""

    page_size: PageSize = PAGE_SIZE
    page_token: Line = ""


class ListContextsRequest(Request):
    """`contexts/list` (our extension)."""

    page_size: PageSize = PAGE_SIZE
    page_token: Text = ""


class ClearContextRequest(Request):
    """`contexts/clear` (our extension)."""

    context_id: RequiredLine


class FeedbackRequest(Request):
    """`tasks/feedback` (our extension)."""

    task_id: RequiredLine
    rating: Annotated[Integer, Field(ge=1, le=5)]
    feedback: Annotated[Text, Field(max_length=commands.MAX_FEEDBACK_LENGTH)] = ""
    metadata: Struct | None = None

    def stored(self) -> Feedback:
        given: Feedback = {"rating": self.rating}
        if self.feedback:
            given["feedback"] = self.feedback
        if self.metadata:
            given["metadata"] = self.metadata
        return given
