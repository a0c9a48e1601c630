"""Memory and personal instructions in the client API."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Text
from apps.api.framework.views import Endpoint
from apps.optional.memory import remembering
from apps.optional.memory.models import MAX_INSTRUCTIONS, MAX_TEXT, MemoryEntry

EXAMPLE = {"text": "Prefers trains to planes."}


@extend_schema_serializer(component_name="MemoryEntry")
class EntryShape(ModelShape):
    """One thing that your agents remember of you."""

    text = Text(max_length=MAX_TEXT, help_text="One thing, in a sentence.")
    project = serializers.UUIDField(
        required=False, allow_null=True, help_text="Only sessions of this project know it, by its id."
    )
    written_by = serializers.CharField(
        source="agent.slug",
        read_only=True,
        default=None,
        allow_null=True,
        help_text="The agent that wrote it; null: you.",
    )

    class Meta:
        model = MemoryEntry
        fields = (
            "id", "text", "project", "is_on", "written_by", "session", "message_index", "created_at", "updated_at",
            "forgotten_at",
        )  # fmt: skip
        read_only_fields = ("session",)


@extend_schema_serializer(component_name="PersonalInstructions")
class InstructionsShape(Body):
    text = Text(
        required=False, allow_blank=True, max_length=MAX_INSTRUCTIONS,
        help_text="What agents should know about you, and how they should answer.",
    )  # fmt: skip
    is_on = serializers.BooleanField(required=False, help_text="Whether agents are told these instructions.")
    has_memory = serializers.BooleanField(
        required=False, help_text="false: agents are told nothing about you, and remember nothing."
    )


class Memory(ResourceViewSet):
    resource = remembering.ENTRIES
    shape = EntryShape
    title = "a memory entry"
    notes = {
        "list": "Of the current workspace. What agents forgot is there for 30 days, with `forgottenAt`.",
        "create": f"At most {remembering.MOST_ENTRIES} in a workspace.",
    }
    refuses = {"create": [409]}
    examples = (OpenApiExample("A preference", EXAMPLE, request_only=True),)

    @documented("memory_delete_all", "Delete all memory entries", answers=None)
    def delete_all(self, request: Request) -> Response:
        """Your instructions stay."""
        remembering.delete_all(self.principal)
        return Response(status=204)


class Instructions(Endpoint):
    @documented("memory_instructions", "Retrieve your personal instructions", answers={200: InstructionsShape})
    def get(self, request: Request) -> Response:
        return Response(InstructionsShape(remembering.instructions_of(self.principal)).data)

    @documented(
        "memory_change_instructions",
        "Change your personal instructions, or switch memory off or on",
        body=InstructionsShape,
        answers={200: InstructionsShape},
    )
    def patch(self, request: Request) -> Response:
        row = remembering.instructions_of(self.principal)
        for name, value in self.body(InstructionsShape).items():
            setattr(row, name, value)
        return Response(InstructionsShape(remembering.save_instructions(self.principal, row)).data)


urlpatterns = [
    path("memory/instructions", Instructions.as_view(), name="memory-instructions"),
    path("memory", Memory.at(get="list", post="create", delete="delete_all"), name="memory"),
    *(one for one in Memory.urls() if one.name != "memory"),
]
