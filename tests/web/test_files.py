"""A session's list of files, page by page."""

from __future__ import annotations

from apps.record.content import rendering
from tests.web import telling


def test_an_older_version_is_folded_and_its_name_is_only_text(ada_browser, ada, echo):
    name = '"><i>rows</i>.txt'
    receipt = telling.finished(ada, echo, {name: telling.text("1")})
    telling.finished(ada, echo, {name: telling.text("2")}, contextId=str(receipt.context))
    listed = ada_browser.get(f"/sessions/{receipt.context}/files").text
    assert listed.count('class="artifact-open"') == 2
    assert "1 older version<" in listed
    assert 'data-version="v2"' in listed
    assert "<i>" not in listed


def test_many_files_are_listed_by_as_many_queries_as_few(ada, echo, ada_browser, finished, django_assert_num_queries):
    many = telling.finished(ada, echo, {f"{number}.txt": telling.text("a") for number in range(60)})
    with django_assert_num_queries(5):
        ada_browser.get(f"/sessions/{finished.context}/files")
    with django_assert_num_queries(5):
        assert ada_browser.get(f"/sessions/{many.context}/files").text.count('class="artifact-open"') == 60


def test_a_text_that_only_the_conversation_shows_is_not_drawn(ada, echo, ada_browser, monkeypatch):
    held = {"notes": telling.text("# Notes", "text/markdown"), "a.md": telling.text("# A", "text/markdown")}
    receipt = telling.finished(ada, echo, held)
    monkeypatch.delattr(rendering, "render_markdown")
    assert ada_browser.get(f"/sessions/{receipt.context}/files").text.count('class="artifact-open"') == 1
