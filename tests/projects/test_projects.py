"""Projects: who may do what, their files, and what becomes of them."""

import base64
import json
import re
from http import HTTPStatus

import pytest

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.people import erasure
from apps.accounts.permissions import Role
from apps.conversations.search import queries
from apps.conversations.sessions import commands, marks
from apps.engine import accept
from apps.optional.projects import files, forgetting, projects
from apps.optional.projects.models import Project, ProjectFile
from apps.optional.projects.projects import DELETE, SHARE, NotEditable, NotYours, save
from apps.optional.transfers import exports
from apps.record.errors import InvalidParams
from apps.record.models import Blob, Context
from apps.record.projects import find_project, project_of
from tests.members import member
from tests.transfers.test_exports import made as archive_of

pytestmark = pytest.mark.django_db


def counts(file):
    """Whether the workspace still uses its content."""
    return Blob.objects.get(workspace=file.project.workspace_id, sha256=file.sha256).uses > 0


def test_members_see_and_edit_what_is_shared(ada, bob, trip):
    colleague = member(bob, ada)
    assert not Project.objects.visible_to(colleague).exists()
    SHARE.perform(ada.principal, trip)
    found = Project.objects.find(colleague, trip.pk)
    found.name = "Our trip"
    save(colleague, found)
    with pytest.raises(NotYours):
        DELETE.perform(colleague, found)
    viewer = member(bob, ada, Role.VIEWER)
    with pytest.raises(NotEditable):
        save(viewer, Project.objects.find(viewer, trip.pk))
    DELETE.perform(member(bob, ada, Role.MANAGER), found)
    acts = AuditEntry.objects.filter(group="project").order_by("number").values_list("action", flat=True)
    assert list(acts) == [f"project.{one}" for one in ("created", "shared", "changed", "deleted")]


def test_sessions_move_only_where_their_owner_sees(ada, bob, echo, trip):
    theirs = save(bob.principal, Project(name="Bob's"))
    context = commands.create_session(ada.principal, echo, project=trip.pk).context
    with pytest.raises(InvalidParams, match="no such project"):
        commands.move_session(ada.principal, context.pk, theirs.pk)
    commands.move_session(ada.principal, context.pk, None)
    assert AuditEntry.objects.filter(action=AuditAction.SESSION_MOVED, object_key=str(context.pk)).count() == 1


def test_new_sessions_have_the_agent_and_options_of_the_project(ada, echo, trip):
    trip.agent, trip.options = echo, {"language": "fi"}
    save(ada.principal, trip)
    assert commands.usual_agent(ada.principal, trip.pk) == "echo"
    assert commands.create_session(ada.principal, echo, project=trip.pk).context.options == {"language": "fi"}
    other = commands.create_session(ada.principal, echo, project=trip.pk, options={"language": "en"}).context
    assert other.options == {"language": "en"}


def test_sidebar_lists_each_session_once(ada_browser, ada, echo, trip):
    inside, outside, pinned = (
        commands.create_session(ada.principal, echo, project=project).context for project in (trip.pk, None, trip.pk)
    )
    marks.update_mark(ada.principal, pinned.pk, pinned=True)
    sidebar = ada_browser.get("/sidebar").text
    of_project = re.search(r'of-project">(.*?)</ul>', sidebar, re.DOTALL)[1]
    assert [sidebar.count(f'data-session="{one.pk}"') for one in (inside, outside, pinned)] == [1, 1, 1]
    assert re.findall(r'data-session="(.*?)"', of_project) == [str(inside.pk)]


def test_files_count_as_long_as_a_project_has_them(ada, trip, budget):
    assert counts(budget)
    newer = files.add(ada.principal, trip, {"text": "At most 800 euros.", "filename": "budget.txt"})
    assert (counts(budget), counts(newer), trip.files.get()) == (False, True, newer)
    DELETE.perform(ada.principal, trip)
    assert not counts(newer)
    assert not ProjectFile.objects.exists()


def test_project_has_a_bounded_number_of_files(ada, trip, budget, monkeypatch):
    monkeypatch.setattr(files, "MOST_FILES", 1)
    with pytest.raises(files.TooManyFiles):
        files.add(ada.principal, trip, {"text": "more", "filename": "more.txt"})
    with pytest.raises(InvalidParams, match="empty"):
        files.add(ada.principal, trip, {"text": "", "filename": "budget.txt"})


