"""The record for people: events in one line, and agents' Markdown and code as safe HTML that loads nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from apps.record.content import flavor, formulas
from apps.record.content.decisions import line_of
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
    EventType.AGENT_READ: lambda payload: f"up to event {payload['until']}",
    EventType.GUARDRAIL: line_of,
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
    EventType.SESSION_FORKED: lambda payload: f"{payload['reason']}, at event {payload['at']}",
    EventType.SESSION_MOVED: lambda payload: "into a project" if payload["project"] else "out of its project",
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
    "pycon", "python", "pytb", "ruby", "rust", "scala", "splus", "sql", "swift", "toml", "typescript", "xml", "yaml",
}  # fmt: skip
TAGS = {
    "a", "blockquote", "br", "code", "del", "details", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input",
    "li", "ol", "p", "pre", "s", "section", "span", "strong", "summary", "sup", "table", "tbody", "td", "th", "thead",
    "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "a": {"aria-label", "class", "href", "id", "target", "title"},
    "code": {"class"},
    "details": {"open"},
    "div": {"class"},
    "input": {"aria-label", "checked"},
    "li": {"class", "id"},
    "ol": {"start"},
    "p": {"class"},
    "section": {"aria-label", "class"},
    "span": {"class"},
    "td": {"class"},
    "th": {"class"},
}
# Wide elements can be scrolled by keyboard. Check boxes show what the agent wrote.
SET_ATTRIBUTES = {
    "input": {"type": "checkbox", "disabled": ""}, "pre": {"tabindex": "0"}, "table": {"tabindex": "0"},
}  # fmt: skip
SCHEMES = {"http", "https", "mailto"}
MOST_FORMULAS = 500  # of a text that are converted
MOST_FOOTNOTES = 500  # references and definitions in a text; with more it is shown as it is

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


# What the sanitizer must not see, or what differs by page, is put in afterwards. These two characters are no
# characters of Unicode: they are removed from texts, so nobody else can write such a mark.
OPEN, CLOSE = "\ufdd0", "\ufdd1"
MARK = re.compile(rf"{OPEN}(\w+){CLOSE}")
KEY = f"{OPEN}key{CLOSE}"
NO_CHARACTERS = re.compile(r"[\ufdd0-\ufdef]")
PICTURE_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=%]*", re.IGNORECASE)


def _nothing(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a text is shown.

    Attributes:
        key: unique within the page, for the ids of footnotes.
        own_picture: the URL of a picture of the session by its file name; "" if there are none here.
        remote_picture: the URL of our copy of a picture of another host; "" if the page only links to it.
    """

    key: str = ""
    own_picture: Callable[[str], str] = _nothing
    remote_picture: Callable[[str], str] = _nothing


NOWHERE = Surroundings()


@dataclass(frozen=True, slots=True)
class Picture:
    source: str
    words: str
    title: str


type Piece = str | Picture


def _piece(env: EnvType, piece: Piece) -> str:
    """A mark for what is put in after sanitizing."""
    env["pieces"].append(piece)
    return f"{OPEN}{len(env['pieces']) - 1}{CLOSE}"


def _formula(_: object, tokens: Sequence[Token], at: int, __: object, env: EnvType) -> str:
    token = tokens[at]
    env["formulas"] += 1
    html = formulas.formula_html if env["formulas"] <= MOST_FORMULAS else formulas.written_html
    mark = _piece(env, html(token.content, token.markup))
    return f"<p>{mark}</p>\n" if token.block else mark


