"""Files of a session: listed, packed, downloaded, signed, shown as pictures, and traced; none acts on our origin."""

import base64
import datetime
import io
import re
import zipfile
from html import unescape
from urllib.parse import quote

import pikepdf
import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from agentkit import Artifact as Made
from agentkit import Completed
from apps.conversations.pages.previews import pdf
from apps.conversations.pages.session.pictures import surroundings_in
from apps.conversations.provenance.traversal import provenance_of
from apps.conversations.public_links import downloads, shares
from apps.engine import accept
from apps.record.content import blobs
from apps.record.models import Artifact
from parley import db, outbound
from tests.browser import hostile
from tests.clients import telling
from tests.outbound.receiving import answer, server
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)
HTML = "<h1>Hi</h1><script>alert(1)</script>"


async def test_zip_has_what_was_delivered_in_pieces(ada_at_work, ada, echo, monkeypatch):
    content = bytes(range(256)) * 16_000
    [large] = await db.run(blobs.store_large, [telling.raw(content, "application/x-data", filename="../../x.bin")])

    def half_done():
        files = {"x": large, "y": {"url": "https://there.example/y", "filename": "y.txt"}}
        receipt = telling.finished(ada, echo, files)
        second = telling.begun(ada, echo, contextId=str(receipt.context))
        with telling.ledger.writing(receipt.context) as log:
            telling.work(log, second)
            telling.chunk(log, second, "half.txt", telling.text("not yet"), last=False)
        return receipt

    receipt = await db.run(half_done)
    small = blobs.content_of
    patched = lambda part: pytest.fail("read whole") if "stored" in part else small(part)  # noqa: E731
    monkeypatch.setattr(blobs, "content_of", patched)
    answer = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts.zip")
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"] == 'attachment; filename="Begin.zip"'
    pieces = [piece async for piece in answer.streaming_content]
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert archive.testzip() is None
    found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {"x.bin": content, "links.txt": b"y.txt\thttps://there.example/y\n"}
    empty = await db.run(telling.finished, ada, echo)
    assert (await ada_at_work.get(f"/sessions/{empty.context}/artifacts.zip")).status_code == 404


def test_names_are_safe_everywhere():
    for wanted, given in [
        ("../../etc/passwd", "passwd"),
        ("a:b?.txt", "a_b_.txt"),
        ("CON.txt", "_CON.txt"),
        ("..", "file"),
        ("dots...", "dots"),
        ("gpj\u202etxt.exe", "gpjtxt.exe"),
        ("x" * 500 + ".csv", "x" * 196 + ".csv"),
    ]:
        assert downloads.UniqueNames().unique(wanted) == given, wanted
    names = downloads.UniqueNames()
    given = [names.unique(one) for one in ("a.txt", "A.TXT", "a.txt", "a (2).txt")]
    assert given == ["a.txt", "A (2).TXT", "a (3).txt", "a (2) (2).txt"], "no two are alike on any system"


@pytest.fixture
def get(ada_browser, ada, echo):
    def fetch(part, name="file", ending=""):
        receipt = telling.finished(ada, echo, {name: part})
        return ada_browser.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/{name}/0{ending}")

    return fetch


def test_file_comes_as_made_under_its_name(get, ada_browser, finished):
    answer = get(telling.raw(b"%PDF-1.7", "application/pdf", filename="Bericht für Ada.pdf"))
    assert (answer.content, answer["Content-Type"]) == (b"%PDF-1.7", "application/pdf")
    assert answer["Content-Disposition"] == "attachment; filename*=utf-8''Bericht%20f%C3%BCr%20Ada.pdf"
    for encoding, told in {"utf-8": "utf-8", "latin-1": "windows-1252", "utf-16": "utf-16"}.items():
        answer = get(telling.raw("ä".encode(encoding), "text/plain"), ending="?look")
        assert answer["Content-Type"] == f"text/plain; charset={told}", encoding
    for path in ["nobody/0", "notes.md/1", "notes.md/9999"]:
        answer = ada_browser.get(f"/sessions/{finished.context}/artifacts/{finished.task}/{path}")
        assert answer.status_code == 404, path


def test_no_file_runs(get):
    for ending in ("", "?look"):
        answer = get(telling.text(HTML, "text/html"), "page.html", ending)
        assert (answer["X-Content-Type-Options"], answer["X-DNS-Prefetch-Control"]) == ("nosniff", "off")
        policy = answer["Content-Security-Policy"]
        assert [rule in policy for rule in ("default-src 'none'", "sandbox", "script-src")] == [True, True, False]


def test_only_harmless_types_open_in_the_browser(get):
    for content, media_type, disposition in [
        (telling.PNG, "image/png", "inline"),
        (hostile.pdf(), "application/pdf", "inline"),
        (b"x", "text/html", "inline"),
        (b"x", "application/xhtml+xml", "attachment"),
        (b"x", "text/javascript", "attachment"),
    ]:
        answer = get(telling.raw(content, media_type), ending="?look")
        assert answer["Content-Disposition"].startswith(disposition), media_type
        assert answer["Content-Type"].startswith(media_type)
    for odd in ["text/html\r\nSet-Cookie: a=b", "nonsense", "text/html; charset=utf-7"]:
        answer = get(telling.raw(b"x", odd))
        assert (answer.status_code, "Set-Cookie" in answer) == (200, False)
        assert answer["Content-Type"] in ("application/octet-stream", "text/html; charset=utf-8")


