"""Collections, their files and pages, the agents that search them, and searching, in the client API."""

from __future__ import annotations

import uuid
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.agents.models import Agent
from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Body, Line, Listing, Query, Shape, page_of
from apps.api.framework.views import Operations
from apps.api.shapes import JSON
from apps.conversations.api.messages import PartBody
from apps.optional.knowledge import collections, finding, sources
from apps.optional.knowledge.collections import COLLECTIONS
from apps.optional.knowledge.finding import Asking
from apps.optional.knowledge.models import AgentCollection, Collection, Source
from parley import db

EXAMPLE = {"name": "Handbook", "description": "How we work: holidays, travel, expenses."}
EXAMPLE_FILE = {"filename": "travel.md", "text": "# Hotels\n\nA night costs at most 120 euros."}


@extend_schema_serializer(component_name="Collection")
class CollectionShape(ModelShape):
    """Files and pages that belong together, and that agents search."""

    class Meta:
        model = Collection
        fields = (
            *("id", "name", "description", "project", "has_project_files", "is_shared", "created_at", "updated_at"),
        )


@extend_schema_serializer(component_name="Source")
class SourceShape(ModelShape):
    """A file or a page of a collection, and how far it is read."""

    class Meta:
        model = Source
        fields = (
            *("id", "kind", "name", "url", "media_type", "size", "state", "error", "passages_count", "is_whole"),
            *("watch_hours", "checked_at", "indexed_at", "created_at"),
        )
        read_only_fields = ("name", "url")


def watch_field(nothing: str = "never", **options: Any) -> serializers.IntegerField:
    told = f"Look for changes of a page every so many hours. null: {nothing}."
    return serializers.IntegerField(
        min_value=1, max_value=sources.WATCH_HOURS[-1], allow_null=True, help_text=told, **options
    )


class ChangedSource(Body):
    watch_hours = watch_field()


@extend_schema_serializer(component_name="NewSource")
class NewSource(PartBody):
    """A file or a page. It has exactly one of `text`, `raw`, `uploadId` and `url`."""

    data = metadata = None  # type: ignore[assignment]  # DRF's way to take inherited fields out
    url = serializers.CharField(required=False, max_length=2000, help_text="The address of a page.")
    filename = Line(required=False, allow_blank=True, help_text="Of a file, unless it is an upload, which has a name.")
    watch_hours = watch_field("as before, of a new page never", required=False)

    def validate(self, attrs: JSON) -> JSON:
        hours = attrs.pop("watch_hours", None)
        part = super().validate(attrs)
        if hours is not None and "url" not in part:
            raise ValidationError({"watchHours": ["Only a page is watched. Send a changed file again."]})
        if "url" not in part and not part.get("filename"):
            raise ValidationError({"filename": ["Give the file a name."]})
        return {"part": part, "watch_hours": hours}


class NewGift(Body):
    is_for_callers = serializers.BooleanField(
        default=False,
        help_text="Whether the agent tells all its callers what is in the collection. Otherwise only those who may "
        "see the collection.",
    )


@extend_schema_serializer(component_name="AgentCollection")
class GivenShape(Shape):
    """An agent that searches a collection."""

    agent = serializers.CharField(source="agent.slug")
    collection = serializers.UUIDField(source="collection_id")
    name = serializers.CharField(source="collection.name", help_text="Of the collection.")
    is_for_callers = serializers.BooleanField()


class Searching(Query):
    query = serializers.CharField(max_length=finding.MAX_QUERY_LENGTH, help_text="A question, or words.")
    limit = serializers.IntegerField(min_value=1, max_value=finding.MOST_FOUND, default=5)


class SearchingAll(Searching):
    collections = serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text="Only these. By default all that may be searched."
    )
    agent = Line(
        required=False, help_text="The slug of an agent: what it would search for you. By default all that you see."
    )
    project = serializers.UUIDField(
        required=False, help_text="The id of a project: what the agent would search in its sessions, or only that."
    )


