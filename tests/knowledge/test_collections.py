"""Collections: who may do what, what they follow, and what becomes of them."""

import json

import pytest

from apps.accounts.audit_models import AuditEntry
from apps.accounts.people import erasure
from apps.accounts.principals import MissingRole
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.optional.knowledge import collections, forgetting, sources
from apps.optional.knowledge.collections import DELETE, SHARE, NotEditable, NotForCallers, NotYours, give, save
from apps.optional.knowledge.models import AgentCollection, Collection, Passage, Source
from apps.optional.knowledge.sources import REINDEX, REMOVE
from apps.optional.projects import files, projects
from apps.optional.projects.models import Project
from apps.optional.transfers import exports
from apps.record.errors import InvalidFields, InvalidParams
from apps.record.models import Blob
from tests.knowledge.conftest import put
from tests.members import member, operator
from tests.transfers.test_exports import made as archive_of

pytestmark = pytest.mark.django_db
ECHO = "examples.agents.echo:Echo"
POLICY = {"text": "Thirty days of leave.", "filename": "leave.txt"}


@pytest.fixture
def trip(ada):
    return projects.save(ada.principal, Project(name="Trip"))


def uses(text):
    return sum(one.uses for one in Blob.objects.filter(size=len(text)))


def test_members_edit_what_is_shared(ada, bob, handbook):
    colleague = member(bob, ada)
    assert not Collection.objects.visible_to(colleague).exists()
    SHARE.perform(ada.principal, handbook)
    found = Collection.objects.find(colleague, handbook.pk)
    found.description = "How we work"
    save(colleague, found)
    with pytest.raises(NotYours):
        DELETE.perform(colleague, found)
    viewer = member(bob, ada, "viewer")
    for refused in (lambda: save(viewer, found), lambda: sources.add_file(viewer, found, POLICY)):
        with pytest.raises(NotEditable):
            refused()
    acts = AuditEntry.objects.filter(group="collection").order_by("number").values_list("action", flat=True)
    assert list(acts) == ["collection.shared", "collection.changed"]


def test_collection_of_a_project_is_its_peoples(ada, bob, trip):
    maps = save(ada.principal, Collection(name="Maps", project=trip.pk))
    colleague = member(bob, ada)
    assert not Collection.objects.visible_to(colleague).exists()
    projects.SHARE.perform(ada.principal, trip)
    assert Collection.objects.visible_to(colleague).get() == maps
    with pytest.raises(InvalidFields):
        save(bob.principal_in(bob.personal_workspace.pk), Collection(name="Mine", project=trip.pk))


def test_only_who_runs_a_collection_moves_it(ada, bob, handbook):
    colleague = member(bob, ada)
    SHARE.perform(ada.principal, handbook)
    own = projects.save(colleague, Project(name="Bob's"))
    taken = Collection.objects.find(colleague, handbook.pk)
    taken.project = own.pk
    with pytest.raises(NotYours):
        save(colleague, taken)
    moved = Collection.objects.find(ada.principal, handbook.pk)
    moved.project = projects.save(ada.principal, Project(name="Trip")).pk
    assert not save(ada.principal, moved).is_shared
    moved.project = None
    save(ada.principal, moved)
    assert not Collection.objects.visible_to(colleague).exists()


def test_owner_sees_what_their_lost_project_has(ada, bob, handbook):
    theirs = projects.save(bob.principal, Project(name="Bob's"))
    Collection.objects.update(project=theirs.pk)
    found = Collection.objects.visible_to(ada.principal).get()
    assert save(ada.principal, found) == handbook


def test_same_name_replaces_a_file(ada, handbook):
    first = sources.add_file(ada.principal, handbook, POLICY)
    Source.objects.update(state="ready", digest="a")
    again = sources.add_file(ada.principal, handbook, {**POLICY, "text": "Forty."})
    assert (again.pk, again.state, handbook.sources.count()) == (first.pk, "waiting", 1)
    assert (uses(POLICY["text"]), uses("Forty.")) == (0, 1)


def test_file_does_not_replace_a_page(ada, handbook):
    page = sources.add_page(ada.principal, handbook, "https://leave.txt")
    with pytest.raises(InvalidFields):
        sources.add_file(ada.principal, handbook, POLICY)
    page.refresh_from_db()
    assert (page.kind, page.part) == ("page", None)


def test_long_addresses_differ_in_their_names(ada, handbook):
    long = f"https://example.org/{'a' * 300}"
    first, second = (sources.add_page(ada.principal, handbook, f"{long}{end}") for end in "xy")
    assert first.name != second.name


def test_page_that_is_added_again_is_still_watched(ada, handbook):
    for hours in (24, None):
        page = sources.add_page(ada.principal, handbook, "https://example.org/a", watch_hours=hours)
    assert page.watch_hours == 24


def test_empty_files_and_private_addresses_are_refused(ada, handbook):
    with pytest.raises(InvalidParams, match="empty"):
        sources.add_file(ada.principal, handbook, {"text": "", "filename": "a.txt"})
    for url in ("http://127.0.0.1/", "ftp://example.org/", "handbook"):
        with pytest.raises(InvalidParams):
            sources.add_page(ada.principal, handbook, url)


def test_collection_has_a_bounded_number_of_sources(ada, handbook, monkeypatch):
    monkeypatch.setattr(sources, "MOST_SOURCES", 1)
    page = sources.add_page(ada.principal, handbook, "https://example.org/a")
    assert sources.add_page(ada.principal, handbook, "https://example.org/a", watch_hours=24).pk == page.pk
    with pytest.raises(sources.TooManySources):
        sources.add_file(ada.principal, handbook, POLICY)