async def test_stored_file_is_read_while_it_is_sent(ada_at_work, ada, echo, monkeypatch):
    content = bytes(range(256)) * 4000
    [part] = await db.run(blobs.store_large, [telling.raw(content, "application/x-data")])
    receipt = await db.run(telling.finished, ada, echo, {"data": part})
    monkeypatch.setattr(blobs, "content_of", lambda part: pytest.fail("the whole file was read"))
    answer = await ada_at_work.get(f"/sessions/{receipt.context}/artifacts/{receipt.task}/data/0")
    pieces = [piece async for piece in answer.streaming_content]
    assert (b"".join(pieces) == content, len(pieces) > 2) == (True, True)
    assert answer["Content-Length"] == str(len(content))


def saved(content, **how):
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(written, **how)
    return written.getvalue()


def locked(password):
    return saved(hostile.pdf(), encryption=pikepdf.Encryption(user=password, owner="owner"))


PACKED = {"object_stream_mode": pikepdf.ObjectStreamMode.generate}  # its words cannot be searched


PDFS = {"plain": hostile.pdf(), "packed": saved(hostile.pdf(), **PACKED), "locked": locked("")}


@pytest.mark.parametrize("kind", PDFS)
def test_viewed_pdf_does_nothing(get, kind):
    content = PDFS[kind]
    assert get(telling.raw(content, "application/pdf"), "sheet").content == content
    with pikepdf.open(io.BytesIO(get(telling.raw(content, "application/pdf"), "sheet", "?look").content)) as shown:
        assert len(shown.pages) == 1
        words = " ".join(str(one.unparse(resolved=True)) for one in shown.objects)
    active = ("JavaScript", "/JS", "OpenAction", "/AA", "SubmitForm", "alert")
    assert ([one for one in active if one in words], "/URI" in words) == ([], True)


UNCLEAR = hostile.pdf().replace(b"/Type /Catalog", b"/Type /Catalog /O#7genAction << /S /Named /N /Print >>")


def test_unclear_or_large_pdf_is_only_downloaded(get, monkeypatch):
    def viewed(content):
        return get(telling.raw(content, "application/pdf"), "sheet", "?look")

    for content in [b"%PDF-1.7", locked("secret"), UNCLEAR]:
        answer = viewed(content)
        assert (answer.status_code, answer["Cache-Control"]) == (422, "private, no-cache"), content
    for name, most in (("SECONDS", 0.001), ("MOST_PDF_BYTES", 100)):
        with monkeypatch.context() as patched:
            patched.setattr(pdf, name, most)
            assert viewed(hostile.pdf()).status_code == 422, name


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def test_picture_is_found_by_its_file_name(ada, echo, ada_browser, bob_browser):
    report, chart = telling.text("![a](chart.png)", "text/markdown"), telling.raw(telling.PNG, "image/png")
    files = {"report": report, "chart.png": chart, "notes.png": telling.text("no picture")}
    made = telling.finished(ada, echo, files)
    look = ada_browser.get(f"/sessions/{made.context}/artifacts/{made.task}/report/look").text
    address = unescape(re.search(r'<img src="([^"]+)" alt="a"', look)[1])
    shown = ada_browser.get(address, follow=True)
    assert (shown.content, shown["Content-Type"]) == (telling.PNG, "image/png")
    assert bob_browser.get(address).status_code == 404
    assert ada_browser.get(f"/sessions/{made.context}/pictures/named/notes.png").status_code == 404


def test_an_html_preview_has_the_pictures_beside_it(ada, echo, ada_browser):
    page = telling.text('<h1>R</h1><img alt="c" src="chart.svg"><img src="https://far.example/x.png">', "text/html")
    made = telling.finished(ada, echo, {"page.html": page, "chart.svg": telling.raw(SVG, "image/svg+xml")})
    address = f"/sessions/{made.context}/artifacts/{made.task}/page.html/0"
    shown = ada_browser.get(f"{address}?look")
    assert f'src="data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"' in shown.content.decode()
    assert "sandbox" in shown["Content-Security-Policy"]
    assert b'src="chart.svg"' in ada_browser.get(address).getvalue()


