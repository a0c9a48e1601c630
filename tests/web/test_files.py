"""The list of a session's files, as its panel asks for it when there are more."""

from __future__ import annotations

import uuid

from tests.web import telling


def test_files_are_listed_with_what_the_panel_knows_of_them(ada_browser, finished):
    place = f"/sessions/{finished.context}"
    listed = ada_browser.get(f"{place}/files")
    assert listed.status_code == 200
    key = f"{finished.task}/notes.md"
    assert f'data-key="{key}" data-name="notes.md" data-look="{place}/artifacts/{key}/look" aria-pressed' in listed.text
    assert "data-version" not in listed.text
    assert listed.text in ada_browser.get(place).text  # as a page begins with it


def test_an_older_version_is_folded_and_its_name_is_only_text(ada_browser, ada, echo):
    name = '"><i>rows</i>'
    receipt = telling.finished(ada, echo, {name: telling.text("1")})
    telling.finished(ada, echo, {name: telling.text("2")}, contextId=str(receipt.context))
    listed = ada_browser.get(f"/sessions/{receipt.context}/files").text
    assert listed.count('class="artifact-open"') == 2
    assert "1 older version<" in listed
    assert 'data-version="v2"' in listed
    assert "<i>" not in listed


def test_a_session_without_files_lists_nothing(ada_browser, asked):
    assert ada_browser.get(f"/sessions/{asked.context}/files").text.strip() == ""


def test_somebody_elses_files_are_not_found(bob_browser, client, finished):
    address = f"/sessions/{finished.context}/files"
    assert bob_browser.get(address).status_code == 404
    assert bob_browser.get(f"/sessions/{uuid.uuid4()}/files").status_code == 404
    assert client.get(address).headers["Location"].startswith("/sign-in")


def test_many_files_are_listed_by_as_many_queries_as_few(ada, echo, ada_browser, finished, django_assert_num_queries):
    many = telling.finished(ada, echo, {f"{number}.txt": telling.text("a") for number in range(60)})
    with django_assert_num_queries(5):
        ada_browser.get(f"/sessions/{finished.context}/files")
    with django_assert_num_queries(5):
        assert ada_browser.get(f"/sessions/{many.context}/files").text.count('class="artifact-open"') == 60
