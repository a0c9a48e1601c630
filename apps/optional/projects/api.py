"""Projects, their files and sessions in the client API."""

from __future__ import annotations

import uuid
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import FILE_ANSWERS, documented
from apps.api.framework.serializers import Line, Listing, page_of
from apps.api.shapes import JSON, SessionShape, sessions_json
from apps.automation.api.targets import Target
from apps.conversations.api.messages import PartBody
from apps.conversations.api.sessions import NEWEST_FIRST
from apps.optional.projects import files
from apps.optional.projects.models import Project, ProjectFile
from apps.optional.projects.projects import PROJECTS
from apps.record.models import Context

EXAMPLE = {"name": "Spring trip", "instructions": "Prices are in euros. Answer briefly."}
EXAMPLE_FILE = {"filename": "budget.txt", "text": "At most 900 euros."}


@extend_schema_serializer(component_name="Project")
class ProjectShape(ModelShape):
    """Sessions that belong together, and what their agents are told."""

    agent = Target(required=False)

    class Meta:
        model = Project
        fields = ("id", "name", "instructions", "agent", "options", "is_shared", "created_at", "updated_at")


@extend_schema_serializer(component_name="ProjectFile")
class ProjectFileShape(ModelShape):
    class Meta:
        model = ProjectFile
        fields = ("id", "name", "media_type", "size", "created_at")


@extend_schema_serializer(component_name="NewProjectFile")
class NewFile(PartBody):
    """A file. It has exactly one of `text`, `raw` and `uploadId`."""

    url = data = metadata = None  # type: ignore[assignment]  # DRF's way to take inherited fields out
    filename = Line(required=False, allow_blank=True, help_text="Needed, unless it is an upload, which has a name.")

    def validate(self, attrs: JSON) -> JSON:
        part = super().validate(attrs)
        if not part.get("filename"):
            raise ValidationError({"filename": ["Give the file a name."]})
        return part


class Projects(ResourceViewSet):
    resource = PROJECTS
    shape = ProjectShape
    lists = {"files": (files.FILES, ProjectFileShape, "List a project's files by name")}
    notes = {
        "list": "Your own, and those that are shared with the workspace.",
        "update": "What agents were told before stays as it was. Members may change a shared project if their role "
        "lets them edit agents.",
    }
    refuses = {"create": [409], "update": [403], "share": [403], "unshare": [403], "delete": [403]}
    examples = (OpenApiExample("A trip", EXAMPLE, request_only=True),)

    @documented(
        "projects_add_file",
        "Add a file to a project",
        body=NewFile,
        answers={201: ProjectFileShape},
        refuses=[403, 409],
        examples=[OpenApiExample("Text", EXAMPLE_FILE, request_only=True)],
    )
    def add_file(self, request: Request, project: uuid.UUID) -> Response:
        """A file of the same name is replaced."""
        row = self.find(project=project)
        added = files.add(self.principal, row, self.body(NewFile))
        return Response(self.shown(ProjectFileShape, added), status=201)

    @documented("projects_file", "Download a file of a project", answers=FILE_ANSWERS)
    def file(self, request: Request, project: uuid.UUID, project_file: uuid.UUID) -> HttpResponseBase:
        return files.download(self._file(project, project_file), request._request)

    @documented("projects_remove_file", "Remove a file from a project", answers=None, refuses=[403])
    def remove_file(self, request: Request, project: uuid.UUID, project_file: uuid.UUID) -> Response:
        """What agents said of it stays."""
        files.REMOVE.perform(self.principal, self._file(project, project_file))
        return Response(status=204)

    def _file(self, project: uuid.UUID, project_file: uuid.UUID) -> ProjectFile:
        """Raises NotFound."""
        found: ProjectFile = files.FILES.find(self.principal, project_file)
        return found if found.project_id == project else ProjectFile.objects.none().find(self.principal, project_file)

    @documented(
        "projects_sessions",
        "List the sessions of a project, most recently updated first",
        query=Listing,
        answers={200: page_of(SessionShape)},
    )
    def sessions(self, request: Request, project: uuid.UUID) -> Response:
        """Those that you may see. `POST /sessions` with `project` begins one, `PATCH /sessions/{session}` moves one."""
        row, asked = self.find(project=project), self.query(Listing)
        found: Any = Context.objects.visible_to(self.principal).listed().filter(project=row.pk)
        return self.page(found, NEWEST_FIRST, asked, sessions_json)


FILES_ADDRESS = "projects/<uuid:project>/files"
urlpatterns = [
    path(FILES_ADDRESS, Projects.at(get="below_files", post="add_file"), name="project-files"),
    path(f"{FILES_ADDRESS}/<uuid:project_file>", Projects.at(get="file", delete="remove_file"), name="project-file"),
    path("projects/<uuid:project>/sessions", Projects.at(get="sessions"), name="project-sessions"),
    *(one for one in Projects.urls() if one.name != "project-files"),
]
