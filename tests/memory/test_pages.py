"""Settings → Memory, the client API, and other pages that show memory."""

import uuid
from dataclasses import replace
from http import HTTPStatus

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from apps.accounts.people import erasure
from apps.optional.memory import remembering, rights
from apps.optional.memory.models import MemoryEntry, PersonalInstructions
from apps.optional.memory.remembering import Source
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save
from apps.record.models import Context

pytestmark = pytest.mark.django_db

PAGE = "/settings/memory"


@pytest.fixture
def browser(client, ada):
    client.force_login(ada)
    return client


def test_page_shows_own_entries_with_their_source(browser, bob, helper, session, known):
    known("Ada likes tea.", source=Source(helper, session.pk, 3))
    known("Bob likes coffee.", bob.principal)
    shown = browser.get(PAGE).content.decode()
    assert "Ada likes tea." in shown
    assert "coffee" not in shown
    assert f"/sessions/{session.pk}#m-3" in shown
    assert "Ada likes tea." not in browser.get(PAGE, {"q": "coffee"}).content.decode()


def test_instructions_are_saved(browser, ada):
    browser.post(PAGE, {"text": "Be brief.", "is_on": "on", "has_memory": "on"})
    assert remembering.instructions_of(ada.principal).text == "Be brief."
    assert browser.post(PAGE, {"text": "a" * 4_001}).status_code == 422
    browser.post(PAGE, {"text": "Be brief."})
    assert not PersonalInstructions.objects.get().has_memory


def test_entry_is_changed_switched_and_deleted(browser, known):
    entry = known("Likes tea.")
    browser.post(f"{PAGE}/{entry.pk}", {"text": "Likes coffee."})
    browser.post(f"{PAGE}/{entry.pk}/turn-off")
    entry.refresh_from_db()
    assert (entry.text, entry.is_on) == ("Likes coffee.", False)
    browser.post(f"{PAGE}/{entry.pk}/delete")
    assert not MemoryEntry.objects.exists()


def test_entry_is_moved_into_a_project(browser, ada, known):
    trip, entry = save(ada.principal, Project(name="Trip")), known("Likes tea.")
    for chosen, project in ((str(trip.pk), trip.pk), ("", None)):
        browser.post(f"{PAGE}/{entry.pk}", {"text": "Likes tea.", "project": chosen})
        entry.refresh_from_db()
        assert entry.project == project


def test_all_is_deleted_after_a_question(browser, bob, known):
    known("one")
    known("of Bob", bob.principal)
    browser.get(f"{PAGE}/delete-all")
    assert MemoryEntry.objects.count() == 2
    browser.post(f"{PAGE}/delete-all")
    assert [one.text for one in MemoryEntry.objects.all()] == ["of Bob"]


def test_person_chooses_on_the_page_of_an_agent(browser, ada, helper):
    assert "memory-uses" in browser.get(f"/agents/{helper.slug}").content.decode()
    browser.post(f"/agents/{helper.slug}/memory", {"uses": "none"})
    assert rights.uses_of(helper, ada.pk) == "none"


@pytest.mark.django_db(transaction=True)
def test_temporary_session_begins_in_the_browser(browser, echo):
    answer = browser.post(
        reverse("web:begin", args=["echo"]), {"text": "hello", "message": str(uuid.uuid4()), "temporary": "1"}
    )
    assert answer.status_code == HTTPStatus.CREATED, answer.content
    made = Context.objects.get()
    assert made.is_temporary
    assert 'role="note">Temporary' in browser.get(f"/sessions/{made.pk}").content.decode()


def test_sweep_deletes_what_was_forgotten_long_ago(ada, helper, session, known, monkeypatch):
    gone, kept = known("gone"), known("kept")
    remembering.forget(ada.principal, gone, Source(helper, session.pk, None))
    assert remembering.sweep() == 0
    monkeypatch.setattr(remembering, "KEPT_FORGOTTEN", -remembering.KEPT_FORGOTTEN)
    assert remembering.sweep() == 1
    assert list(MemoryEntry.objects.all()) == [kept]


async def test_api_keeps_memory(ada_calls, bob_calls, echo):
    made = await ada_calls.post("/memory", {"text": "Likes tea."})
    assert (made.status, made.body["writtenBy"]) == (HTTPStatus.CREATED, None)
    assert (await ada_calls.patch("/memory/instructions", {"isOn": False})).body["isOn"] is False
    assert (await bob_calls.get("/memory/instructions")).body["isOn"] is True
    assert [one["text"] for one in (await ada_calls.get("/memory")).body["items"]] == ["Likes tea."]
    assert (await bob_calls.get("/memory")).body["items"] == []
    assert (await ada_calls.delete("/memory")).status == HTTPStatus.NO_CONTENT
    assert (await ada_calls.get("/memory")).body["items"] == []
    begun = await ada_calls.post("/sessions", {"agent": "echo", "temporary": True})
    assert begun.body["session"]["temporary"] is True


def test_erased_person_leaves_no_memory(ada, bob, known):
    known("Of Ada.")
    known("Of Bob.", bob.principal)
    remembering.save_instructions(ada.principal, PersonalInstructions(text="Be brief."))
    files = {name: content for name, _, content in remembering.personal_data(ada)}
    assert "Of Ada." in str(files)
    assert "Of Bob." not in str(files)
    erasure.erase(ada)
    assert [one.text for one in MemoryEntry.objects.all()] == ["Of Bob."]
    assert not PersonalInstructions.objects.exists()


def test_memory_goes_with_its_workspace(ada, known):
    entry = known("Likes tea.")
    remembering.save_instructions(ada.principal, PersonalInstructions(text="Be brief."))
    entry.workspace.close()
    remembering.sweep()
    assert not MemoryEntry.objects.exists()
    assert not PersonalInstructions.objects.exists()


def test_key_for_some_agents_reaches_no_memory(ada, known):
    known("Likes tea.")
    remembering.save_instructions(ada.principal, PersonalInstructions(text="Be brief."))
    key = replace(ada.principal, agents=frozenset({"echo"}))
    assert not MemoryEntry.objects.visible_to(key).exists()
    assert remembering.instructions_of(key).text == ""
    with pytest.raises(PermissionDenied):
        remembering.save_instructions(key, PersonalInstructions(text="Be rude."))
    with pytest.raises(PermissionDenied):
        remembering.save(key, MemoryEntry(text="Likes coffee."))


@pytest.mark.parametrize("change", ["save", "undo"])
def test_change_of_a_text_keeps_what_changed_meanwhile(ada, known, change):
    entry = known("Likes tea.")
    entry.text = "Likes coffee."
    remembering.save(ada.principal, entry)
    stale = MemoryEntry.objects.get()
    MemoryEntry.objects.update(is_on=False)
    if change == "undo":
        remembering.UNDO.perform(ada.principal, stale)
    else:
        stale.text = "Likes water."
        remembering.save(ada.principal, stale)
    assert not MemoryEntry.objects.get().is_on
