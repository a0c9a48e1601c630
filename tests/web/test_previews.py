"""A look at a file: each kind as what it is, in its encoding, bounded, and unable to do anything in our name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations import blobs
from apps.web.previews import encodings, kinds, tables, trees
from tests.api.counting import statements
from tests.web import telling

Look = Callable[..., str]
EVIL = "<script>alert(1)</script><img src=//evil.example onerror=alert(1)>"


@pytest.fixture
def look(ada_browser: Client, ada: User, echo: Agent) -> Look:
    """What is shown of an artifact of one part."""

    def seen(part: telling.JSON, name: str = "file", query: str = "") -> str:
        receipt = telling.finished(ada, echo, {name: blobs.store_large([part])[0]})
        answer = ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/{name}/0/preview{query}")
        assert answer.status_code == 200
        return answer.text

    return seen


def words(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html))).strip()


def rows(html: str) -> list[list[str]]:
    lines = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)[1:]
    return [[unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.DOTALL)] for line in lines]


class TestText:
    def test_markdown_is_laid_out_and_its_source_is_there_too(self, look: Look) -> None:
        part = telling.text("# Notes", "text/markdown")
        assert "<h1>Notes</h1>" in look(part, "n.md")
        assert "# Notes" in words(look(part, "n.md", "?as=source"))

    def test_code_is_coloured_by_its_name(self, look: Look) -> None:
        assert '<span class="k">def</span>' in look(telling.text("def f(): 1", "text/x-python"), "f.py")

    def test_a_name_says_what_plain_text_is(self, look: Look) -> None:
        assert rows(look(telling.text("a,b\nx,2\n"), "t.csv")) == [["x", "2"]]
        assert "tree-key" in look(telling.text('{"a": 1}'), "t.json")

    def test_nothing_that_a_file_says_is_obeyed(self, look: Look) -> None:
        kinds_of = {
            "a": telling.text(EVIL),
            "a.md": telling.text(EVIL, "text/markdown"),
            "a.html": telling.text(EVIL, "text/html"),
            "a.csv": telling.text(f"a,b\n{EVIL},1\n", "text/csv"),
            "a.json": {"data": {EVIL: EVIL}},
            "a.svg": telling.text(f"<svg>{EVIL}</svg>", "image/svg+xml"),
            "a.py": telling.text(EVIL, "text/x-python"),
        }
        for name, part in kinds_of.items():
            for query in ("", "?as=source"):
                shown = look(part, name, query)
                assert "<script" not in shown, name
                assert "onerror=alert" not in re.sub(r"&lt;.*?&gt;", "", shown), name

    def test_only_the_beginning_of_a_large_file_is_read(self, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[int] = []
        [part] = blobs.store_large([telling.text("a,b\n" * 13_000_000)])  # 52 MB
        beginning_of = blobs.beginning_of
        monkeypatch.setattr(blobs, "beginning_of", lambda part, size: asked.append(size) or beginning_of(part, size))
        monkeypatch.setattr(blobs, "content_of", lambda part: pytest.fail("the whole file was read"))
        for name in ("big.txt", "big.csv", "big.json", "big.md"):
            shown = look(part, name)
            assert "of 52.0 MB. Download the file to see all." in shown
            assert len(shown) < 700_000
        assert max(asked) <= kinds.READ

    def test_a_very_long_line_is_wrapped(self, look: Look) -> None:
        assert '<pre class="wrapped">' in look(telling.text("x = 1;" * 5000, "text/javascript"), "min.js")

    def test_what_is_empty_says_so(self, look: Look) -> None:
        assert words(look(telling.text("", "text/csv"), "t.csv")) == "This file is empty."
        assert words(look(telling.raw(b"", "text/plain"), "t.txt")) == "This file is empty."

    def test_what_cannot_be_shown_says_so(self, look: Look) -> None:
        assert "Download it to open it." in look(telling.raw(b"PK\x03\x04", "application/zip"), "z.zip")


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
    def test_a_text_is_read_in_what_it_is_written_in(self, encoding: str) -> None:
        assert encodings.text_of("Größe;Tiefe\n".encode(encoding)) == "Größe;Tiefe\n"

    def test_what_it_says_it_is_written_in_counts_if_that_holds(self) -> None:
        content = "Глубина".encode("koi8-r")
        assert encodings.text_of(content, "text/plain; charset=koi8-r") == "Глубина"
        assert encodings.text_of("ä".encode(), "text/plain; charset=ascii") == "ä"
        for odd in ("rot13", "zip", "idna", "unicode_escape", "nonsense"):
            assert encodings.text_of(b"\\u0041", f"text/plain; charset={odd}") == "\\u0041"

    def test_half_a_character_at_the_end_is_left_out(self) -> None:
        assert encodings.text_of("aä".encode()[:-1], is_cut=True) == "a"
        assert encodings.text_of("aä".encode()[:-1]) == "aÃ"

    def test_a_table_in_utf_16_is_a_table(self, look: Look) -> None:
        part = telling.raw("Ort\tTiefe\nKöln\t2\n".encode("utf-16"), "text/csv", filename="t.csv")
        assert rows(look(part, "t.csv")) == [["Köln", "2"]]


class TestTables:
    TEXT = "site,depth\nb,10\nA,9\nc,\n"

    def test_rows_are_sorted_up_down_and_not(self, look: Look) -> None:
        part = telling.text(self.TEXT, "text/csv")
        unsorted = [["b", "10"], ["A", "9"], ["c", ""]]
        assert rows(look(part, "t.csv")) == unsorted
        up = look(part, "t.csv", "?as=table&sort=1")
        assert rows(up) == [["A", "9"], ["b", "10"], ["c", ""]]  # by number; what is empty comes last
        assert up.count('aria-sort="ascending"') == 1
        down = look(part, "t.csv", "?as=table&sort=1&down")
        assert rows(down) == [["b", "10"], ["A", "9"], ["c", ""]]
        assert "preview?as=table&sort=1&down" in unescape(up)
        assert rows(look(part, "t.csv", "?as=table&sort=0")) == [["A", "9"], ["b", "10"], ["c", ""]]  # capitals or not

    @pytest.mark.parametrize("sort", ["7", "-1", "9999999999", "x", "²", ""])
    def test_an_odd_order_is_none(self, look: Look, sort: str) -> None:
        assert rows(look(telling.text(self.TEXT, "text/csv"), "t.csv", f"?sort={sort}"))[0] == ["b", "10"]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_the_delimiter_is_found(self, delimiter: str) -> None:
        text = "\n".join(delimiter.join(row) for row in (["a", "b"], ["1.5", '"x,y;z"'], ["2", ""])) + "\n"
        assert tables.table_of(text).rows[0] == ["1.5", "x,y;z"]

    @pytest.mark.parametrize(
        ("cells", "in_order"),
        [
            (["1,5", "10,25", "2"], ["1,5", "2", "10,25"]),
            (["1,000", "999", "12,345.6"], ["999", "1,000", "12,345.6"]),
            (["5 %", "-1", "1e2"], ["-1", "5 %", "1e2"]),
            (["10", "9", "x"], ["10", "9", "x"]),  # words
            (["1" * 50, "2"], ["1" * 50, "2"]),
        ],
    )
    def test_numbers_are_sorted_by_value(self, cells: list[str], in_order: list[str]) -> None:
        text = "n;\n" + "".join(f'"{cell}";\n' for cell in cells)
        assert [row[0] for row in tables.table_of(text, tables.Order(0)).rows] == in_order

    def test_a_table_without_a_head_has_numbered_columns(self) -> None:
        table = tables.table_of("1,2\n3,4\n")
        assert ([column.name for column in table.columns], table.total) == (["Column 1", "Column 2"], 2)

    def test_rows_of_any_length_fit(self) -> None:
        assert tables.table_of("a,b\n1\n1,2,3\n").rows == [["1", "", ""], ["1", "2", "3"]]

    def test_it_says_how_much_is_not_shown(self, look: Look) -> None:
        head = ",".join(f"c{number}" for number in range(50))
        many = f"{head}\n" + (",".join("x" * 50) + "\n") * 1234
        shown = look(telling.text(many, "text/csv"), "t.csv")
        assert "100 of 1,234 rows. Download the file to see all. 10 more columns are not shown." in words(shown)
        assert len(rows(shown)) == 100

    def test_what_is_no_table_is_shown_as_text(self, look: Look) -> None:
        shown = look(telling.text('"' + "x" * 200_000 + '"', "text/csv"), "t.csv")
        assert "This cannot be read as a table. Here is its text." in shown


class TestTrees:
    def test_an_object_is_a_tree_with_its_numbers_as_they_are_written(self, look: Look) -> None:
        text = '{"a": 1.50, "a": 12345678901234567890123, "b": [true, null, "x"], "c": {}}'
        shown = words(look(telling.text(text, "application/json"), "t.json"))
        assert "4 members a: 1.50 a: 12345678901234567890123 b: 3 items 0: true 1: null 2: x c: empty" in shown

    def test_data_is_a_tree_and_its_source_is_set_out(self, look: Look) -> None:
        assert "<details open><summary>" in look({"data": {"a": {"b": 1}}}, "d")
        assert '{ "a" : { "b" : 1 } }' in words(look({"data": {"a": {"b": 1}}}, "d", "?as=source"))

    def test_broken_json_says_where_and_shows_its_text(self, look: Look) -> None:
        shown = words(look(telling.text('{"a": 1,\n "b" 2}', "application/json"), "t.json"))
        assert "This is no valid JSON: line 2, column 6. Here is its text." in shown
        assert '"b" 2 }' in shown

    @pytest.mark.parametrize("deep", [100, 100_000])
    def test_what_is_nested_deeply_ends_somewhere(self, look: Look, deep: int) -> None:
        shown = look(telling.text("[" * deep + "]" * deep, "application/json"), "t.json")
        assert "too deep" in shown
        assert len(shown) < 500_000

    def test_a_large_tree_is_bounded(self) -> None:
        tree = trees.tree_of(json.dumps([[{"a": "x" * 1000}] * 500] * 500))
        assert tree.count("<li") < trees.NODES * 1.2
        assert "… and 300 more." in tree


class TestFrames:
    def test_a_picture_is_shown(self, look: Look) -> None:
        assert '/dot.png/0?look" alt="dot.png"' in look(telling.picture(), "dot.png")

    def test_a_drawing_is_a_picture_with_its_source_never_markup(self, look: Look) -> None:
        part = telling.text('<svg xmlns="http://www.w3.org/2000/svg"><circle/></svg>', "image/svg+xml")
        assert '<img class="preview-picture"' in look(part, "d.svg")
        assert "<circle" not in look(part, "d.svg", "?as=source")

    def test_html_is_framed_in_a_sandbox(self, look: Look) -> None:
        shown = look(telling.text("<h1>Hi</h1>", "text/html"), "page.html")
        assert " sandbox></iframe>" in shown
        assert "<h1>" not in shown

    def test_a_pdf_opens_in_a_frame(self, look: Look) -> None:
        assert "<iframe" in look(telling.raw(b"%PDF", "application/pdf"), "r.pdf")


class TestArtifacts:
    """A whole artifact: its parts, and who may look."""

    def address(self, receipt: telling.Receipt, name: str = "notes.md") -> str:
        return f"/sessions/{receipt.context}/artifacts/{receipt.task}/{name}"

    def test_its_parts_are_shown_and_those_that_follow_wait(self, ada_browser: Client, ada: User, echo: Agent) -> None:
        receipt = telling.begun(ada, echo)
        with telling.ledger.writing(receipt.context) as log:
            telling.work(log, receipt)
            for number in range(5):
                part = telling.text(f"part {number}", filename=f"p{number}.txt")
                telling.chunk(log, receipt, "set", part, append=number > 0)
            telling.chunk(log, receipt, "set", {"url": "javascript:alert(1)", "filename": "away"}, append=True)
            telling.chunk(log, receipt, "set", {"url": "https://there.example/", "filename": "there"}, append=True)
            log.add(telling.EventType.AGENT_COMPLETE, {"artifacts": ["set"]}, task=receipt.task)
            telling.status(log, receipt, "completed", "Done.")
        shown = ada_browser.get(f"{self.address(receipt, 'set')}/look").text
        assert [f"part {number}" in shown for number in range(5)] == [True, True, True, False, False]
        assert shown.count(">Show</button>") == 2
        assert "javascript:" not in shown
        assert 'href="https://there.example/" target="_blank" rel="noopener noreferrer nofollow"' in shown

    @pytest.mark.parametrize("ending", ["/look", "/signature", "/0/preview", "/0"])
    def test_somebody_elses_is_not_found(
        self, ada_browser: Client, bob_browser: Client, finished: telling.Receipt, ending: str
    ) -> None:
        assert ada_browser.get(self.address(finished) + ending).status_code == 200
        assert bob_browser.get(self.address(finished) + ending).status_code == 404
        assert Client().get(self.address(finished) + ending).status_code == 302
        assert ada_browser.get(self.address(finished, "nothing") + ending).status_code == 404

    def test_it_asks_the_database_as_often_for_many_parts_as_for_one(
        self, ada_browser: Client, ada: User, echo: Agent
    ) -> None:
        counts = []
        for number in (1, 30):
            receipt = telling.begun(ada, echo)
            with telling.ledger.writing(receipt.context) as log:
                telling.work(log, receipt)
                for place in range(number):
                    telling.chunk(log, receipt, "set", telling.text("x", filename="x.txt"), append=place > 0)
                log.add(telling.EventType.AGENT_COMPLETE, {"artifacts": ["set"]}, task=receipt.task)
                telling.status(log, receipt, "completed", "Done.")
            with statements() as ran:
                assert ada_browser.get(f"{self.address(receipt, 'set')}/look").status_code == 200
            counts.append(len(ran))
        assert counts[0] == counts[1]
        assert counts[0] <= 8