def test_sessions_outlive_their_project(ada, echo, trip):
    context = commands.create_session(ada.principal, echo, project=trip.pk).context
    DELETE.perform(ada.principal, trip)
    assert project_of(ada.principal, Context.objects.get(pk=context.pk)) is None


def test_others_go_on_with_what_an_erased_person_shared(ada, bob, budget, trip):
    team = member(ada, bob)
    kept = save(team, Project(name="Team"))
    SHARE.perform(team, kept)
    erasure.erase(ada)
    assert list(Project.objects.values_list("name", "owner")) == [("Team", bob.pk)]
    assert not counts(budget)


def test_projects_go_with_their_workspace(bob, trip, budget):
    trip.workspace.close()
    assert forgetting.sweep() == 1
    assert not counts(budget)


def test_archive_of_an_account_has_projects_with_files(ada, trip, budget):
    archive = archive_of(exports.start(ada.principal))
    [told] = json.loads(archive.read("projects.json"))
    assert (told["id"], told["instructions"]) == (str(trip.pk), "Prices are in euros.")
    assert archive.read(f"projects/{trip.pk}/budget.txt") == b"At most 900 euros."


def test_search_keeps_to_a_project(ada, echo, trip, said):
    for project in (trip.pk, None):
        context = commands.create_session(ada.principal, echo, project=project).context
        accept.accept(ada.principal, echo, said("lighthouse", contextId=context.context_id))
    assert len(queries.search(ada.principal, "lighthouse", kinds=["message"]).results) == 2
    [found] = queries.search(ada.principal, "lighthouse", kinds=["message"], project=trip.pk).results
    assert found.context.project == trip.pk


def test_nobody_is_told_without_the_app(ada, trip, monkeypatch):
    monkeypatch.setattr("apps.record.projects.added", {})
    assert find_project(ada.principal, trip.pk) is None


def test_person_has_a_bounded_number_of_projects(ada, trip, monkeypatch):
    monkeypatch.setattr(projects, "MOST_PROJECTS", 1)
    with pytest.raises(projects.TooManyProjects):
        save(ada.principal, Project(name="One more"))


async def test_repeated_request_outlives_its_project(ada_calls, echo):
    project = (await ada_calls.post("/projects", {"name": "Trip", "agent": "echo"})).body["id"]
    first = await ada_calls.post("/sessions", {"project": project}, Idempotency_Key="k")
    assert (await ada_calls.patch(f"/projects/{project}", {"options": {"language": "fi"}})).status == 200
    assert (await ada_calls.post("/sessions", {"project": project}, Idempotency_Key="k")).body["repeated"]
    await ada_calls.delete(f"/projects/{project}")
    again = await ada_calls.post("/sessions", {"project": project}, Idempotency_Key="k")
    assert (again.status, again.body["session"]["id"]) == (200, first.body["session"]["id"])
    other = await ada_calls.post("/sessions", {"project": project, "title": "B"}, Idempotency_Key="k")
    assert (other.status, other.fields) == (422, ["Idempotency-Key"])


async def test_api_begins_lists_and_moves(ada_calls, bob_calls, echo):
    project = (await ada_calls.post("/projects", {"name": "Trip", "agent": "echo"})).body["id"]
    file = {"filename": "budget.bin", "raw": base64.b64encode(b"At most 900 euros.").decode()}
    added = await ada_calls.post(f"/projects/{project}/files", file)
    assert (added.status, added.body["size"]) == (HTTPStatus.CREATED, 18)
    content = await ada_calls.get(f"/projects/{project}/files/{added.body['id']}")
    assert content.content == b"At most 900 euros."
    begun = (await ada_calls.post("/sessions", {"project": project})).body["session"]
    assert (begun["projectId"], begun["metadata"]["agent"]) == (project, "echo")
    for address in (f"/projects/{project}/sessions", f"/sessions?project={project}"):
        assert [one["id"] for one in (await ada_calls.get(address)).body["items"]] == [begun["id"]]
    moved = await ada_calls.patch(f"/sessions/{begun['id']}", {"project": None})
    assert moved.body["projectId"] is None
    assert (await bob_calls.post("/sessions", {"agent": "echo", "project": project})).fields == ["project"]
    assert (await ada_calls.delete(f"/projects/{project}/files/{added.body['id']}")).status == HTTPStatus.NO_CONTENT
    assert (await ada_calls.post(f"/projects/{project}/files", {"text": "x"})).fields == ["filename"]