def _picture(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[at]
    words = renderer.renderInlineAsText(token.children, options, env)
    return _piece(env, Picture(str(token.attrGet("src") or ""), words, str(token.attrGet("title") or "")))


def _link(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    if not str(tokens[at].attrGet("href")).startswith("#"):
        tokens[at].attrSet("target", "_blank")
    return renderer.renderToken(tokens, at, options, env)


def _item(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    checked = tokens[at].meta.get("checked")
    box = {None: "", True: '<input checked="" aria-label="Done"> ', False: '<input aria-label="Not done"> '}[checked]
    return renderer.renderToken(tokens, at, options, env) + box


def _cell(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A cell's alignment as a class: our Content-Security-Policy allows no styles in attributes."""
    style = str(tokens[at].attrs.pop("style", ""))
    if style:
        tokens[at].attrSet("class", f"to-{style.rpartition(':')[2]}")
    return renderer.renderToken(tokens, at, options, env)


def _note(_: object, tokens: Sequence[Token], at: int, __: object, ___: EnvType) -> str:
    note = tokens[at].meta
    number, again = note["id"] + 1, f"-{note['subId']}" if note.get("subId") else ""
    href, own = f"#fn-{KEY}-{number}", f"fnref-{KEY}-{number}{again}"
    return f'<sup><a class="cite" href="{href}" id="{own}" aria-label="Note {number}">{number}</a></sup>'


def _notes(*_: object) -> str:
    return '<section class="footnotes" aria-label="Notes"><ol>\n'


def _note_text(_: object, tokens: Sequence[Token], at: int, __: object, ___: EnvType) -> str:
    return f'<li id="fn-{KEY}-{tokens[at].meta["id"] + 1}">'


def _note_back(_: object, tokens: Sequence[Token], at: int, __: object, env: EnvType) -> str:
    note = tokens[at].meta
    if not env["footnotes"]["list"][note["id"]].get("count"):
        return ""
    again = f"-{note['subId']}" if note.get("subId") else ""
    href = f"#fnref-{KEY}-{note['id'] + 1}{again}"
    return f' <a class="back" href="{href}" aria-label="Back to the text">\u21a9\ufe0e</a>'


def _parser() -> MarkdownIt:
    """Raw HTML is escaped, except `<details>`. Pictures are put in later: loading one would tell who reads this."""
    options = {"html": False, "breaks": True, "highlight": _highlight, "tasklists": True, "alerts": True}
    made = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    made.use(footnote_plugin, inline=False)
    for plugin in (
        gfm_autolink_plugin, formulas.formula_plugin, flavor.uncited_notes, flavor.cjk_emphasis, flavor.folds,
        flavor.nested_fences, flavor.citations,
    ):  # fmt: skip
        made.use(plugin)
    rules: dict[str, Callable[..., str]] = {
        formulas.NODE: _formula, "image": _picture, "link_open": _link, "list_item_open": _item,
        "th_open": _cell, "td_open": _cell, "footnote_ref": _note, "footnote_block_open": _notes,
        "footnote_open": _note_text, "footnote_anchor": _note_back,
    }  # fmt: skip
    for name, rule in rules.items():
        made.add_render_rule(name, rule)
    return made


_markdown = _parser()


def render_markdown(text: str, around: Surroundings = NOWHERE) -> str:
    """Markdown as safe HTML: it runs nothing, and loads nothing of other hosts."""
    if len(text) > MAX_RENDERED or text.count("[^") > MOST_FOOTNOTES:
        return render_plain(text)
    html, pieces = _render_cached(text) if len(text) <= MAX_CACHED else _render(text)
    return MARK.sub(lambda mark: _placed(mark[1], pieces, around), html)


def _render(text: str) -> tuple[str, list[Piece]]:
    """HTML with marks, and the pieces that they stand for."""
    env: dict[str, Any] = {"pieces": [], "formulas": 0}
    html = nh3.clean(
        _markdown.render(NO_CHARACTERS.sub("\ufffd", text), env),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values=SET_ATTRIBUTES,
    )
    return html, env["pieces"]


_render_cached = lru_cache(maxsize=2_000)(_render)


def _placed(mark: str, pieces: list[Piece], around: Surroundings) -> str:
    if mark == "key":
        return escape(around.key)
    piece = pieces[int(mark)]
    return piece if isinstance(piece, str) else _picture_html(piece, around)


def _picture_html(picture: Picture, around: Surroundings) -> str:
    """A picture, a button that shows it, a link to it, or its words alone."""
    words, title = escape(picture.words), f' title="{escape(picture.title)}"' if picture.title else ""
    if PICTURE_DATA.fullmatch(picture.source):
        own = picture.source
    elif host := urlsplit(picture.source).hostname if picture.source.startswith(("https://", "http://")) else "":
        return _remote_picture_html(picture.source, words or escape(host), escape(host), around)
    else:
        name = file_name_of(picture.source)
        own = around.own_picture(name) if name else ""
    if not own:
        return f'<span class="no-picture">{words}</span>'
    return f'<img src="{escape(own)}" alt="{words}"{title} loading="lazy" decoding="async">'


def _remote_picture_html(source: str, words: str, host: str, around: Surroundings) -> str:
    if copy := around.remote_picture(source):
        return (
            f'<button type="button" class="remote-picture small" data-picture="{escape(copy)}" data-words="{words}">'
            f"Show picture from {host}</button>"
        )
    rel = "noopener noreferrer nofollow"
    return f'<a href="{escape(source)}" target="_blank" rel="{rel}">{words}</a>'


def file_name_of(source: str) -> str:
    """The file that a picture's address names, as models write it: `chart.png`, `sandbox:/mnt/data/chart.png`."""
    path = unquote(source).removeprefix("sandbox:").removeprefix("attachment:")
    is_own = not re.match(r"[a-z][a-z0-9+.-]*:|//", path, re.IGNORECASE)
    return re.split(r"[?#]", path.rpartition("/")[2])[0] if is_own else ""


def render_plain(text: str) -> str:
    """Text as it is, line by line."""
    return f'<p class="verbatim">{escape(text)}</p>'


def render_code(code: str, language: str) -> str:
    """A file's text: highlighted if its language is known, otherwise with long lines wrapped."""
    if not language:
        return f'<pre class="wrapped">{escape(code)}</pre>'
    drawn = _highlight(code, language, "") if len(code) <= MAX_RENDERED else escape(code)
    return f'<pre tabindex="0"><code>{drawn}</code></pre>'


def json_text(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)


TITLE_LENGTH = 60  # characters
TITLED = 4_000  # characters of a message of which the title is made
GREETING = 12  # characters: a shorter first paragraph or sentence says too little
SENTENCE = re.compile(rf".{{{GREETING},}}?[.!?…](?=\s+\W*[^\Wa-z])|.{{6,}}?[。！？]")


WHOLE_TITLE = re.compile(r"[^\W\d_](?:[^\W_]|[ ,;:'\"()])*")
"""A plain line without the end of a sentence."""
PLAIN_LINE = re.compile(r"""[^\W\d_](?:[^\W_]|[ ,.;:?!'"()])*""")
"""What means the same in Markdown, which takes longer to read."""


def title_of(message: JSON) -> str:
    """A session's title from its first message: the first sentence, otherwise the name of the first file or ""."""
    first = message["parts"][0].get("text", "") if message["parts"] else ""
    if 0 < len(first) <= TITLE_LENGTH and WHOLE_TITLE.fullmatch(first):
        return " ".join(first.split())
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
    if PLAIN_LINE.fullmatch(markdown):
        return " ".join(markdown.split())
    tokens, text = _markdown.parse(markdown), ""
    for token in tokens:
        if token.type == "inline" and len(text) < GREETING:
            text = f"{text} {_inline_text(token.children or ())}".strip()
    code = (token.content.strip().partition("\n")[0] for token in tokens if token.type in ("fence", "code_block"))
    return text or next(filter(None, code), "") or " ".join(markdown.split())


def _inline_text(tokens: Iterable[Token]) -> str:
    return " ".join("".join(" " if token.type.endswith("break") else token.content for token in tokens).split())
