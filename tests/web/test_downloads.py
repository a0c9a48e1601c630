"""Files of a conversation: whole, under their names, and unable to do anything in our name."""

import pytest

from tests.web import telling

HTML = "<h1>Hi</h1><script>alert(1)</script>"


@pytest.fixture
def get(ada_browser, ada, echo):
    """Fetch the one part of an artifact of that name."""

    def fetch(part, name="file", ending=""):
        receipt = telling.finished(ada, echo, {name: part})
        return ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/{name}/0{ending}")

    return fetch


def test_a_file_comes_as_it_was_made_under_its_name(get):
    answer = get(telling.raw(b"%PDF-1.7", "application/pdf", filename="Bericht für Ada.pdf"))
    assert answer.content == b"%PDF-1.7"
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"] == "attachment; filename*=utf-8''Bericht%20f%C3%BCr%20Ada.pdf"


def test_without_a_file_name_the_artifact_gives_it(get):
    assert 'filename="notes.txt"' in get(telling.text("n"), "notes.txt")["Content-Disposition"]


@pytest.mark.parametrize("ending", ["", "?look"])
def test_no_file_is_guessed_at_or_runs(get, ending):
    answer = get(telling.text(HTML, "text/html"), "page.html", ending)
    assert answer["X-Content-Type-Options"] == "nosniff"
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "sandbox" in policy
    assert "script-src" not in policy


@pytest.mark.parametrize(
    ("media_type", "disposition"),
    [
        ("image/png", "inline"),
        ("application/pdf", "inline"),
        ("text/html", "inline"),  # inside its sandbox
        ("application/xhtml+xml", "attachment"),
        ("application/octet-stream", "attachment"),
        ("text/javascript", "attachment"),
    ],
)
def test_only_what_is_harmless_opens_in_the_browser(get, media_type, disposition):
    answer = get(telling.raw(b"x", media_type), ending="?look")
    assert answer["Content-Disposition"].startswith(disposition)


@pytest.mark.parametrize("odd", ["text/html\r\nSet-Cookie: a=b", "nonsense", "", "text/html; charset=utf-7", "a/b/c"])
def test_an_odd_media_type_is_no_way_in(get, odd):
    answer = get(telling.raw(b"x", odd))
    assert answer.status_code == 200
    assert answer["Content-Type"] in ("application/octet-stream", "text/html; charset=utf-8")
    assert "Set-Cookie" not in answer


def test_data_comes_as_json(get):
    answer = get({"data": {"ä": [1, 2]}}, "table")
    assert answer["Content-Type"] == "application/json"
    assert answer.json() == {"ä": [1, 2]}


@pytest.mark.parametrize("path", ["nobody/0", "notes.md/1", "notes.md/9999"])
def test_what_is_not_there_is_not_found(ada_browser, finished, path):
    answer = ada_browser.get(f"/sessions/{finished.context}/artifacts/{finished.task}/{path}")
    assert answer.status_code == 404


def test_an_artifact_may_have_any_id(get):
    assert get(telling.text("x"), "a/b c?d#e%2F".replace("?", "%3F").replace("#", "%23")).status_code in (200, 404)


class TestPreviews:
    def look(self, get, part, name):
        answer = get(part, name, "/preview")
        assert answer.status_code == 200
        return answer.text

    def test_a_picture_is_shown(self, get):
        assert '/dot.png/0?look" alt="dot.png"' in self.look(get, telling.picture(), "dot.png")

    def test_markdown_is_laid_out(self, get):
        assert "<h1>Notes</h1>" in self.look(get, telling.text("# Notes", "text/markdown"), "n.md")

    def test_code_is_coloured_by_its_name(self, get):
        assert '<span class="k">def</span>' in self.look(get, telling.text("def f(): 1", "text/x-python"), "f.py")

    def test_plain_text_is_plain(self, get):
        assert "&lt;b&gt;" in self.look(get, telling.text("<b>"), "answer")

    def test_html_is_framed_in_a_sandbox(self, get):
        shown = self.look(get, telling.text(HTML, "text/html"), "page.html")
        assert "<script" not in shown
        assert " sandbox></iframe>" in shown

    def test_data_is_laid_out(self, get):
        assert "{" in self.look(get, {"data": {"a": 1}}, "d")

    def test_a_pdf_opens_in_a_frame(self, get):
        assert "<iframe" in self.look(get, telling.raw(b"%PDF", "application/pdf"), "r.pdf")

    def test_what_cannot_be_shown_says_so(self, get):
        assert "Download it to open it." in self.look(get, telling.raw(b"PK", "application/zip"), "z.zip")

    def test_text_that_is_no_utf8_is_shown_as_well_as_it_goes(self, get):
        assert "\ufffd" in self.look(get, telling.raw(b"\xff\xfe", "text/csv"), "t.csv")
