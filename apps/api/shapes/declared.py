"""What is shown, as the schema declares it; the functions beside this module make the values."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from apps.api.fields import AnyValue, Shape, Struct
from apps.record.events import EventType
from apps.record.lifecycle import TaskState
from apps.record.models import Message


def _maybe_text(**options: Any) -> serializers.CharField:
    return serializers.CharField(allow_null=True, **options)


class SessionMetadata(Shape):
    agent_url = serializers.URLField(help_text="Where other agents reach its agent, by A2A.")
    agent = serializers.CharField(help_text="The slug of the agent that it is with.")
    context_id = serializers.CharField(help_text="The A2A contextId.")
    message_count = serializers.IntegerField()
    options = Struct(help_text="How the agent is set up here.")
    forked_at = serializers.IntegerField(allow_null=True, help_text="Of a fork, the last event that it shares.")
    fork_reason = serializers.CharField(help_text="fork, edit, retry or agent; empty where it is no fork.")


@extend_schema_serializer(component_name="Session")
class SessionShape(Shape):
    """A conversation."""

    id = serializers.UUIDField()
    title = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When its newest event was recorded.")
    parent_id = serializers.UUIDField(allow_null=True, help_text="The session that it was forked from.")
    revision = serializers.IntegerField(help_text="The index of its newest event.")
    archived_at = serializers.DateTimeField(allow_null=True)
    metadata = SessionMetadata()


class ToolCall(Shape):
    call_id = serializers.CharField()
    name = serializers.CharField()
    arguments = AnyValue()
    result = AnyValue(allow_null=True)
    is_error = serializers.BooleanField()


class MessageEdit(Shape):
    session_id = serializers.UUIDField(help_text="The fork in which it was said anew.")
    index = serializers.IntegerField(help_text="Of the event that says so.")
    timestamp = serializers.DateTimeField()


class MessageMetadata(Shape):
    agent_run_id = serializers.UUIDField(allow_null=True)
    agent = _maybe_text(help_text="The slug of the agent that wrote it; null: you.")
    agent_version = serializers.IntegerField(allow_null=True, help_text="The number of that agent's version.")
    task_id = serializers.UUIDField(allow_null=True)
    message_id = serializers.CharField(help_text="Its sender's own id: the Idempotency-Key under which it was sent.")
    tool_calls = ToolCall(many=True)
    is_edited = serializers.BooleanField()
    edit_history = MessageEdit(many=True)


@extend_schema_serializer(component_name="Message")
class MessageShape(Shape):
    """One turn of talk."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    index = serializers.IntegerField(help_text="Of the event that brought it.")
    role = serializers.ChoiceField(Message.Role.choices)
    content = serializers.CharField(help_text="Its words.")
    parts = serializers.ListField(child=Struct(), help_text="Its parts, in A2A's shape.")
    html = serializers.CharField(help_text="An agent's words laid out, safe to insert; empty for your own.")
    timestamp = serializers.DateTimeField()
    metadata = MessageMetadata()


@extend_schema_serializer(component_name="Event")
class EventShape(Shape):
    """A line of a session's log."""

    id = serializers.CharField(help_text="<sessionId>:<index>")
    session_id = serializers.UUIDField()
    index = serializers.IntegerField(help_text="1 for the first; there are no gaps.")
    type = serializers.ChoiceField(EventType.choices)
    task_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    payload = Struct(help_text="What there is depends on the type.")
    timestamp = serializers.DateTimeField()


class StatusMessage(Shape):
    message_id = serializers.CharField()
    content = serializers.CharField()
    parts = serializers.ListField(child=Struct())
    metadata = Struct()


class TaskStatus(Shape):
    message = StatusMessage(allow_null=True)


@extend_schema_serializer(component_name="Task")
class TaskShape(Shape):
    """A unit of work in a session."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    state = serializers.ChoiceField(TaskState.choices)
    agent = serializers.CharField(help_text="The slug of the agent that was asked.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When its state was recorded.")
    status = TaskStatus()
    question = Struct(allow_null=True, help_text="What it waits for: a name, and perhaps a JSON Schema.")
    references = serializers.ListField(child=serializers.CharField(), help_text="Tasks that it refines.")
    artifacts = serializers.ListField(child=serializers.CharField(), help_text="Ids of what it delivered.")
    parent_id = serializers.UUIDField(allow_null=True, help_text="The task that called for it.")


@extend_schema_serializer(component_name="Artifact")
class ArtifactShape(Shape):
    """What a task delivered."""

    id = serializers.CharField(help_text="<taskId>/<artifactId>")
    session_id = serializers.UUIDField()
    task_id = serializers.UUIDField()
    artifact_id = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    media_type = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes.")
    digest = serializers.CharField(help_text="SHA-256 of the canonical JSON of its parts.")
    is_signed = serializers.BooleanField()
    version = serializers.IntegerField(help_text="1 for the first of its name in the session.")
    created_at = serializers.DateTimeField()
    parts = serializers.ListField(child=Struct())
    metadata = Struct()


@extend_schema_serializer(component_name="WholeSession")
class WholeSessionShape(Shape):
    """A session with what was asked for of it."""

    session = SessionShape()
    messages = MessageShape(many=True, required=False)
    tasks = TaskShape(many=True, required=False)
    artifacts = ArtifactShape(many=True, required=False)
    events = EventShape(many=True, required=False)
    next_events = serializers.IntegerField(
        allow_null=True,
        required=False,
        help_text="`events_since` for those after these; null: there are none.",
    )


@extend_schema_serializer(component_name="Sent")
class SentShape(Shape):
    """What a message led to: an answer at once, or a task."""

    session = SessionShape()
    message = MessageShape(allow_null=True)
    answer = MessageShape(allow_null=True, help_text="What was answered: at once, or after waiting.")
    task = TaskShape(allow_null=True)
    artifacts = ArtifactShape(many=True, help_text="What the task delivered, after waiting.")
    repeated = serializers.BooleanField(help_text="Sent before under the same key: nothing was done anew.")
