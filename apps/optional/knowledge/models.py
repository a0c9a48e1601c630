"""Collections, their sources, and the passages that agents find in them."""

from __future__ import annotations

import datetime
import secrets
import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent
from apps.conversations.search.models import WordsField
from apps.optional.knowledge import vectors
from apps.record.reading.visibility import may_edit, may_run, seen_by
from parley.registry import added
from parley.work.models import Retried, RetriedQuerySet


class CollectionNotFound(NotFound):
    """There is no such collection."""


class SourceNotFound(NotFound):
    """There is no such file or page."""


def new_ref() -> str:
    """A passage's name in citations: short, so that a model repeats it without an error."""
    return secrets.token_hex(5)


def collections_seen_by(principal: Principal, path: str = "") -> Q:
    """The condition for collections that the caller may see: their own, those of projects that they see, shared ones.

    A key for some agents alone sees those that they were given. `path` leads to the collection.
    """
    seen = Q(**principal.own(path)) | (Q(**{f"{path}project": None}) & seen_by(principal, path))
    if find := added.get("visible_projects"):
        seen |= Q(**{f"{path}project__in": find(principal).values("pk")})
    if principal.agents is not None:
        given = AgentCollection.objects.filter(agent__slug__in=principal.agents).values("collection")
        seen &= Q(**{f"{path}pk__in": given})
    return seen


class CollectionQuerySet(VisibleQuerySet["Collection"]):
    not_found = CollectionNotFound

    def visible_to(self, principal: Principal) -> CollectionQuerySet:
        return self.filter(collections_seen_by(principal)) if principal.is_known else self.none()


class Collection(models.Model):
    """Files and pages that belong together. Agents that it was given to, or its project's sessions, search it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="collections", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="collections", editable=False)
    name = models.CharField(max_length=100)
    description = models.CharField(
        max_length=500, blank=True, help_text="What is in it. Agents read it to decide whether to search."
    )
    # A plain id, as in `record.Context`.
    project = models.UUIDField(
        null=True, blank=True, help_text="Who sees the project sees it, and its sessions search it."
    )
    has_project_files = models.BooleanField(
        default=False, editable=False, help_text="Its sources are the files of its project, and follow them."
    )
    is_shared = models.BooleanField(
        "shared", default=False, editable=False, help_text="May the members of its workspace see it?"
    )
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", auto_now=True)

    objects = CollectionQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["owner", "workspace", "name"], name="collections_of_a_person"),
            models.Index(fields=["workspace", "name"], condition=Q(is_shared=True), name="shared_collections"),
            models.Index(fields=["project"], name="collections_of_a_project"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["project"], condition=Q(has_project_files=True), name="a_project_has_its_files_once"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_seen_by_others(self) -> bool:
        """Whether its workspace or the people of its project may see it, too."""
        return self.is_shared or self.project is not None

    def is_run_by(self, principal: Principal) -> bool:
        """Whether the caller, who sees it, may share and delete it."""
        whose = self.owner_id, self.workspace_id, self.is_seen_by_others
        return principal.agents is None and may_run(principal, *whose)

    def is_edited_by(self, principal: Principal) -> bool:
        """Whether the caller, who sees it, may change what is in it. A key for some agents alone only reads."""
        whose = self.owner_id, self.workspace_id, self.is_seen_by_others
        return principal.agents is None and may_edit(principal, *whose)


class AgentCollectionQuerySet(VisibleQuerySet["AgentCollection"]):
    def visible_to(self, principal: Principal) -> AgentCollectionQuerySet:
        return self.filter(collections_seen_by(principal, "collection__")) if principal.is_known else self.none()


class AgentCollection(models.Model):
    """A collection that an agent searches, in all its sessions."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="knowledge")
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="agents")
    is_for_callers = models.BooleanField(
        "for all its callers", default=False,
        help_text="Whoever may use the agent gets answers from it. Otherwise only those who may see the collection.",
    )  # fmt: skip

    objects = AgentCollectionQuerySet.as_manager()

    class Meta:
        verbose_name = "agent's collection"
        verbose_name_plural = "agents' collections"
        constraints = [models.UniqueConstraint(fields=["agent", "collection"], name="an_agent_has_a_collection_once")]

    def __str__(self) -> str:
        return f"{self.agent}: {self.collection}"


