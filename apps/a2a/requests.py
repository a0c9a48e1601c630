"""The request messages of the operations (A2A 1.0 §3.1), read from their ProtoJSON form."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from django.utils.dateparse import parse_datetime

from apps.a2a.errors import JSON, PushNotificationNotSupported
from apps.a2a.fields import Fields
from apps.a2a.messages import check_media_types, check_output_modes, read_message
from apps.a2a.webhooks.reading import (
    Webhook,
    WebhookAsking,
    WebhookListing,
    read_webhook,
    read_webhook_asking,
    read_webhook_listing,
)
from apps.agents.models import Agent
from apps.features.sessions import feedback
from apps.record.errors import InvalidParams
from apps.record.events import Feedback
from apps.record.lifecycle import TaskState

PAGE_SIZE = 50
LARGEST_PAGE = 100


@dataclass(frozen=True, slots=True)
class Sending:
    """SendMessageRequest. A history length of None is the platform's default."""

    message: JSON
    history_length: int | None
    return_immediately: bool
    webhook: Webhook | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """A request about one task: GetTask, CancelTask, SubscribeToTask."""

    task: str
    history_length: int | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """ListTasksRequest."""

    context: str
    state: TaskState | None
    since: datetime.datetime | None
    page_size: int
    page_token: str
    history_length: int | None
    include_artifacts: bool


@dataclass(frozen=True, slots=True)
class ContextListing:
    """The params of `contexts/list`."""

    page_size: int
    page_token: str


@dataclass(frozen=True, slots=True)
class GivingFeedback:
    """The params of `tasks/feedback`."""

    task: str
    feedback: Feedback


def read_sending(params: Any, agent: Agent, version: str) -> Sending:
    """An inline webhook is called in `version`.

    Raises InvalidParams, PushNotificationNotSupported, ContentTypeNotSupported.
    """
    fields = _fields(params, agent)
    fields.struct("metadata")
    described = fields.message("message", required=True)
    message = read_message(described) if described else {}
    configuration = fields.message("configuration") or Fields({})
    accepted = configuration.lines("acceptedOutputModes")
    webhook = configuration.message("taskPushNotificationConfig")
    if webhook is not None and not agent.calls_webhooks:
        raise PushNotificationNotSupported
    sending = Sending(
        message,
        _history_length(configuration),
        configuration.flag("returnImmediately"),
        read_webhook(webhook, version) if webhook is not None else None,
    )
    fields.check()
    check_media_types(agent, message)
    check_output_modes(agent, accepted)
    return sending


def read_asking(params: Any, agent: Agent) -> Asking:
    """Raises InvalidParams."""
    fields = _fields(params, agent)
    asking = Asking(fields.text("id", required=True, single_line=True), _history_length(fields))
    fields.struct("metadata")
    fields.check()
    return asking


def read_listing(params: Any, agent: Agent) -> Listing:
    """Raises InvalidParams."""
    fields = _fields(params, agent)
    listing = Listing(
        context=fields.text("contextId", single_line=True),
        state=_state(fields),
        since=_time(fields, "statusTimestampAfter"),
        page_size=fields.integer("pageSize", 1, LARGEST_PAGE) or PAGE_SIZE,
        page_token=fields.text("pageToken"),
        history_length=_history_length(fields),
        include_artifacts=fields.flag("includeArtifacts"),
    )
    fields.check()
    return listing


def read_context_listing(params: Any, agent: Agent) -> ContextListing:
    """Raises InvalidParams."""
    fields = _fields(params, agent)
    page_size = fields.integer("pageSize", 1, LARGEST_PAGE) or PAGE_SIZE
    listing = ContextListing(page_size, fields.text("pageToken"))
    fields.check()
    return listing


def read_clearing(params: Any, agent: Agent) -> str:
    """The contextId. Raises InvalidParams."""
    fields = _fields(params, agent)
    context_id = fields.text("contextId", required=True, single_line=True)
    fields.check()
    return context_id


def read_feedback(params: Any, agent: Agent) -> GivingFeedback:
    """Raises InvalidParams."""
    fields = _fields(params, agent)
    task = fields.text("taskId", required=True, single_line=True)
    rating = fields.integer("rating", 1, 5)
    if fields.raw("rating") is None:
        fields.refuse("rating", "Is required: a number of stars from 1 to 5.")
    text, metadata = fields.text("feedback"), fields.struct("metadata")
    if len(text) > feedback.LONGEST:
        fields.refuse("feedback", f"At most {feedback.LONGEST} characters.")
    fields.check()
    given: Feedback = {"rating": rating or 0}
    if text:
        given["feedback"] = text
    if metadata:
        given["metadata"] = metadata
    return GivingFeedback(task, given)


def read_new_webhook(params: Any, agent: Agent, version: str) -> tuple[str, Webhook]:
    """The task and the webhook that it is to get. Raises PushNotificationNotSupported, InvalidParams."""
    fields = _webhook_fields(params, agent)
    task, webhook = fields.text("taskId", required=True, single_line=True), read_webhook(fields, version)
    fields.check()
    return task, webhook


def read_asking_for_webhook(params: Any, agent: Agent) -> WebhookAsking:
    """Raises PushNotificationNotSupported, InvalidParams."""
    return read_webhook_asking(_webhook_fields(params, agent))


def read_listing_of_webhooks(params: Any, agent: Agent) -> WebhookListing:
    """Raises PushNotificationNotSupported, InvalidParams."""
    return read_webhook_listing(_webhook_fields(params, agent))


def _webhook_fields(params: Any, agent: Agent) -> Fields:
    if not agent.calls_webhooks:
        raise PushNotificationNotSupported
    return _fields(params, agent)


def read_nothing(params: Any, agent: Agent) -> None:
    """A request of which only the tenant matters. Raises InvalidParams."""
    _fields(params, agent).check()


def _fields(params: Any, agent: Agent) -> Fields:
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object.", "params")
    fields = Fields(params)
    if fields.text("tenant") not in ("", agent.slug):
        fields.refuse("tenant", "Names another agent than the URL does.")
    return fields


def _history_length(fields: Fields) -> int | None:
    return fields.integer("historyLength", 0)


# ProtoJSON writes an enum by name or by number; these are the numbers of specification/a2a.proto.
_NUMBERED = (
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
    None: None,
    "TASK_STATE_UNSPECIFIED": None,
    **dict(enumerate(_NUMBERED)),
    **{state.wire: state for state in TaskState},
}


def _state(fields: Fields) -> TaskState | None:
    named = fields.raw("status")
    if isinstance(named, bool | dict | list) or named not in STATES:
        fields.refuse("status", "Is no state of a task, such as TASK_STATE_WORKING.")
        return None
    return STATES[named]


def _time(fields: Fields, name: str) -> datetime.datetime | None:
    text = fields.text(name)
    if not text:
        return None
    try:
        time = parse_datetime(text) if "T" in text.upper() else None
        in_utc = time.astimezone(datetime.UTC) if time and time.tzinfo else None
    except (ValueError, OverflowError):  # a time that no calendar has, or none in UTC
        in_utc = None
    if in_utc is None:
        fields.refuse(name, "Must be a time with its zone, such as 2026-01-31T12:00:00Z.")
        return None
    return in_utc
