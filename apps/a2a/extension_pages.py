"""The pages that describe the platform's own A2A extensions, each at the extension's URI."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe


@require_safe
def extension_page(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """`GET /ext/<name>/v<version>`, as text that people and programs can read."""
    text = _pages().get(f"{name}-v{version}")
    if text is None:
        raise Http404
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "public, max-age=3600"
    return response


@cache
def _pages() -> dict[str, str]:
    return {page.stem: page.read_text() for page in settings.EXTENSION_PAGES.glob("*.md")}
