"""MCP Apps (SEP-1865, 2026-01-26): pages of a tool server that show the results of its tools.

A host shows such a page in a frame without an origin, under the policy of `content_security_policy`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

EXTENSION = "io.modelcontextprotocol/ui"
MEDIA_TYPE = "text/html;profile=mcp-app"
SCHEME = "ui://"
MAX_PAGE_BYTES = 4 * 1024**2
MAX_RESULT_BYTES = 1024**2  # as JSON
MAX_URI_LENGTH = 1000  # characters
MAX_DOMAINS = 20  # of a kind

type Json = dict[str, Any]

DOMAINS = {
    "connectDomains": ("connect-src",),
    "resourceDomains": ("script-src", "style-src", "img-src", "font-src", "media-src"),
    "frameDomains": ("frame-src",),
    "baseUriDomains": ("base-uri",),
}
"""The directives that each list of a page's `csp` opens."""
ALWAYS = {
    "default-src": ["'none'"],
    "script-src": ["'unsafe-inline'"],
    "style-src": ["'unsafe-inline'"],
    "img-src": ["data:"],
    "font-src": [],
    "media-src": ["data:"],
    "connect-src": [],
    "frame-src": [],
    "base-uri": [],
    "object-src": [],
    "form-action": [],
}
ORIGIN = re.compile(r"(?:https|wss)://(\*\.)?((?:[a-z0-9-]+\.)+(?!0x)[a-z0-9-]*[a-z][a-z0-9-]*)(?::(\d{1,5}))?")
"""A name with a dot, not an address: pages reach nothing on the reader's machine or network by its number."""
NEAR = (".localhost", ".local", ".internal")
"""Names of the reader's machine and network."""
MAX_PORT = 65535
MAX_POLICY_BYTES = 4096
SANDBOX = "allow-scripts allow-forms"
"""Forms for their scripts alone: they are sent nowhere."""


class NoApp(Exception):
    """An app that cannot be shown; its text is a sentence for people."""


def page_in(uri: str, read: Mapping[str, Any]) -> tuple[str, Json]:
    """The HTML and the wishes (`csp`, `prefersBorder`) in the answer to `resources/read`. Raises NoApp."""
    contents = [one for one in read.get("contents") or () if isinstance(one, dict)]
    found = next((one for one in contents if one.get("uri") == uri), None) or next(iter(contents), {})
    given = str(found.get("mimeType", ""))
    if given.replace(" ", "").lower() != MEDIA_TYPE:
        raise NoApp(f"Its page has the type {given[:100] or 'of nothing'}, not {MEDIA_TYPE}.")
    content = _content(found)
    if len(content) > MAX_PAGE_BYTES:
        raise NoApp(f"Its page has more than {MAX_PAGE_BYTES // 1024**2} MB.")
    try:
        html = content.decode()
    except UnicodeDecodeError:
        raise NoApp("Its page is not UTF-8.") from None
    return html, _wishes(found)


def _content(found: Mapping[str, Any]) -> bytes:
    text, blob = found.get("text"), found.get("blob")
    if isinstance(text, str):
        return text.encode(errors="replace")
    try:
        return base64.b64decode(str(blob or ""), validate=True)
    except (binascii.Error, ValueError):
        raise NoApp("Its page cannot be read.") from None


def _wishes(found: Mapping[str, Any]) -> Json:
    """Raises NoApp."""
    match found.get("_meta"):
        case {"ui": dict(wishes)}:
            csp = wishes.get("csp")
            lists = {name: _origins(csp.get(name)) for name in DOMAINS} if isinstance(csp, dict) else {}
            kept: Json = {"csp": {name: known for name, known in lists.items() if known}}
            if len(content_security_policy(kept["csp"])) > MAX_POLICY_BYTES:
                raise NoApp(f"Its page declares more names than a policy of {MAX_POLICY_BYTES // 1024} kB holds.")
            return kept | {"prefersBorder": wishes.get("prefersBorder") is not False}
    return {"csp": {}, "prefersBorder": True}


def _origins(given: Any) -> list[str]:
    """Those of a list that are safe in a policy: https and wss, by name, perhaps with `*.` for subdomains."""
    named = [one.lower().rstrip("/") for one in given if isinstance(one, str)] if isinstance(given, list) else []
    return [one for one in dict.fromkeys(named) if len(one) <= 300 and _is_public(one)][:MAX_DOMAINS]


def _is_public(origin: str) -> bool:
    match = ORIGIN.fullmatch(origin)
    return match is not None and not match[2].endswith(NEAR) and int(match[3] or 0) <= MAX_PORT


def content_security_policy(csp: Mapping[str, Iterable[str]]) -> str:
    """The Content-Security-Policy of a page by its `csp`: nothing from outside but what it declares."""
    allowed = {directive: list(sources) for directive, sources in ALWAYS.items()}
    for name, directives in DOMAINS.items():
        for directive in directives:
            allowed[directive] += csp.get(name, ())
    lines = [f"{directive} {' '.join(sources) or "'none'"}" for directive, sources in allowed.items()]
    return "; ".join([*lines, "frame-ancestors 'self'", f"sandbox {SANDBOX}"])


def host_of(label: str) -> str:
    """A server's name for the readers of its pages, by its label: the rest of a URL may have a key."""
    return urlsplit(label).hostname or "a program"


def check_result(result: Json) -> None:
    """Raises NoApp if a result is too large for its page."""
    if len(json.dumps(result, ensure_ascii=False).encode(errors="replace")) > MAX_RESULT_BYTES:
        raise NoApp(f"The result is larger than {MAX_RESULT_BYTES // 1024**2} MB.")


def is_for_pages(meta: Mapping[str, Any] | None) -> bool:
    """May pages call a tool with this `_meta`?"""
    match meta:
        case {"ui": {"visibility": list(visible)}}:
            return "app" in visible
    return True
