"""Pictures in agents' Markdown: the session's own at once, others' by a copy that the reader asks for."""

import base64
import datetime
import re
from html import unescape
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

import outbound
from apps.features.sharing import shares
from apps.web.sessions.pictures import surroundings_in
from tests.outbound.receiving import answer, server
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def test_a_picture_is_found_by_its_file_name(ada, echo, ada_browser, bob_browser):
    report, chart = telling.text("![a](chart.png)", "text/markdown"), telling.raw(telling.PNG, "image/png")
    files = {"report": report, "chart.png": chart, "notes.png": telling.text("no picture")}
    made = telling.finished(ada, echo, files)
    look = ada_browser.get(f"/sessions/{made.context}/artifacts/{made.task}/report/look").content.decode()
    address = unescape(re.search(r'<img src="([^"]+)" alt="a"', look)[1])
    shown = ada_browser.get(address, follow=True)
    assert shown.content == telling.PNG
    assert shown["Content-Type"] == "image/png"
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


async def copy_through(browser, address):
    client = AsyncClient()
    client.cookies = browser.cookies
    return await client.get(address)


@pytest.fixture
def allowed(settings):
    outbound.configure(["127.0.0.0/8"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


def copy_address(context, url):
    """As a page has it."""
    return surroundings_in(context, "m1").remote_picture(url)


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (telling.PNG, "image/png", 200),
        (SVG, "image/svg+xml", 200),
        (b"<script>alert(1)</script>", "text/html", 502),
        (b"<script>alert(1)</script>", "image/png", 502),
        (b"\x89PNG" + b"0" * 9_000_000, "image/png", 502),
    ],
)
def test_a_copy_is_a_picture_that_runs_nothing(ada, echo, ada_browser, allowed, content, media_type, status):
    made = telling.finished(ada, echo, {})

    async def fetch():
        async with server(answer(content, "200 OK", f"Content-Type: {media_type}")) as at:
            return await copy_through(ada_browser, copy_address(made.context, at.url))

    copy = async_to_sync(fetch)()
    assert copy.status_code == status
    assert "default-src 'none'" in copy["Content-Security-Policy"]
    assert "sandbox" in copy["Content-Security-Policy"]
    assert copy["X-Content-Type-Options"] == "nosniff"
    assert (copy.content == content) is (status == 200)


def test_no_copy_is_made_of_another_address(ada, bob, echo, ada_browser, bob_browser, settings):
    made, other = telling.finished(ada, echo, {}), telling.finished(ada, echo, {})
    address = copy_address(made.context, "http://127.0.0.1:9/x.png")
    assert ada_browser.get(address).status_code == 502, "a private network is not called"
    assert bob_browser.get(address).status_code == 404
    assert ada_browser.get(address.replace(str(made.context), str(other.context))).status_code == 404
    forged = f"/sessions/{made.context}/pictures/remote?of={quote('http://127.0.0.1/')}"
    assert ada_browser.get(forged).status_code == 404
    settings.REMOTE_PICTURES = False
    assert ada_browser.get(address).status_code == 404
    assert copy_address(made.context, "http://far.example/x.png") == ""


def test_the_frame_of_diagrams_is_sandboxed(client):
    frame = client.get("/diagrams")
    policy = frame["Content-Security-Policy"]
    for rule in ("default-src 'none'", "sandbox allow-scripts", "frame-ancestors 'self'"):
        assert rule in policy
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert frame["X-Frame-Options"] == "SAMEORIGIN"


def test_a_redirect_is_followed_where_calls_may_go(ada, echo, ada_browser, allowed):
    made = telling.finished(ada, echo, {})

    async def fetch(location):
        async def redirects(request, writer):
            is_first = b"GET /moved" not in request
            picture = answer(telling.PNG, "200 OK", "Content-Type: image/png")
            writer.write(answer(b"", "302 Found", f"Location: {location}") if is_first else picture)
            await writer.drain()

        async with server(redirects) as at:
            return await copy_through(ada_browser, copy_address(made.context, at.url))

    assert async_to_sync(fetch)("/moved").content == telling.PNG
    assert async_to_sync(fetch)("http://10.0.0.1/moved").status_code == 502


def test_a_shared_page_has_the_pictures_that_are_shared(ada, echo, client):
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
