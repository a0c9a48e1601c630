"""Importing on the page: a file is shown first, and the person says what to import."""

import re

from django.core.files.uploadedfile import SimpleUploadedFile

from apps.features.uploads.models import Upload
from apps.record.models import Context
from apps.transfers import importing
from apps.transfers.formats import Skip
from tests.transfers import samples

ADDRESS = "/settings/data/import"


def shown(browser, *chats, name="conversations.json"):
    file = SimpleUploadedFile(name, samples.as_bytes(*chats))
    return browser.post(ADDRESS, {"agent": "echo", "file": file})


def confirmed(browser, page, *take, **more):
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    return browser.post(ADDRESS, {**fields, "take": take, **more})


def titles():
    return sorted(Context.objects.filter(parent=None).values_list("title", flat=True))


def test_what_a_file_gives_and_lacks_is_shown_before_the_import(ada_browser, echo):
    page = shown(ada_browser, samples.chatgpt_with_files(), {"title": "Odd", "mapping": 7})
    assert page.status_code == 200
    assert not Context.objects.exists()
    assert (page.context["ready"], page.context["existing"]) == (1, 0)
    assert {"Boats", "Odd"} == {one.title for one in page.context["preview"].results}
    assert page.context["preview"].skipped[Skip.MISSING] == 4
    assert len(page.context["not_taken"]) == len(page.context["preview"].skipped)


def test_chosen_conversations_become_sessions(ada, ada_browser, echo):
    page = shown(ada_browser, *(samples.chatgpt(name) for name in ("a", "b", "c")))
    first, _, third = (one.key for one in page.context["listed"])
    done = confirmed(ada_browser, page, first, third)
    assert titles() == ["a", "c"]
    session = Context.objects.get(owner=ada, title="a")
    assert f"/sessions/{session.pk}" in done.text
    assert not Upload.objects.exists(), "it is not needed any more"
    assert ada_browser.get(f"/sessions/{session.pk}").status_code == 200
    again = shown(ada_browser, *(samples.chatgpt(name) for name in ("a", "b", "c")))
    assert (again.context["ready"], again.context["existing"]) == (1, 2)


def test_the_rest_of_a_large_file_follows_without_what_was_not_chosen(ada_browser, echo, monkeypatch):
    monkeypatch.setattr(importing, "NEW_AT_ONCE", 1)
    page = shown(ada_browser, *(samples.chatgpt(name) for name in ("a", "b", "c")))
    first, _, third = (one.key for one in page.context["listed"])
    done = confirmed(ada_browser, page, first, third)
    assert titles() == ["a"]
    assert done.context["imported"].remaining == 1
    confirmed(ada_browser, done)
    assert titles() == ["a", "c"]


def test_a_wrong_file_says_which_files_are_taken(ada_browser, echo):
    for wrong in (
        {"agent": "echo"},
        {"agent": "nobody", "file": SimpleUploadedFile("a.json", b"[]")},
        {"agent": "echo", "file": SimpleUploadedFile("a.json", b"7")},
        {"agent": "echo", "upload": "00000000-0000-0000-0000-000000000001", "step": "import"},
    ):
        assert ada_browser.post(ADDRESS, wrong).status_code == 422
    assert "LibreChat" in ada_browser.post(ADDRESS, wrong).text
    assert not Context.objects.exists()


def test_somebody_elses_upload_is_not_imported(ada_browser, bob, browser_of, echo):
    page = shown(ada_browser, samples.chatgpt())
    assert confirmed(browser_of(bob), page, page.context["listed"][0].key).status_code == 422
    assert not Context.objects.exists()
