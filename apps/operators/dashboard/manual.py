"""docs/running of this version, for operators: `/admin/manual/runbooks/no-worker.md`."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Sequence
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import mark_safe
from django.utils.text import slugify
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin

_parser = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=3, slug_func=slugify)


@require_safe
def page(request: HttpRequest, path: str) -> HttpResponse:
    """Links that lead out of the folder are plain text, because only this folder is installed."""
    root = settings.MANUAL_PAGES
    pages = {one.relative_to(root).as_posix(): one for one in root.rglob("*.md")}
    if path not in pages:
        raise Http404
    _, title, _, *content = _parser.parse(pages[path].read_text())
    for token in content:
        _cut_links(token.children or [], posixpath.dirname(path), pages)
    text = mark_safe(_parser.renderer.render(content, _parser.options, {}))  # noqa: S308 our own
    context = {**admin.site.each_context(request), "title": title.content, "text": text}
    return TemplateResponse(request, "admin/dashboard/manual.html", context)


def _cut_links(tokens: Sequence[Token], folder: str, pages: Container[str]) -> None:
    for at, token in enumerate(tokens):
        if token.type != "link_open":
            continue
        to = urlsplit(str(token.attrs["href"]))
        is_page = posixpath.normpath(posixpath.join(folder, to.path)) in pages
        if to.path and not to.scheme and not is_page:
            close = next(one for one in tokens[at:] if one.type == "link_close")
            token.tag, token.attrs, close.tag = "span", {}, "span"
