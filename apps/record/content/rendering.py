"""The record for people: events in one line, and agents' Markdown and code as safe HTML that loads nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from apps.record.events import JSON, EventType
from apps.record.models import Event


def summarize(event: Event) -> str:
    describe = SUMMARIES.get(EventType(event.type))
    return describe(event.payload) if describe else ""


def summarize_parts(parts: Iterable[JSON]) -> str:
    return " · ".join(filter(None, map(summarize_part, parts)))


def summarize_part(part: JSON) -> str:
    """A part's text, name or kind."""
    if text := part.get("text"):
        return str(text)
    name = part.get("filename") or part.get("url") or part.get("mediaType")
    if stored := part.get("stored"):
        return f"{name or stored['kind']} ({stored['size']:,} bytes)"
    return str(name or ("data" if "data" in part else "raw" if "raw" in part else ""))


def _message(payload: JSON) -> str:
    return summarize_parts(payload["message"]["parts"])


def _status(payload: JSON) -> str:
    said = _message(payload) if payload.get("message") else payload.get("because")
    return f"{payload['state']}: {said}" if said else str(payload["state"])


def _start(payload: JSON) -> str:
    return f"turn {payload['turn']}, attempt {payload['attempt']}"


def _token(payload: JSON) -> str:
    return str(payload.get("text", ""))


def _chunk(payload: JSON) -> str:
    artifact = payload["artifact"]
    name, content = artifact.get("name") or artifact["artifactId"], summarize_parts(artifact["parts"])
    return f"{name}: {content}"


def _result(payload: JSON) -> str:
    return f"{payload['name']} failed" if payload["isError"] else f"{payload['name']} → {payload['result']}"


RATINGS = {5: "Good", 1: "Bad"}
"""The ratings of the pages' thumbs; clients may give those between."""


def _feedback(payload: JSON) -> str:
    rating = RATINGS.get(payload["rating"], f"{payload['rating']} of 5")
    return f"{rating}: {payload['feedback']}" if payload.get("feedback") else rating


def _list_of(key: str, nothing: str) -> Callable[[JSON], str]:
    return lambda payload: ", ".join(payload[key]) or nothing


SUMMARIES: dict[EventType, Callable[[JSON], Any]] = {
    EventType.USER_MESSAGE: _message,
    EventType.AGENT_MESSAGE: _message,
    EventType.AGENT_STATUS: _status,
    EventType.AGENT_START: _start,
    EventType.AGENT_TOKEN_START: lambda payload: payload["name"],
    EventType.AGENT_TOKEN: _token,
    EventType.AGENT_TOKEN_END: _token,
    EventType.AGENT_THOUGHT: _token,
    EventType.AGENT_TOOL_CALL: lambda payload: payload["name"],
    EventType.AGENT_TOOL_RESULT: _result,
    EventType.ARTIFACT_UPDATE: _chunk,
    EventType.AGENT_COMPLETE: _list_of("artifacts", "no artifact"),
    EventType.AGENT_FAILED: lambda payload: payload["code"],
    EventType.AGENT_CANCELLED: _list_of("discarded", "nothing discarded"),
    EventType.FEEDBACK: _feedback,
    EventType.FORK: lambda payload: f"{payload['reason']}, at event {payload['at']}",
    EventType.AGENT_SWITCHED: lambda payload: f"to {payload['slug']}",
    EventType.SESSION_RENAMED: lambda payload: payload["title"],
}


MAX_CACHED = 4_000  # characters of a text whose HTML is cached
MAX_RENDERED = 100_000  # characters; longer text is shown as it is
# A lexer's time may grow with the square of its input, above all in long lines: only what is common is highlighted.
MAX_HIGHLIGHTED = 20_000  # characters of a piece of code
MAX_HIGHLIGHTED_LINE = 400  # characters of a line of it
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
# Wide elements can be scrolled by keyboard.
SET_ATTRIBUTES = {"a": {"target": "_blank"}, "pre": {"tabindex": "0"}, "table": {"tabindex": "0"}}
SCHEMES = {"http", "https", "mailto"}

