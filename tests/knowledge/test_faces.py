"""The client API and the pages of knowledge, and where citations lead."""

import datetime
from http import HTTPStatus

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from apps.agents.models import Agent
from apps.optional.knowledge.models import AgentCollection, Collection, Passage, Source
from apps.optional.knowledge.passages import Piece
from apps.optional.projects import files, projects
from apps.optional.projects.models import Project
from parley import db
from parley.db.sql import database_time
from tests.knowledge.conftest import put
from tests.members import member

pytestmark = pytest.mark.django_db(transaction=True)
TEXTS = ("Leave is thirty days.", "Ask by e-mail.", "Bicycles stand in the yard.")


@pytest.fixture
def leave(handbook):
    return put(
        handbook,
        "leave.pdf",
        *(Piece(one, "Staff", at) for at, one in enumerate(TEXTS, 1)),
        media_type="application/pdf",
    )


class TestApi:
    async def test_sources_are_added_listed_and_removed(self, ada_calls, bob_calls):
        made = await ada_calls.post("/collections", {"name": "Handbook", "description": "Leave"})
        place = f"/collections/{made.body['id']}"
        file = await ada_calls.post(f"{place}/sources", {"raw": "VGhpcnR5IGRheXMu", "filename": "leave.bin"})
        assert (file.status, file.body["state"], file.body["size"]) == (HTTPStatus.CREATED, "waiting", 12)
        page = {"url": "https://example.org/leave", "watchHours": 24}
        assert (await ada_calls.post(f"{place}/sources", page)).body["watchHours"] == 24
        listed = (await ada_calls.get(f"{place}/sources")).body["items"]
        assert [one["kind"] for one in listed] == ["page", "file"]
        source = f"{place}/sources/{file.body['id']}"
        assert (await ada_calls.get(f"{source}/content")).content == b"Thirty days."
        assert (await ada_calls.post(f"{source}/reindex")).body["state"] == "waiting"
        assert (await bob_calls.get(source)).status == HTTPStatus.NOT_FOUND
        assert (await ada_calls.delete(source)).status == HTTPStatus.NO_CONTENT
        watched = f"{place}/sources/{listed[0]['id']}"
        assert (await ada_calls.patch(watched, {"watchHours": None})).body["watchHours"] is None

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"text": "x"}, "filename"),
            ({"text": "x", "filename": "a.txt", "watchHours": 1}, "watchHours"),
            ({"url": "http://10.0.0.1/"}, "url"),
            ({"url": "https://example.org/", "watchHours": 0}, "watchHours"),
        ],
    )
    async def test_wrong_sources_are_refused_at_their_field(self, ada_calls, handbook, body, field):
        assert (await ada_calls.post(f"/collections/{handbook.pk}/sources", body)).fields == [field]

    async def test_passages_are_found_by_who_sees_them(self, ada_calls, bob_calls, handbook, leave, helper):
        [first] = (await ada_calls.get(f"/collections/{handbook.pk}/search?query=bicycles")).body["items"]
        passage = await db.run(Passage.objects.get, index=2)
        assert (first["text"], first["title"]) == (TEXTS[2], "leave.pdf, page 3")
        assert first["url"] == f"/knowledge/passages/{passage.ref}"
        assert (await ada_calls.get("/knowledge/search?query=bicycles")).body["items"] == [first]
        assert (await bob_calls.get("/knowledge/search?query=bicycles")).body["items"] == []
        assert (await ada_calls.get(f"/knowledge/search?query=bicycles&agent={helper.slug}")).body["items"] == []
        await db.run(AgentCollection.objects.create, agent=helper, collection=handbook, is_for_callers=True)
        told = (await bob_calls.get(f"/knowledge/search?query=bicycles&agent={helper.slug}")).body["items"]
        assert [one["text"] for one in told] == [TEXTS[2]]

    async def test_project_is_searched_for_its_people(self, ada, ada_calls, bob_calls, handbook, leave, helper):
        trip = await db.run(projects.save, ada.principal, Project(name="Trip"))
        address = f"/knowledge/search?query=bicycles&project={trip.pk}"
        assert (await ada_calls.get(address)).body["items"] == []
        await db.run(lambda: Collection.objects.filter(pk=handbook.pk).update(project=trip.pk))
        for asked in (address, f"{address}&agent={helper.slug}"):
            assert [one["text"] for one in (await ada_calls.get(asked)).body["items"]] == [TEXTS[2]]
            assert (await bob_calls.get(asked)).body["items"] == []

    async def test_agents_get_and_lose_collections(self, ada_calls, handbook, helper):
        address = f"/collections/{handbook.pk}/agents"
        assert (await ada_calls.put(f"{address}/{helper.slug}", {})).body["isForCallers"] is False
        assert [one["agent"] for one in (await ada_calls.get(address)).body["items"]] == [helper.slug]
        assert (await ada_calls.put(f"{address}/{helper.slug}", {"isForCallers": True})).status == HTTPStatus.FORBIDDEN
        assert (await ada_calls.delete(f"{address}/{helper.slug}")).status == HTTPStatus.NO_CONTENT
        assert (await ada_calls.delete(f"{address}/{helper.slug}")).status == HTTPStatus.NOT_FOUND