def test_worker_loses_a_source_that_is_read_again(ada, handbook):
    sources.add_file(ada.principal, handbook, POLICY)
    reader = Source.objects.get()
    assert reader.held.exists()
    assert REINDEX.perform(ada.principal, Source.objects.get()).state == "waiting"
    assert not reader.held.exists()


def test_removed_sources_leave_nothing(ada, handbook):
    source = sources.add_file(ada.principal, handbook, POLICY)
    REMOVE.perform(ada.principal, source)
    assert uses(POLICY["text"]) == 0
    put(handbook, "b.txt", "Text.")
    sources.add_file(ada.principal, handbook, POLICY)
    DELETE.perform(ada.principal, handbook)
    assert (uses(POLICY["text"]), Passage.objects.count(), Source.objects.count()) == (0, 0, 0)


class TestAgents:
    def test_only_makers_let_an_agent_tell_everybody(self, ada, handbook, echo):
        give(ada.principal, echo, handbook)
        with pytest.raises(NotForCallers):
            give(ada.principal, echo, handbook, is_for_callers=True)
        boss = operator("boss@example.org", "change_agent")
        own = Collection.objects.create(owner=boss, workspace=boss.personal_workspace, name="House")
        assert give(boss.principal, echo, own, is_for_callers=True).is_for_callers

    def test_readers_of_a_collection_cannot_give_it(self, ada, bob, handbook, echo):
        SHARE.perform(ada.principal, handbook)
        with pytest.raises(MissingRole):
            give(member(bob, ada, "viewer"), echo, handbook)

    def test_agent_is_taken_from_a_collection(self, ada, handbook, echo):
        give(ada.principal, echo, handbook)
        collections.take_back(ada.principal, handbook, echo)
        with pytest.raises(collections.NotGiven):
            collections.take_back(ada.principal, handbook, echo)


class TestProjects:
    def test_files_of_a_project_are_searched(self, ada, trip):
        budget = files.add(ada.principal, trip, {"text": "At most 900 euros.", "filename": "budget.txt"})
        followed = Collection.objects.get(project=trip.pk)
        [source] = followed.sources.all()
        assert (source.name, source.part, source.state) == ("budget.txt", budget.part, "waiting")
        other = files.add(ada.principal, trip, {"text": "Maps", "filename": "maps.txt"})
        assert Source.objects.get(name="budget.txt").pk == source.pk
        files.remove(budget, ada.principal)
        assert followed.sources.get().name == other.name
        files.remove(other, ada.principal)
        assert not Collection.objects.exists()

    def test_collection_of_files_only_follows(self, ada, trip):
        files.add(ada.principal, trip, POLICY)
        followed = Collection.objects.get(project=trip.pk)
        with pytest.raises(collections.FollowsProject):
            sources.add_file(ada.principal, followed, POLICY)
        with pytest.raises(collections.FollowsProject):
            DELETE.perform(ada.principal, followed)

    def test_collections_outlive_their_project_privately(self, ada, bob, trip):
        files.add(ada.principal, trip, POLICY)
        maps = save(ada.principal, Collection(name="Maps", project=trip.pk))
        projects.SHARE.perform(ada.principal, trip)
        projects.DELETE.perform(ada.principal, trip)
        assert Collection.objects.visible_to(ada.principal).get() == maps
        assert not Collection.objects.visible_to(member(bob, ada)).exists()
        assert uses(POLICY["text"]) == 0

    def test_projects_work_without_the_app(self, ada, trip, monkeypatch):
        monkeypatch.setattr("apps.record.projects.added", {"project_file_listeners": ()})
        files.add(ada.principal, trip, POLICY)
        assert not Collection.objects.exists()


class TestForgetting:
    def test_others_keep_what_erased_person_shared(self, ada, bob, handbook):
        team = member(ada, bob)
        kept, shared = save(team, Collection(name="Team")), projects.save(team, Project(name="Trip"))
        SHARE.perform(team, kept)
        projects.SHARE.perform(team, shared)
        files.add(team, shared, POLICY)
        put(handbook, "a.txt", "Ada's.")
        erasure.erase(ada)
        left = Collection.objects.order_by("name").values_list("name", "owner")
        assert list(left) == [("Files of Trip", bob.pk), ("Team", bob.pk)]
        assert not Passage.objects.exists()
        assert uses(POLICY["text"]) == 2, "of the project and of its collection"

    def test_collections_go_with_their_workspace(self, ada, handbook):
        sources.add_file(ada.principal, handbook, POLICY)
        handbook.workspace.close()
        assert forgetting.sweep() == 1
        assert uses(POLICY["text"]) == 0

    def test_archive_of_an_account_has_collections(self, ada, handbook, echo):
        sources.add_file(ada.principal, handbook, POLICY)
        give(ada.principal, echo, handbook)
        archive = archive_of(exports.start(ada.principal))
        [told] = json.loads(archive.read("collections.json"))
        assert (told["name"], told["agents"]) == ("Handbook", [{"agent__slug": "echo", "is_for_callers": False}])
        assert archive.read(f"collections/{handbook.pk}/leave.txt") == b"Thirty days of leave."

    def test_agents_that_go_leave_no_trace(self, ada, handbook):
        agent = register_hosted("other", ECHO)
        give(ada.principal, agent, handbook)
        Agent.objects.filter(pk=agent.pk).delete()
        assert not AgentCollection.objects.exists()
