"""Prompts in the client API: rows, their text with values, and files."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.principals import READ
from apps.accounts.resources import NotNeeded
from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Shape, Struct, Text
from apps.api.framework.views import Endpoint, Operations
from apps.optional.prompts import documents, library
from apps.optional.prompts.models import Prompt, PromptVersion
from apps.record.errors import InvalidFields

EXAMPLE = {
    "name": "Weekly summary",
    "text": "Summarize {{topic}} of this week in {{tone: formal | friendly = formal}} words.",
}


@extend_schema_serializer(component_name="PromptVariable")
class VariableShape(Shape):
    name = serializers.CharField()
    is_required = serializers.BooleanField(help_text="Whether a value must be given.")
    default = serializers.CharField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField(), help_text="The only values; empty: any text.")
    is_long = serializers.BooleanField(help_text="Whether it takes several lines.")


@extend_schema_serializer(component_name="Prompt")
class PromptShape(ModelShape):
    """A text with variables that you put into messages by `/` and its `slug`."""

    variables = VariableShape(many=True, read_only=True, source="template.variables")
    owner_name = serializers.CharField(read_only=True, source="owner.short_name", help_text="Who made it.")

    class Meta:
        model = Prompt
        fields = (
            "id", "name", "slug", "text", "description", "tags", "is_shared", "variables", "owner_name", "used",
            "created_at", "updated_at",
        )  # fmt: skip


@extend_schema_serializer(component_name="PromptVersion")
class PromptVersionShape(ModelShape):
    """A text that a prompt had or has."""

    author_name = serializers.CharField(source="author.short_name", allow_null=True, help_text="Who wrote it.")

    class Meta:
        model = PromptVersion
        fields = ("id", "number", "text", "author_name", "created_at")


class Values(Body):
    values = Struct(default=dict, help_text="A text for each variable, by its name.")


@extend_schema_serializer(component_name="RenderedPrompt")
class RenderedShape(Shape):
    text = serializers.CharField(help_text="The prompt's text with the values.")


class Prompts(ResourceViewSet):
    resource = library.PROMPTS
    shape = PromptShape
    answers = {library.COPY.name: PromptShape}
    lists = {"versions": (library.VERSIONS, PromptVersionShape, "List a prompt's versions, newest first")}
    notes = {
        "create": "If you have a prompt with this `slug`, a number is added to it.",
        "update": "A changed text becomes a version. Only the owner and managers of the workspace may change it.",
    }
    refuses = {"create": [409], library.COPY.name: [409]}
    examples = (OpenApiExample("A summary", EXAMPLE, request_only=True),)

    @documented("prompts_restore", "Restore a version of a prompt", answers={200: PromptShape})
    def restore(self, request: Request, **key: Any) -> Response:
        """Its text becomes the newest version."""
        versions = library.VERSIONS.visible_to(self.principal).filter(prompt=self.find(**key))
        with suppress(NotNeeded):
            library.RESTORE.perform(self.principal, versions.find(self.principal, key["version"]))
        return Response(PromptShape(self.find(**key)).data)


class Rendering(Operations):
    scopes = {"POST": READ}

    @documented("prompts_render", "Fill in a prompt", body=Values, answers={200: RenderedShape})
    def render(self, request: Request, **key: Any) -> Response:
        """Nothing is sent. It counts as a use."""
        prompt, given = library.PROMPTS.find(self.principal, key["prompt"]), self.body(Values)["values"]
        wrong = [(f"values.{name}", "Must be a string.") for name, one in given.items() if not isinstance(one, str)]
        if wrong:
            raise InvalidFields(wrong)
        return Response({"text": library.use(self.principal, prompt, given)})


class PromptFile(Body):
    filename = Line(max_length=200, help_text="Its ending says what it is: `.json` or `.md`.")
    text = Text(max_length=documents.MOST_BYTES, help_text="The content of the file.")


@extend_schema_serializer(component_name="RefusedPrompt")
class RefusedShape(Shape):
    name = serializers.CharField()
    reason = serializers.CharField()


@extend_schema_serializer(component_name="ImportedPrompts")
class ImportedShape(Shape):
    made = PromptShape(many=True)
    unchanged = serializers.IntegerField(help_text="How many you had already, with the same text.")
    refused = RefusedShape(many=True)


class Import(Endpoint):
    @documented("prompts_import", "Import prompts", body=PromptFile, answers={200: ImportedShape})
    def post(self, request: Request) -> Response:
        """Prompts that you have already are left as they are. One with another text gets a number."""
        asked = self.body(PromptFile)
        done = documents.take(self.principal, documents.read(asked["filename"], asked["text"].encode()))
        refused = [{"name": name, "reason": why} for name, why in done.refused]
        made = PromptShape(done.made, many=True).data
        return Response({"made": made, "unchanged": done.unchanged, "refused": refused})


@extend_schema_serializer(component_name="WrittenPrompt")
class WrittenShape(Shape):
    name = serializers.CharField()
    command = serializers.CharField(help_text="The slug.")
    description = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    text = serializers.CharField()


@extend_schema_serializer(component_name="ExportedPrompts")
class ExportedShape(Shape):
    prompts = WrittenShape(many=True)


class Export(Endpoint):
    @documented("prompts_export", "Export your prompts", answers={200: ExportedShape})
    def get(self, request: Request) -> Response:
        """The document that can be imported again."""
        own = Prompt.objects.filter(**self.principal.own()).order_by("slug")
        return Response(documents.document_of(own))


urlpatterns = [
    path("prompts/import", Import.as_view(), name="prompts-import"),
    path("prompts/export", Export.as_view(), name="prompts-export"),
    *Prompts.urls(),
    path("prompts/<uuid:prompt>/render", Rendering.at(post="render"), name="prompt-render"),
    path("prompts/<uuid:prompt>/versions/<uuid:version>/restore", Prompts.at(post="restore"), name="prompt-restore"),
]