class TestPages:
    def test_files_and_pages_are_added(self, ada_browser, handbook):
        place = f"/knowledge/{handbook.pk}"
        ada_browser.post(f"{place}/files", {"files": SimpleUploadedFile("leave.txt", b"Thirty days.")})
        ada_browser.post(f"{place}/page", {"url": "https://example.org/", "watch": "168"})
        assert set(Source.objects.values_list("name", "watch_hours")) == {
            ("leave.txt", None),
            ("example.org/", 168),
        }
        assert 'hx-trigger="every' in ada_browser.get(place).text
        assert "hx-trigger" in ada_browser.get(f"{place}/sources").text
        Source.objects.update(next_try_at=database_time() + datetime.timedelta(hours=1))
        assert "hx-trigger" not in ada_browser.get(f"{place}/sources").text
        refused = ada_browser.post(f"{place}/page", {"url": "http://127.0.0.1/"}, follow=True)
        assert refused.status_code == HTTPStatus.OK
        assert Source.objects.count() == 2

    def test_failed_source_is_tried_again(self, ada_browser, handbook):
        failed = Source.objects.create(collection=handbook, kind="file", name="a.pdf", state="failed", error="Locked.")
        assert "Locked." in ada_browser.get(f"/knowledge/{handbook.pk}").text
        ada_browser.post(f"/knowledge/{handbook.pk}/sources/{failed.pk}/act", {"do": "reindex"})
        failed.refresh_from_db()
        assert (failed.state, failed.error) == ("waiting", "")

    async def test_search_shows_passages(self, ada_at_work, handbook, leave):
        for header in ({}, {"HX-Request": "true"}):
            shown = await ada_at_work.get(f"/knowledge/{handbook.pk}/search?q=bicycles", headers=header)
            assert TEXTS[2] in shown.text
        assert (await ada_at_work.get(f"/knowledge/{handbook.pk}/search?q=%3F")).status_code == HTTPStatus.OK

    def test_project_says_what_agents_search(self, ada, ada_browser):
        trip = projects.save(ada.principal, Project(name="Trip"))
        files.add(ada.principal, trip, {"text": "At most 900 euros.", "filename": "budget.txt"})
        followed = Collection.objects.get(project=trip.pk)
        assert f"/knowledge/{followed.pk}" in ada_browser.get(f"/projects/{trip.pk}").text

    def test_agent_is_given_a_collection_on_its_page(self, ada, ada_browser, handbook, helper):
        address = f"/agents/{helper.slug}/knowledge"
        assert str(handbook.pk) in ada_browser.get(f"/agents/{helper.slug}").text
        ada_browser.post(address, {"collection": handbook.pk})
        assert AgentCollection.objects.get().is_for_callers is False
        ada_browser.post(address, {"collection": handbook.pk, "is_for_callers": "1"})
        assert AgentCollection.objects.get().is_for_callers is False
        ada_browser.post(address, {"collection": handbook.pk, "take": "1"})
        assert not AgentCollection.objects.exists()


class TestPassages:
    def test_citation_opens_at_the_passage(self, ada_browser, leave):
        ref = Passage.objects.get(index=1).ref
        for written in (ref, ref.upper(), f"{ref})."):
            shown = ada_browser.get(f"/knowledge/passages/{written}").text
            assert [shown.count(one) for one in TEXTS] == [1, 1, 1]
            assert "#page=2" in shown

    def test_others_find_nothing(self, bob, browser_of, leave):
        for ref in (Passage.objects.first().ref, "0123456789", "x"):
            assert browser_of(bob).get(f"/knowledge/passages/{ref}").status_code == HTTPStatus.NOT_FOUND

    def test_callers_of_an_agent_see_the_passage_alone(self, bob, browser_of, handbook, leave, helper):
        AgentCollection.objects.create(agent=helper, collection=handbook, is_for_callers=True)
        bobs, ref = browser_of(bob), Passage.objects.get(index=1).ref
        shown = bobs.get(f"/knowledge/passages/{ref}").text
        assert [shown.count(one) for one in TEXTS] == [0, 1, 0]
        assert bobs.get(f"/knowledge/{handbook.pk}/sources/{leave.pk}/file").status_code == HTTPStatus.NOT_FOUND
        Agent.objects.filter(pk=helper.pk).update(access="owner")
        assert bobs.get(f"/knowledge/passages/{ref}").status_code == HTTPStatus.NOT_FOUND

    def test_web_page_opens_at_the_words(self, ada_browser, handbook):
        page = put(handbook, "Leave", "Thirty days, well-earned & paid.")
        Source.objects.filter(pk=page.pk).update(kind="page", url="https://example.org/leave")
        shown = ada_browser.get(f"/knowledge/passages/{Passage.objects.get().ref}").text
        assert "https://example.org/leave#:~:text=Thirty%20days%2C%20well%2Dearned%20%26%20paid." in shown

    def test_members_see_what_is_shared(self, ada, bob, browser_of, handbook, leave):
        Collection.objects.update(is_shared=True)
        member(bob, ada)
        ref = Passage.objects.first().ref
        assert browser_of(bob).get(f"/knowledge/passages/{ref}").status_code == HTTPStatus.OK