@extend_schema_serializer(component_name="FoundPassage")
class PassageShape(Shape):
    """A piece of a file or page."""

    ref = serializers.CharField(help_text="Its name in citations. It stays while the text does.")
    text = serializers.CharField()
    title = serializers.CharField(help_text="Its source, and the page of a PDF.")
    collection = serializers.CharField(help_text="The name of the collection.")
    heading = serializers.CharField(help_text="The headings above it, joined by ›. Perhaps empty.")
    page = serializers.IntegerField(allow_null=True)
    url = serializers.CharField(help_text="Where it opens in a browser, without the host.")
    score = serializers.FloatField(help_text="From 0 to 1, comparable only within one answer.")


@extend_schema_serializer(component_name="FoundPassages")
class PassagesShape(Shape):
    items = PassageShape(many=True, help_text="The best first.")


class Collections(ResourceViewSet):
    resource = COLLECTIONS
    shape = CollectionShape
    lists = {"sources": (sources.SOURCES, SourceShape, "List a collection's files and pages by name")}
    notes = {
        "list": "Your own, those that are shared with the workspace, and those of projects that you see.",
        "create": "With `project`, whoever sees the project sees it, and the project's sessions search it.",
    }
    refuses = {
        "create": [409],
        "update": [403, 409],
        "share": [403, 409],
        "unshare": [403, 409],
        "delete": [403, 409],
    }
    examples = (OpenApiExample("A handbook", EXAMPLE, request_only=True),)

    @documented(
        "collections_add_source",
        "Add a file or a page to a collection",
        body=NewSource,
        answers={201: SourceShape},
        refuses=[403, 409],
        examples=[OpenApiExample("A file", EXAMPLE_FILE, request_only=True)],
    )
    def add_source(self, request: Request, collection: uuid.UUID) -> Response:
        """It is read soon: `state` says when agents find it. A file of the same name, or the same page, is replaced."""
        row, asked = self.find(collection=collection), self.body(NewSource)
        part = asked["part"]
        if "url" in part:
            added = sources.add_page(self.principal, row, part["url"], watch_hours=asked["watch_hours"])
        else:
            added = sources.add_file(self.principal, row, part)
        return Response(self.shown(SourceShape, added), status=201)

    @documented("collections_source", "Retrieve a file or a page of a collection", answers=SourceShape)
    def source(self, request: Request, collection: uuid.UUID, source: uuid.UUID) -> Response:
        return Response(self.shown(SourceShape, self._source(collection, source)))

    @documented(
        "collections_watch_source", "Say how often a page is looked at", body=ChangedSource, answers=SourceShape,
        refuses=[403, 409],
    )  # fmt: skip
    def watch_source(self, request: Request, collection: uuid.UUID, source: uuid.UUID) -> Response:
        row, asked = self._source(collection, source), self.body(ChangedSource)
        return Response(self.shown(SourceShape, sources.watch(self.principal, row, asked["watch_hours"])))

    @documented("collections_source_content", "Download a file of a collection", answers=FILE_ANSWERS)
    def content(self, request: Request, collection: uuid.UUID, source: uuid.UUID) -> HttpResponseBase:
        """Of a page: what was read last."""
        return sources.download(self._source(collection, source), request._request)

    @documented("collections_remove_source", "Remove a file or a page", answers=None, refuses=[403, 409])
    def remove_source(self, request: Request, collection: uuid.UUID, source: uuid.UUID) -> Response:
        """What agents said of it stays."""
        sources.REMOVE.perform(self.principal, self._source(collection, source))
        return Response(status=204)

    @documented("collections_reindex_source", "Read a file or a page again", answers=SourceShape, refuses=[403])
    def reindex_source(self, request: Request, collection: uuid.UUID, source: uuid.UUID) -> Response:
        """Until it is read, agents find what was read before."""
        sources.REINDEX.perform(self.principal, self._source(collection, source))
        return Response(self.shown(SourceShape, self._source(collection, source)))

    def _source(self, collection: uuid.UUID, source: uuid.UUID) -> Source:
        """Raises NotFound."""
        found: Source = sources.SOURCES.find(self.principal, source)
        return found if found.collection_id == collection else Source.objects.none().find(self.principal, source)

    @documented("collections_search", "Search a collection", query=Searching, answers={200: PassagesShape})
    async def search(self, request: Request, collection: uuid.UUID) -> Response:
        """The passages that fit best: by their words, and by meaning where a model for that is connected."""
        row = await db.run(lambda: self.find(collection=collection))
        asked = self.query(Searching)
        found = await finding.search(Asking(self.principal, collections=(row.pk,)), asked["query"], asked["limit"])
        return Response({"items": PassageShape.list_of(found)})

    @documented(
        "collections_agents", "List the agents that search a collection", query=Listing,
        answers={200: page_of(GivenShape)},
    )  # fmt: skip
    def agents(self, request: Request, collection: uuid.UUID) -> Response:
        """Those that you may use."""
        row = self.find(collection=collection)
        rows = AgentCollection.objects.visible_to(self.principal).filter(
            collection=row, agent__in=Agent.objects.visible_to(self.principal)
        )
        return self.page(
            rows.select_related("agent", "collection"), ("agent__slug", "id"), self.query(Listing), GivenShape.list_of
        )

    @documented(
        "collections_give", "Let an agent search a collection", body=NewGift, answers=GivenShape, refuses=[403, 409]
    )
    def give(self, request: Request, collection: uuid.UUID, slug: str) -> Response:
        """For `isForCallers` you must be able to change the agent."""
        row, found = self.find(collection=collection), Agent.objects.find(self.principal, slug)
        given = collections.give(self.principal, found, row, **self.body(NewGift))
        return Response(GivenShape.json_of(given))

    @documented("collections_take_back", "Let an agent not search a collection", answers=None, refuses=[403])
    def take_back(self, request: Request, collection: uuid.UUID, slug: str) -> Response:
        row, found = self.find(collection=collection), Agent.objects.find(self.principal, slug)
        collections.take_back(self.principal, row, found)
        return Response(status=204)


