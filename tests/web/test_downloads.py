"""Files of a conversation: whole, under their names, and unable to do anything in our name."""

import io

import pikepdf
import pytest
from asgiref.sync import sync_to_async

from apps.conversations import blobs
from apps.web.previews import quiet
from tests.browser import hostile
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
    assert answer["X-DNS-Prefetch-Control"] == "off"


@pytest.mark.parametrize(
    ("content", "media_type", "disposition"),
    [
        (telling.PNG, "image/png", "inline"),
        (hostile.pdf(), "application/pdf", "inline"),
        (b"x", "text/html", "inline"),  # inside its sandbox
        (b"x", "application/xhtml+xml", "attachment"),
        (b"x", "application/octet-stream", "attachment"),
        (b"x", "text/javascript", "attachment"),
    ],
)
def test_only_what_is_harmless_opens_in_the_browser(get, content, media_type, disposition):
    answer = get(telling.raw(content, media_type), ending="?look")
    assert answer["Content-Disposition"].startswith(disposition)
    assert answer["Content-Type"].startswith(media_type)


@pytest.mark.parametrize("media_type", ["image/png", "image/svg+xml", "application/pdf", "video/mp4"])
def test_what_is_not_what_it_says_is_bytes_to_download(get, media_type):
    answer = get(telling.raw(HTML.encode(), media_type), ending="?look")
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")


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


@pytest.mark.django_db(transaction=True)
async def test_a_file_that_is_kept_on_disk_is_read_while_it_is_sent(ada_at_work, ada, echo, monkeypatch):
    content = bytes(range(256)) * 4000
    [part] = await sync_to_async(blobs.store_large)([telling.raw(content, "application/x-data")])
    receipt = await sync_to_async(telling.finished)(ada, echo, {"data": part})
    monkeypatch.setattr(blobs, "content_of", lambda part: pytest.fail("the whole file was read"))
    answer = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/data/0")
    pieces = [piece async for piece in answer.streaming_content]
    assert b"".join(pieces) == content
    assert len(pieces) > 2
    assert answer["Content-Length"] == str(len(content))
    assert answer["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("content", "encoding"),
    [("ä".encode(), "utf-8"), ("ä".encode("latin-1"), "windows-1252"), ("ä".encode("utf-16"), "utf-16")],
)
def test_a_text_says_what_it_is_written_in(get, content, encoding):
    answer = get(telling.raw(content, "text/plain"), ending="?look")
    assert answer["Content-Type"] == f"text/plain; charset={encoding}"


def test_a_pdf_is_in_a_sandbox_of_its_own(get):
    policy = get(telling.raw(hostile.pdf(), "application/pdf"), ending="?look")["Content-Security-Policy"]
    assert policy == "default-src 'none'; sandbox"


def locked(content: bytes, password: str) -> bytes:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(written, encryption=pikepdf.Encryption(user=password, owner="owner"))
    return written.getvalue()


def packed(content: bytes) -> bytes:
    """With its objects in compressed streams, where no search finds a word of them."""
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(written, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return written.getvalue()


@pytest.mark.parametrize("made", [lambda pdf: pdf, packed, lambda pdf: locked(pdf, "")])
def test_a_pdf_that_is_looked_at_does_nothing_and_is_downloaded_as_it_was_made(get, made):
    content = made(hostile.pdf())
    assert get(telling.raw(content, "application/pdf"), "sheet").content == content
    with pikepdf.open(io.BytesIO(get(telling.raw(content, "application/pdf"), "sheet", "?look").content)) as shown:
        assert len(shown.pages) == 1
        words = " ".join(str(one.unparse(resolved=True)) for one in shown.objects)
    for active in ("JavaScript", "/JS", "OpenAction", "/AA", "SubmitForm", "alert"):
        assert active not in words
    assert "/URI" in words  # a link is followed by whoever presses it


UNCLEAR = hostile.pdf().replace(b"/Type /Catalog", b"/Type /Catalog /O#7genAction << /S /Named /N /Print >>")


@pytest.mark.parametrize("content", [b"%PDF-1.7", b"%PDF-1.7" + b"\0" * 1000, locked(hostile.pdf(), "secret"), UNCLEAR])
def test_a_pdf_that_cannot_be_shown_says_what_to_do(get, content):
    answer = get(telling.raw(content, "application/pdf"), "sheet", "?look")
    assert answer.status_code == 422
    assert answer.content == b"This PDF cannot be shown here. Download it to read it."
    assert answer["Cache-Control"] == "private, no-cache"


def test_a_pdf_that_takes_too_long_or_too_much_is_not_shown(get, monkeypatch):
    monkeypatch.setattr(quiet, "SECONDS", 0.001)
    assert get(telling.raw(hostile.pdf(), "application/pdf"), "sheet", "?look").status_code == 422
    monkeypatch.undo()
    monkeypatch.setattr(quiet, "MOST_BYTES", 100)
    assert get(telling.raw(hostile.pdf(), "application/pdf"), "sheet", "?look").status_code == 422


def test_what_prints_or_leads_out_by_a_press_is_taken_out_and_pages_can_be_turned(get):
    acts = b"/Annots [<< /A << /S /Named /N /Print >> >> << /A << /S /Named /N /NextPage >> >> 7 0 R 8 0 R]"
    content = hostile.pdf().replace(b"/Annots [7 0 R 8 0 R]", acts)
    shown = get(telling.raw(content, "application/pdf"), "sheet", "?look").content
    with pikepdf.open(io.BytesIO(shown)) as document:
        print_, turn, *_ = [one.A for one in document.pages[0].Annots]
    assert "/S" not in print_
    assert turn.S == "/Named"
