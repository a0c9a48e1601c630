"""Each kind of file has a bounded, safe preview."""

import json
import re
from html import unescape

import pytest

from apps.conversations.pages.previews import files, trees
from apps.record.content import blobs
from tests.clients import telling

EVIL = "<script>alert(1)</script><img src=//evil.example onerror=alert(1)>"


@pytest.fixture
def look(ada_browser, ada, echo):
    def seen(part, name="file", query=""):
        receipt = telling.finished(ada, echo, {name: blobs.store_large([part])[0]})
        answer = ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/{name}/0/preview{query}")
        assert answer.status_code == 200
        return answer.text

    return seen


def words(html):
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html))).strip()


def rows(html):
    lines = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)[1:]
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.DOTALL)] for line in lines]


class TestText:
    def test_markdown_is_laid_out_and_has_its_source(self, look):
        part = telling.text("# Notes", "text/markdown")
        assert "<h1>Notes</h1>" in look(part, "n.md")
        assert "# Notes" in words(look(part, "n.md", "?as=source"))

    def test_nothing_that_a_file_says_is_obeyed(self, look):
        for name, part in {
            "a": telling.text(EVIL),
            "a.md": telling.text(EVIL, "text/markdown"),
            "a.html": telling.text(EVIL, "text/html"),
            "a.csv": telling.text(f"a,b\n{EVIL},1\n", "text/csv"),
            "a.json": {"data": {EVIL: EVIL}},
            "a.svg": telling.text(f"<svg>{EVIL}</svg>", "image/svg+xml"),
            "a.py": telling.text(EVIL, "text/x-python"),
        }.items():
            for query in ("", "?as=source"):
                shown = look(part, name, query)
                assert "<script" not in shown, name
                assert "onerror=alert" not in re.sub(r"&lt;.*?&gt;", "", shown), name

    def test_large_files_are_read_in_part(self, look, monkeypatch):
        asked = []
        [part] = blobs.store_large([telling.text("a,b\n" * 1_500_000)])  # 6 MB
        beginning_of, content_of = blobs.head_of, blobs.content_of

        def refuse_stored(part):
            assert "stored" not in part, "the whole file was read"
            return content_of(part)

        monkeypatch.setattr(blobs, "head_of", lambda part, size: asked.append(size) or beginning_of(part, size))
        monkeypatch.setattr(blobs, "content_of", refuse_stored)
        for name in ("big.txt", "big.csv", "big.json", "big.md"):
            shown = look(part, name)
            assert "of 6.0 MB. Download the file to see all." in shown
            assert len(shown) < 700_000
        assert max(asked) <= files.READ_BYTES

    def test_drawings_and_html_are_shown_in_frames(self, look):
        assert '/dot.png/0?look" alt="dot.png"' in look(telling.picture(), "dot.png")
        part = telling.text('<svg xmlns="http://www.w3.org/2000/svg"><circle/></svg>', "image/svg+xml")
        assert '<img class="preview-picture"' in look(part, "d.svg")
        assert "<circle" not in look(part, "d.svg", "?as=source")
        shown = look(telling.text("<h1>Hi</h1>", "text/html"), "page.html")
        assert (" sandbox></iframe>" in shown, "<h1>" in shown) == (True, False)

    def test_later_parts_wait_and_links_are_safe(self, ada_browser, ada, echo):
        parts = [telling.text(f"part {number}", filename=f"p{number}.txt") for number in range(5)]
        parts += [{"url": f"{scheme}//there.example/", "filename": "x"} for scheme in ("javascript:", "https:")]
        receipt = telling.begun(ada, echo)
        with telling.ledger.writing(receipt.context) as log:
            telling.work(log, receipt)
            for number, part in enumerate(parts):
                telling.chunk(log, receipt, "set", part, append=number > 0)
            log.add(telling.EventType.AGENT_COMPLETE, {"artifacts": ["set"]}, task=receipt.task)
        shown = ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/set/look").text
        assert [f"part {number}" in shown for number in range(5)] == [True, True, True, False, False]
        assert shown.count(">Show</button>") == 2
        assert "javascript:" not in shown
        assert 'href="https://there.example/" target="_blank" rel="noopener noreferrer nofollow"' in shown


class TestTrees:
    def test_json_keeps_numbers_and_says_where_it_breaks(self, look):
        text = '{"a": 1.50, "a": 12345678901234567890123, "b": [true, null, "x"], "c": {}}'
        shown = words(look(telling.text(text, "application/json"), "t.json"))
        assert "4 members a: 1.50 a: 12345678901234567890123 b: 3 items 0: true 1: null 2: x c: empty" in shown
        shown = words(look(telling.text('{"a": 1,\n "b" 2}', "application/json"), "t.json"))
        assert "line 2, column 6" in shown
        assert '"b" 2 }' in shown

    def test_what_is_nested_deeply_or_large_is_bounded(self, look):
        for deep in [100, 100_000]:
            shown = look(telling.text("[" * deep + "]" * deep, "application/json"), "t.json")
            assert "too deep" in shown, deep
            assert len(shown) < 500_000, deep
        tree = trees.tree_of(json.dumps([[{"a": "x" * 100}] * 500] * 500))
        assert tree.count("<li") < trees.MOST_NODES * 1.2
        assert "… and 300 more." in tree
