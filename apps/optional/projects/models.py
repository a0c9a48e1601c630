"""Projects and their files. `record.Context.project` says which sessions are in one."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.db import models
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent
from apps.record.events import JSON
from apps.record.reading.visibility import may_edit, may_run, seen_by

MAX_INSTRUCTIONS = 20_000  # characters


class ProjectNotFound(NotFound):
    """There is no such project."""


class ProjectQuerySet(VisibleQuerySet["Project"]):
    not_found = ProjectNotFound

    def visible_to(self, principal: Principal) -> ProjectQuerySet:
        """The caller's own, and those that are shared with their workspace: the rule of sessions."""
        return self.filter(seen_by(principal)) if principal.is_known else self.none()


class Project(models.Model):
    """Sessions that belong together, and what their agents are told."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="projects", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="projects", editable=False)
    name = models.CharField(max_length=100)
    instructions = models.TextField(
        blank=True, validators=[MaxLengthValidator(MAX_INSTRUCTIONS)],
        help_text="What all agents should know and do in the project's sessions. They are told it with each message.",
    )  # fmt: skip
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.SET_NULL, related_name="projects",
        help_text="Who answers in a new session, unless another agent is chosen.",
    )  # fmt: skip
    options = models.JSONField(
        "options, as JSON", default=dict, blank=True,
        help_text='Of this agent in new sessions, such as {"model": "gpt-5"}.',
    )  # fmt: skip
    is_shared = models.BooleanField(
        "shared", default=False, editable=False, help_text="May the members of its workspace see it?"
    )
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", auto_now=True)

    objects = ProjectQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["owner", "workspace", "name"], name="projects_of_a_person"),
            models.Index(fields=["workspace", "name"], condition=models.Q(is_shared=True), name="shared_projects"),
        ]

    def __str__(self) -> str:
        return self.name

    def is_run_by(self, principal: Principal) -> bool:
        """Whether the caller may share and delete it."""
        return may_run(principal, self.owner_id, self.workspace_id, self.is_shared)

    def is_edited_by(self, principal: Principal) -> bool:
        """Whether the caller may change what agents are told."""
        return may_edit(principal, self.owner_id, self.workspace_id, self.is_shared)


class ProjectFileQuerySet(VisibleQuerySet["ProjectFile"]):
    def visible_to(self, principal: Principal) -> ProjectFileQuerySet:
        return self.filter(seen_by(principal, "project__")) if principal.is_known else self.none()


class ProjectFile(models.Model):
    """A file of a project. Its content is in the file storage, and counts for the workspace."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="files")
    name = models.CharField(max_length=200)
    media_type = models.CharField(max_length=200)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    sha256 = models.CharField(max_length=64)
    kind = models.CharField(max_length=4, help_text="How the record stores it: raw or text.")
    created_at = models.DateTimeField("added", default=timezone.now)

    objects = ProjectFileQuerySet.as_manager()

    class Meta:
        verbose_name = "file of a project"
        verbose_name_plural = "files of projects"
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="a_project_has_a_name_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def part(self) -> JSON:
        """Its stored part, as the record's parts are."""
        stored = {"sha256": self.sha256, "size": self.size, "kind": self.kind}
        return {"stored": stored, "filename": self.name, "mediaType": self.media_type}
