"""Agents' words as HTML that is safe to insert: Markdown, highlighted code, and nothing that runs or calls home."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

LONGEST = 100_000  # characters of a text that are laid out; a longer one is shown as it is
TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "span": {"class"}, "code": {"class"}}
SCHEMES = {"http", "https", "mailto"}

_formatter = HtmlFormatter(nowrap=True)


def _highlighted(code: str, language: str, _: str) -> str:
    """Code in spans that the stylesheet colours; plain where the language is unknown."""
    try:
        lexer = get_lexer_by_name(language.strip()) if language.strip() else None
    except ClassNotFound:
        lexer = None
    return str(highlight(code, lexer, _formatter)) if lexer else escape(code)


# Raw HTML in a text is shown, not obeyed; pictures would tell another server who reads this and when.
_markdown = MarkdownIt(
    "commonmark", {"html": False, "breaks": True, "highlight": _highlighted}
).enable(["table", "strikethrough"]).disable("image")  # fmt: skip


def laid_out(text: str) -> str:
    """Markdown as safe HTML."""
    if len(text) > LONGEST:
        return verbatim(text)
    return nh3.clean(
        _markdown.render(text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def verbatim(text: str) -> str:
    """Text as it was written, line for line."""
    return f'<p class="verbatim">{escape(text)}</p>'


def coloured(code: str, language: str) -> str:
    """A file's text: highlighted where its language is known, otherwise as it was written, with long lines wrapped."""
    if not language:
        return f'<pre class="wrapped">{escape(code)}</pre>'
    return f"<pre><code>{_highlighted(code, language, '') if len(code) <= LONGEST else escape(code)}</code></pre>"


def json_text(value: Any) -> str:
    """A value as people read JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)
