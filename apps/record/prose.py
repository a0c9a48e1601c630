"""Agents' words as HTML that is safe to insert: Markdown, highlighted code, and nothing that runs or calls home."""

from __future__ import annotations

import json
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

SHORT = 4_000  # characters of a text whose layout is kept in memory for a while
LONGEST = 100_000  # characters of a text that are laid out; a longer one is shown as it is
# A lexer's time may grow with the square of what it reads, above all in long lines: only what is common is coloured.
MOST_COLOURED = 20_000  # characters of a piece of code
LONGEST_LINE = 400  # characters of a line of it
LANGUAGES = {  # by their first names in Pygments
    "bash", "c", "console", "cpp", "csharp", "css", "diff", "docker", "go", "graphql", "html", "http", "ini", "java",
    "javascript", "json", "kotlin", "lua", "make", "markdown", "nginx", "perl", "php", "powershell", "protobuf",
    "pycon", "python", "ruby", "rust", "scala", "splus", "sql", "swift", "toml", "typescript", "xml", "yaml",
}  # fmt: skip
TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "span": {"class"}, "code": {"class"}}
# What may be wider than its place is moved by keyboard, too.
SET = {"a": {"target": "_blank"}, "pre": {"tabindex": "0"}, "table": {"tabindex": "0"}}
SCHEMES = {"http", "https", "mailto"}

_formatter = HtmlFormatter(nowrap=True)


def _highlighted(code: str, language: str, _: str) -> str:
    """Code in spans that the stylesheet colours; plain where its language is not in LANGUAGES, or there is much."""
    lexer = _lexer(language.strip())
    if lexer is None or len(code) > MOST_COLOURED or max(map(len, code.splitlines()), default=0) > LONGEST_LINE:
        return escape(code)
    return str(highlight(code, lexer, _formatter))


@lru_cache(maxsize=200)
def _lexer(language: str) -> Lexer | None:
    """Of a language, by any of its names."""
    try:
        found = get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None
    return found if found and found.aliases[0] in LANGUAGES else None


# Raw HTML in a text is shown, not obeyed; pictures would tell another server who reads this and when.
_markdown = MarkdownIt(
    "commonmark", {"html": False, "breaks": True, "highlight": _highlighted}
).enable(["table", "strikethrough"]).disable("image")  # fmt: skip


def laid_out(text: str) -> str:
    """Markdown as safe HTML."""
    if len(text) > LONGEST:
        return verbatim(text)
    return _remembered(text) if len(text) <= SHORT else _rendered(text)


def _rendered(text: str) -> str:
    return nh3.clean(
        _markdown.render(text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values=SET,
    )


_remembered = lru_cache(maxsize=2_000)(_rendered)  # what is read is read again soon: by another tab, or after a reload


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