class SourceQuerySet(VisibleQuerySet["Source"], RetriedQuerySet["Source"]):  # type: ignore[override]
    not_found = SourceNotFound

    def visible_to(self, principal: Principal) -> SourceQuerySet:
        return self.filter(collections_seen_by(principal, "collection__")) if principal.is_known else self.none()

    def unfinished(self) -> SourceQuerySet:
        """Those to be read, to be looked at for changes, or without vectors of the model. `due` says when."""
        unread, watched = Q(state=Source.State.WAITING), Q(watch_hours__isnull=False)
        without_vectors = Q(state=Source.State.READY) & ~Q(embedded_with=settings.EMBEDDING_MODEL)
        return self.filter(unread | watched | without_vectors if vectors.are_possible() else unread | watched)


class Source(Retried):
    """A file or a page of a collection, and how far it is indexed. A worker reads it (`indexing`)."""

    class Kind(models.TextChoices):
        FILE = "file"
        PAGE = "page"

    class State(models.TextChoices):
        WAITING = "waiting", "being read"
        READY = "ready"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="sources", editable=False)
    kind = models.CharField(max_length=4, choices=Kind, editable=False)
    name = models.CharField(max_length=200, help_text="Of a file; the title of a page.")
    url = models.CharField("address", max_length=2000, blank=True, help_text="Of a page.")
    part = models.JSONField(
        null=True, editable=False, help_text="A stored part, as the record's parts are; of a page, what was fetched."
    )
    media_type = models.CharField(max_length=200, blank=True, editable=False)
    size = models.PositiveBigIntegerField(default=0, editable=False, help_text="Bytes.")
    state = models.CharField(max_length=7, choices=State, default=State.WAITING, editable=False)
    error = models.CharField(max_length=300, blank=True, editable=False, help_text="What went wrong, for people.")
    digest = models.CharField(
        max_length=64, blank=True, editable=False, help_text="SHA-256 of the content that is indexed."
    )
    passages_count = models.PositiveIntegerField("passages", default=0, editable=False)
    is_whole = models.BooleanField(default=True, editable=False, help_text="false: only its beginning is indexed.")
    embedded_with = models.CharField(max_length=300, blank=True, editable=False, help_text="The model of its vectors.")
    watch_hours = models.PositiveSmallIntegerField(
        "look for changes every", null=True, blank=True, help_text="Hours, of a page. Empty: it is read once."
    )
    etag = models.CharField(max_length=300, blank=True, editable=False)
    last_modified = models.CharField(max_length=100, blank=True, editable=False)
    checked_at = models.DateTimeField("checked", null=True, editable=False)
    indexed_at = models.DateTimeField("indexed", null=True, editable=False)
    created_at = models.DateTimeField("added", default=timezone.now, editable=False)

    objects = SourceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["collection", "name"], name="a_collection_has_a_name_once")]

    def __str__(self) -> str:
        return self.name

    def is_read_soon(self, now: datetime.datetime) -> bool:
        """Whether a worker reads it, or will as soon as one is free. `now` is the database's time."""
        is_held = self.lease_until is not None and self.lease_until > now
        return self.state == self.State.WAITING and (is_held or self.next_try_at <= now)


class PassageQuerySet(VisibleQuerySet["Passage"]):
    def visible_to(self, principal: Principal) -> PassageQuerySet:
        return self.filter(collections_seen_by(principal, "collection__")) if principal.is_known else self.none()


class Passage(models.Model):
    """A piece of a source's text. Its pieces, one after the other, are the whole text."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="passages")
    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="+")
    ref = models.CharField(
        max_length=10, unique=True, default=new_ref, help_text="Its name in citations. It stays while the text does."
    )
    index = models.PositiveIntegerField(help_text="Its place in the source, from 0.")
    text = models.TextField()
    heading = models.CharField(max_length=300, blank=True, help_text="The headings above it, joined by ›.")
    page = models.PositiveIntegerField(null=True, help_text="Of a PDF, from 1.")
    words = WordsField(texts=("heading", "text"), group="collection", editable=False)

    objects = PassageQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "index"], name="passages_are_in_order")]

    def __str__(self) -> str:
        return f"{self.ref} of {self.source_id}"


class PassageWords(models.Model):
    """SQLite's FTS5 table over the passages' words (`sql`)."""

    passage = models.OneToOneField(
        Passage, primary_key=True, db_column="rowid", on_delete=models.DO_NOTHING, related_name="+"
    )

    class Meta:
        managed = False
        db_table = "knowledge_passagewords"

    def __str__(self) -> str:
        return f"words of {self.pk}"
