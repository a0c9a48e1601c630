"""Downloads keep their content and names, and cannot act on our origin."""

import io

import pikepdf
import pytest
from asgiref.sync import sync_to_async

from apps.record.content import blobs
from apps.web.previews import pdf
from tests.browser import hostile
from tests.web import telling

HTML = "<h1>Hi</h1><script>alert(1)</script>"


@pytest.fixture
def get(ada_browser, ada, echo):
    def fetch(part, name="file", ending=""):
        receipt = telling.finished(ada, echo, {name: part})
        return ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/{name}/0{ending}")

    return fetch


def test_a_file_comes_as_it_was_made_under_its_name(get):
    answer = get(telling.raw(b"%PDF-1.7", "application/pdf", filename="Bericht für Ada.pdf"))
    assert answer.content == b"%PDF-1.7"
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"] == "attachment; filename*=utf-8''Bericht%20f%C3%BCr%20Ada.pdf"
    for encoding, told in {"utf-8": "utf-8", "latin-1": "windows-1252", "utf-16": "utf-16"}.items():
        answer = get(telling.raw("ä".encode(encoding), "text/plain"), ending="?look")
        assert answer["Content-Type"] == f"text/plain; charset={told}", encoding


def test_no_file_runs_and_only_what_is_harmless_opens_in_the_browser(get):
    for ending in ["", "?look"]:
        answer = get(telling.text(HTML, "text/html"), "page.html", ending)
        assert answer["X-Content-Type-Options"] == "nosniff", ending
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy, ending
        assert "sandbox" in policy, ending
        assert "script-src" not in policy, ending
        assert answer["X-DNS-Prefetch-Control"] == "off", ending
    for content, media_type, disposition in [
        (telling.PNG, "image/png", "inline"),
        (hostile.pdf(), "application/pdf", "inline"),
        (b"x", "text/html", "inline"),
        (b"x", "application/xhtml+xml", "attachment"),
        (b"x", "application/octet-stream", "attachment"),
        (b"x", "text/javascript", "attachment"),
    ]:
        answer = get(telling.raw(content, media_type), ending="?look")
        assert answer["Content-Disposition"].startswith(disposition), content
        assert answer["Content-Type"].startswith(media_type), content
    for odd in ["text/html\r\nSet-Cookie: a=b", "nonsense", "", "text/html; charset=utf-7", "a/b/c"]:
        answer = get(telling.raw(b"x", odd))
        assert answer.status_code == 200, odd
        assert answer["Content-Type"] in ("application/octet-stream", "text/html; charset=utf-8"), odd
        assert "Set-Cookie" not in answer, odd


def test_what_is_not_there_is_not_found(ada_browser, finished):
    for path in ["nobody/0", "notes.md/1", "notes.md/9999"]:
        answer = ada_browser.get(f"/sessions/{finished.context}/artifacts/{finished.task}/{path}")
        assert answer.status_code == 404, path


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


def locked(content: bytes, password: str) -> bytes:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(written, encryption=pikepdf.Encryption(user=password, owner="owner"))
    return written.getvalue()


def packed(content: bytes) -> bytes:
    """A PDF with compressed object streams, so that its words cannot be searched."""
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(written, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return written.getvalue()


def test_a_pdf_that_is_looked_at_does_nothing_and_is_downloaded_as_it_was_made(get):
    for made in [lambda pdf: pdf, packed, lambda pdf: locked(pdf, "")]:
        content = made(hostile.pdf())
        assert get(telling.raw(content, "application/pdf"), "sheet").content == content, made
        with pikepdf.open(io.BytesIO(get(telling.raw(content, "application/pdf"), "sheet", "?look").content)) as shown:
            assert len(shown.pages) == 1, made
            words = " ".join(str(one.unparse(resolved=True)) for one in shown.objects)
        for active in ("JavaScript", "/JS", "OpenAction", "/AA", "SubmitForm", "alert"):
            assert active not in words, made
        assert "/URI" in words, made


UNCLEAR = hostile.pdf().replace(b"/Type /Catalog", b"/Type /Catalog /O#7genAction << /S /Named /N /Print >>")


def test_a_pdf_that_cannot_be_shown_or_takes_too_much_says_what_to_do(get, monkeypatch):
    for content in [b"%PDF-1.7", b"%PDF-1.7" + b"\0" * 1000, locked(hostile.pdf(), "secret"), UNCLEAR]:
        answer = get(telling.raw(content, "application/pdf"), "sheet", "?look")
        assert answer.status_code == 422, content
        assert answer.content == b"This PDF cannot be shown here. Download it to read it.", content
        assert answer["Cache-Control"] == "private, no-cache", content
    monkeypatch.setattr(pdf, "SECONDS", 0.001)
    assert get(telling.raw(hostile.pdf(), "application/pdf"), "sheet", "?look").status_code == 422
    monkeypatch.undo()
    monkeypatch.setattr(pdf, "MOST_PDF_BYTES", 100)
    assert get(telling.raw(hostile.pdf(), "application/pdf"), "sheet", "?look").status_code == 422


def test_what_prints_or_leads_out_by_a_press_is_taken_out_and_pages_can_be_turned(get):
    acts = b"/Annots [<< /A << /S /Named /N /Print >> >> << /A << /S /Named /N /NextPage >> >> 7 0 R 8 0 R]"
    content = hostile.pdf().replace(b"/Annots [7 0 R 8 0 R]", acts)
    shown = get(telling.raw(content, "application/pdf"), "sheet", "?look").content
    with pikepdf.open(io.BytesIO(shown)) as document:
        print_, turn, *_ = [one.A for one in document.pages[0].Annots]
    assert "/S" not in print_
    assert turn.S == "/Named"
