"""Checks of what people see first: the sign-in page, with its styles and scripts."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import re
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from django.conf import settings

from apps.operators.doctor import calls
from apps.operators.doctor.calls import Reply
from apps.operators.doctor.examination import Finding, Patient, ok, problem
from parley.outbound import OutboundError

MOST_REDIRECTS = 10
FILES = ("stylesheet", "modulepreload", "icon", "apple-touch-icon", "manifest")  # kinds of links
HASHED = re.compile(r"\.([0-9a-f]{12})\.\w+\Z")  # the end of a collected file's name: MD5 of its content
SCRIPTS = ("text/javascript", "application/javascript")
OK = 200


def sign_in_page(patient: Patient) -> Finding:
    found = _page(patient)
    return found if isinstance(found, Finding) else ok(f"The page is at {found.url}.")


def _page(patient: Patient) -> Reply | Finding:
    """What a browser shows at the public address, or why it shows nothing."""
    url, been = f"{patient.url}/", set[str]()
    while url not in been and len(been) < MOST_REDIRECTS:
        been.add(url)
        reply = calls.get(patient, url)
        if not reply.location:
            return _refused(reply) or reply
        if urlsplit(reply.location)[:2] != urlsplit(patient.url)[:2]:
            advice = f"Set PUBLIC_BASE_URL of the web processes to {patient.url}, or mend the proxy's redirect."
            return problem(f"{url} leads away, to {reply.location}.", advice)
        url = reply.location
    advice = (
        "Let the proxy send X-Forwarded-Proto, and name it in FORWARDED_ALLOW_IPS: Parley redirects http to https."
        " If it does so, look for a redirect of its own."
    )
    return problem(f"{url} redirects in a circle: browsers show no page.", advice)


def _refused(reply: Reply) -> Finding | None:
    if reply.status == OK and reply.media_type == "text/html":
        return None
    advice = "Look at the web processes' log. If it has no such request, look at the proxy's."
    return problem(f"{reply.url} gives no page (status {reply.status}, {reply.media_type or 'no type'}).", advice)


def page_files(patient: Patient) -> Finding:
    """Whether each file that the page names comes whole, with its type and the content that its name says."""
    page = _page(patient)
    if isinstance(page, Finding):
        return page
    links = _Links()
    links.feed(page.body.decode(errors="replace"))
    urls = [urljoin(page.url, link) for link in dict.fromkeys(links.found)]
    wrong = [sentence for sentence in asyncio.run(_examined(patient, urls)) if sentence]
    if wrong:
        more = f" ({len(wrong)} of {len(urls)} files are wrong.)" if len(wrong) > 1 else ""
        advice = (
            f"Let the proxy pass {settings.STATIC_URL} on to Parley unchanged. If the web processes answer so, run "
            "./manage.py collectstatic --no-input and restart them."
        )
        return problem(wrong[0] + more, advice)
    return ok(f"The page's {len(urls)} files are as they should be.")


class _Links(HTMLParser):
    """The addresses of a page's styles, scripts and icons."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        kinds = (named.get("rel") or "").split()
        if tag == "link" and not set(kinds).isdisjoint(FILES) and (address := named.get("href")):
            self.found.append(address)
        if tag == "script" and (address := named.get("src")):
            self.found.append(address)


async def _examined(patient: Patient, urls: list[str]) -> list[str]:
    """What is wrong with each file; "" if nothing is."""
    async with calls.exchange(patient) as way:

        async def examined(url: str) -> str:
            try:
                return _wrong_file(await calls.fetch(way, url))
            except OutboundError as error:
                return f"{url} cannot be read. {error}"

        return await asyncio.gather(*map(examined, urls))


def _wrong_file(reply: Reply) -> str:
    path = urlsplit(reply.url).path
    if reply.status != OK:
        return f"{path} is not served (status {reply.status}), so pages have no style or do nothing."
    expected = mimetypes.guess_type(path)[0]
    if expected and reply.media_type != expected and {expected, reply.media_type} - {*SCRIPTS}:
        return f"{path} comes as {reply.media_type or 'no type'} instead of {expected}, so browsers ignore it."
    if path.startswith(settings.STATIC_URL):
        named = HASHED.search(path)
        if named is None:
            return "" if settings.DEBUG else f"{path} has no hash in its name: pages may mix old and new files."
        if hashlib.md5(reply.body, usedforsecurity=False).hexdigest()[:12] != named[1]:
            return f"{path} is not the file that the page names: something in between changes it, or keeps an old one."
    return ""