_formatter = HtmlFormatter(nowrap=True)


def _highlight(code: str, language: str, _: str) -> str:
    """Code in spans for the stylesheet; plain if it is long, or its language is not in LANGUAGES."""
    lexer = _lexer(language.strip())
    if (
        lexer is None
        or len(code) > MAX_HIGHLIGHTED
        or max(map(len, code.splitlines()), default=0) > MAX_HIGHLIGHTED_LINE
    ):
        return escape(code)
    return str(highlight(code, lexer, _formatter))


@lru_cache(maxsize=200)
def _lexer(language: str) -> Lexer | None:
    """The lexer of a language, by any of its names."""
    try:
        found = get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None
    return found if found and found.aliases[0] in LANGUAGES else None


# Raw HTML is escaped; images would tell another server who reads this and when.
_markdown = MarkdownIt(
    "commonmark", {"html": False, "breaks": True, "highlight": _highlight}
).enable(["table", "strikethrough"]).disable("image")  # fmt: skip


def render_markdown(text: str) -> str:
    """Markdown as safe HTML."""
    if len(text) > MAX_RENDERED:
        return render_plain(text)
    return _render_cached(text) if len(text) <= MAX_CACHED else _render(text)


def _render(text: str) -> str:
    return nh3.clean(
        _markdown.render(text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values=SET_ATTRIBUTES,
    )


_render_cached = lru_cache(maxsize=2_000)(_render)


def render_plain(text: str) -> str:
    """Text as it is, line by line."""
    return f'<p class="verbatim">{escape(text)}</p>'


def render_code(code: str, language: str) -> str:
    """A file's text: highlighted if its language is known, otherwise with long lines wrapped."""
    if not language:
        return f'<pre class="wrapped">{escape(code)}</pre>'
    return f"<pre><code>{_highlight(code, language, '') if len(code) <= MAX_RENDERED else escape(code)}</code></pre>"


def json_text(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)


TITLE_LENGTH = 60  # characters
TITLED = 4_000  # characters of a message of which the title is made
GREETING = 12  # characters: a shorter first paragraph or sentence says too little
SENTENCE = re.compile(rf".{{{GREETING},}}?[.!?…](?=\s+\W*[^\Wa-z])|.{{6,}}?[。！？]")


def title_of(message: JSON) -> str:
    """A session's title from its first message: the first sentence, otherwise the name of the first file or ""."""
    texts = (plain_text(part["text"][:TITLED]) for part in message["parts"] if "text" in part)
    if text := next(filter(None, texts), ""):
        return shortened_title(text)
    return next((part["filename"][:TITLE_LENGTH] for part in message["parts"] if part.get("filename")), "")


def shortened_title(text: str) -> str:
    """The first sentence of a text, cut at a word."""
    sentence = SENTENCE.match(text)
    title = (sentence.group() if sentence else text).removesuffix(".")
    return title if len(title) <= TITLE_LENGTH else title[:TITLE_LENGTH].rsplit(" ", 1)[0][:TITLE_LENGTH] + "…"


def plain_text(markdown: str) -> str:
    """The beginning of a Markdown text without its signs, in one line; of code alone, its first line."""
    tokens, text = _markdown.parse(markdown), ""
    for token in tokens:
        if token.type == "inline" and len(text) < GREETING:
            text = f"{text} {_inline_text(token.children or ())}".strip()
    code = (token.content.strip().partition("\n")[0] for token in tokens if token.type in ("fence", "code_block"))
    return text or next(filter(None, code), "") or " ".join(markdown.split())


def _inline_text(tokens: Iterable[Token]) -> str:
    return " ".join("".join(" " if token.type.endswith("break") else token.content for token in tokens).split())