@pytest.fixture
def allowed(settings):
    outbound.configure(["127.0.0.0/8"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


def copy_address(context, url):
    """As a page has it."""
    return surroundings_in(context, "m1").remote_picture(url)


PAGE = b"<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("content", "media_type", "location", "status"),
    [
        pytest.param(SVG, "image/svg+xml", "", 200, id="drawing"),
        pytest.param(telling.PNG, "image/png", "/moved", 200, id="moved"),
        pytest.param(telling.PNG, "image/png", "http://10.0.0.1/moved", 502, id="moved inside"),
        pytest.param(PAGE, "image/png", "", 502, id="disguised page"),
        pytest.param(b"\x89PNG" + b"0" * 9_000_000, "image/png", "", 502, id="too large"),
    ],
)
def test_copy_is_a_picture_that_runs_nothing(ada, echo, ada_browser, allowed, content, media_type, location, status):
    async def answers(request, writer):
        moves = location and b"GET /moved" not in request
        moved = answer(b"", "302 Found", f"Location: {location}")
        writer.write(moved if moves else answer(content, "200 OK", f"Content-Type: {media_type}"))
        await writer.drain()

    async def fetch():
        client = AsyncClient()
        client.cookies = ada_browser.cookies
        async with server(answers) as at:
            return await client.get(copy_address(made.context, at.url))

    made = telling.finished(ada, echo, {})
    copy = async_to_sync(fetch)()
    assert (copy.status_code, copy.content == content) == (status, status == 200)
    policy = copy["Content-Security-Policy"]
    assert ("default-src 'none'" in policy, "sandbox" in policy) == (True, True)
    assert copy["X-Content-Type-Options"] == "nosniff"


def test_no_copy_is_made_of_another_address(ada, echo, ada_browser, bob_browser, settings):
    made, other = telling.finished(ada, echo, {}), telling.finished(ada, echo, {})
    address = copy_address(made.context, "http://127.0.0.1:9/x.png")
    assert ada_browser.get(address).status_code == 502, "a private network is not called"
    elsewhere = address.replace(str(made.context), str(other.context))
    forged = f"/sessions/{made.context}/pictures/remote?of={quote('http://127.0.0.1/')}"
    for browser, refused in ((bob_browser, address), (ada_browser, elsewhere), (ada_browser, forged)):
        assert browser.get(refused).status_code == 404
    settings.REMOTE_PICTURES = False
    assert ada_browser.get(address).status_code == 404
    assert copy_address(made.context, "http://far.example/x.png") == ""


def test_frame_of_diagrams_is_sandboxed(client):
    frame = client.get("/diagrams")
    policy = frame["Content-Security-Policy"]
    wanted = ("default-src 'none'", "sandbox allow-scripts", "frame-ancestors 'self'")
    assert [rule in policy for rule in (*wanted, "allow-same-origin", "connect-src")] == [True] * 3 + [False] * 2
    assert frame["X-Frame-Options"] == "SAMEORIGIN"


def test_shared_page_has_the_shared_pictures_alone(ada, echo, client):
    words = "![a](chart.png) ![b](https://127.0.0.1/b.png)"
    made = telling.finished(ada, echo, {"chart.png": telling.raw(telling.PNG, "image/png")}, words)
    day = datetime.timedelta(days=1)
    for with_files in (True, False):
        _, token = shares.create_share(ada.principal, made.context, lifetime=day, with_artifacts=with_files)
        page = client.get(f"/shared/{token}").content.decode()
        shown = re.search(r'<img src="([^"]+)" alt="a"', page)
        assert bool(shown) is with_files
        copy = unescape(re.search(r'data-picture="([^"]+)"', page)[1])
        assert client.get(copy).status_code == 502, "a private network is not called"
        assert client.get(copy.replace(token, "other")).status_code == 404
        if shown:
            assert client.get(unescape(shown[1])).getvalue() == telling.PNG


CSV = telling.raw(b"a,b\n1,2\n", "text/csv", filename="screening.csv")


def address(receipt, name, session=None):
    return f"/sessions/{session or receipt.context}/artifacts/{receipt.task}/{quote(name)}/provenance"


@pytest.fixture
def chain(ada, echo, hello):
    """Three tasks; each refers to the one before."""
    done = []
    given = {
        "Look at this": ("cleaned.csv", echo),
        "Go on": ("effects.json", hello),
        "Write <i>it</i> up": ("a/b report", echo),
    }
    for words, (made, agent) in given.items():
        parts = [{"text": words}, *([CSV] if not done else [])]
        refers = [str(receipt.task) for receipt in done[-1:]]
        receipt = accept.accept(ada.principal, agent, telling.said(words, parts=parts, referenceTaskIds=refers))
        end(begin(receipt.run), Completed("Done.", [Made([{"text": made}], name=made, artifact_id=made)]))
        done.append(receipt)
    return done


def test_page_shows_the_chain_of_sources(ada_browser, ada, chain):
    answer = ada_browser.get(address(chain[2], "a/b report"))
    drawing, _, rest = answer.text.partition('<svg class="graph"')[2].partition('<h2 id="list-title">')
    for receipt in chain:
        for part in (drawing, rest):
            assert f'href="/tasks/{receipt.task}"' in part
    assert f'href="{address(chain[1], "effects.json")}"' in drawing
    assert f'href="/sessions/{chain[0].context}#m-1"' in drawing
    assert "<i>it</i>" not in answer.text
    assert "style=" not in drawing, "the policy of pages would leave it out"
    [copied] = re.findall(r'data-copy="([^"]*)"', answer.text)
    row = Artifact.objects.select_related("task__context").get(task=chain[2].task)
    assert ada_browser.get(unescape(copied)).json() == provenance_of(ada.principal, row).json