class Knowledge(Operations):
    @documented("knowledge_search", "Search all collections", query=SearchingAll, answers={200: PassagesShape})
    async def search(self, request: Request) -> Response:
        """All that you may see, or what an `agent` searches for you. Programs of agents ask this with a key."""
        asked = self.query(SearchingAll)
        asking = await db.run(self._asking, asked)
        return Response({"items": PassageShape.list_of(await finding.search(asking, asked["query"], asked["limit"]))})

    def _asking(self, asked: JSON) -> Asking:
        """Raises AgentNotFound."""
        agent = Agent.objects.find(self.principal, asked["agent"]).pk if asked.get("agent") else None
        return Asking(self.principal, agent, asked.get("project"), tuple(asked.get("collections", ())))


SOURCES_ADDRESS = "collections/<uuid:collection>/sources"
SOURCE_ADDRESS = f"{SOURCES_ADDRESS}/<uuid:source>"
AGENTS_ADDRESS = "collections/<uuid:collection>/agents"
urlpatterns: list[Any] = [
    path(SOURCES_ADDRESS, Collections.at(get="below_sources", post="add_source"), name="collection-sources"),
    path(
        SOURCE_ADDRESS,
        Collections.at(get="source", patch="watch_source", delete="remove_source"),
        name="collection-source",
    ),
    path(f"{SOURCE_ADDRESS}/content", Collections.at(get="content"), name="collection-source-content"),
    path(f"{SOURCE_ADDRESS}/reindex", Collections.at(post="reindex_source"), name="collection-source-reindex"),
    path("collections/<uuid:collection>/search", Collections.at(get="search"), name="collection-search"),
    path(AGENTS_ADDRESS, Collections.at(get="agents"), name="collection-agents"),
    path(f"{AGENTS_ADDRESS}/<slug:slug>", Collections.at(put="give", delete="take_back"), name="collection-agent"),
    path("knowledge/search", Knowledge.at(get="search"), name="knowledge-search"),
    *(one for one in Collections.urls() if one.name != "collection-sources"),
]
