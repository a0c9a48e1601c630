"""Markdown in the forms of platforms: split where blocks end, and translated token by token.

A platform declares its `Marks`. What an agent wrote is data: text is escaped, and HTML stays text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

SCHEMES = ("http", "https", "mailto")
BULLET = "•"


def parser() -> MarkdownIt:
    """HTML stays text."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


PARSER = parser()


def _same(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Marks:
    """How a platform writes things: each function gets what is within, in the platform's form."""

    escape: Callable[[str], str] = _same
    escape_code: Callable[[str], str] | None = None  # in code; by default as elsewhere
    strong: Callable[[str], str] = _same
    em: Callable[[str], str] = _same
    s: Callable[[str], str] = _same
    code: Callable[[str], str] = _same  # gets escaped text
    fence: Callable[[str, str], str] = lambda code, language: code  # escaped text, and the language
    link: Callable[[str, str], str] = lambda text, url: f"{text} ({url})"
    heading: Callable[[str], str] = _same
    quote: Callable[[str], str] = lambda text: "\n".join(f"> {line}" for line in text.split("\n"))

    def escaped_code(self, text: str) -> str:
        return (self.escape_code or self.escape)(text)


def convert(text: str, marks: Marks) -> str:
    """Markdown in the platform's form."""
    return _blocks(PARSER.parse(text), marks).strip("\n")


@dataclass(slots=True)
class _Open:
    """A block that is being read."""

    kind: str
    said: list[str]
    number: int | None = None


def _blocks(tokens: Sequence[Token], marks: Marks) -> str:
    stack = [_Open("root", [])]
    row: list[str] = []
    for token in tokens:
        kind = token.type
        if kind == "inline":
            words = _inline(token.children or [], marks)
            if stack[-1].kind == "row":
                row.append(words)
            else:
                stack[-1].said.append(words)
        elif kind in ("fence", "code_block"):
            language = token.info.split()[0] if token.info.split() else ""
            stack[-1].said.append(marks.fence(marks.escaped_code(token.content.rstrip("\n")), language))
        elif kind == "hr":
            stack[-1].said.append("———")
        elif kind == "html_block":
            stack[-1].said.append(marks.escape(token.content.strip()))
        elif kind == "tr_open":
            stack.append(_Open("row", []))
        elif kind == "tr_close":
            stack.pop()
            stack[-1].said.append(" | ".join(row))
            row = []
        elif kind in CONTAINERS:
            start = token.attrGet("start")
            number = int(start or 1) if kind == "ordered_list_open" else None
            stack.append(_Open(CONTAINERS[kind], [], number))
        elif kind.removesuffix("_close") + "_open" in CONTAINERS:
            closed = stack.pop()
            stack[-1].said.append(_closed(closed, stack[-1], marks))
    return _joined(stack[0])


CONTAINERS = {
    "heading_open": "heading",
    "blockquote_open": "quote",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "list_item_open": "item",
    "table_open": "table",
}


def _joined(block: _Open) -> str:
    between = "\n\n" if block.kind in ("root", "quote") else "\n"
    return between.join(one for one in block.said if one)


def _closed(block: _Open, around: _Open, marks: Marks) -> str:
    text = _joined(block)
    match block.kind:
        case "heading":
            return marks.heading(text)
        case "quote":
            return marks.quote(text)
        case "item":
            sign = BULLET if around.number is None else f"{around.number}."
            if around.number is not None:
                around.number += 1
            return f"{sign} " + text.replace("\n", "\n    ")
    return text


def _inline(tokens: Sequence[Token], marks: Marks) -> str:
    """Nested marks, from the inside to the outside."""
    stack: list[tuple[str, list[str]]] = [("", [])]
    for token in tokens:
        said = stack[-1][1]
        match token.type:
            case "text" | "html_inline":
                said.append(marks.escape(token.content))
            case "softbreak" | "hardbreak":
                said.append("\n")
            case "code_inline":
                said.append(marks.code(marks.escaped_code(token.content)))
            case "image":
                said.append(_linked(marks.escape(token.content or "image"), str(token.attrGet("src") or ""), marks))
            case "link_open":
                stack.append((str(token.attrGet("href") or ""), []))
            case "strong_open" | "em_open" | "s_open":
                stack.append((token.type, []))
            case "link_close":
                url, inner = stack.pop()
                stack[-1][1].append(_linked("".join(inner), url, marks))
            case "strong_close" | "em_close" | "s_close":
                _, inner = stack.pop()
                mark = getattr(marks, token.type.removesuffix("_close"))
                stack[-1][1].append(mark("".join(inner)))
    return "".join(stack[0][1])


def _linked(words: str, url: str, marks: Marks) -> str:
    """A link to the web; of another one, the words."""
    return marks.link(words, url) if urlsplit(url).scheme in SCHEMES else words


# Splitting


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The Markdown in pieces that fit, as few as possible: between blocks, then lines, then anywhere."""
    if fits(text):
        return [text]
    pieces: list[str] = []
    for block in _top_blocks(text):
        if pieces and fits(joined := f"{pieces[-1]}\n\n{block}"):
            pieces[-1] = joined
        elif fits(block):
            pieces.append(block)
        else:
            pieces += _lines_that_fit(block, fits)
    return pieces


def _top_blocks(text: str) -> Iterator[str]:
    lines = text.split("\n")
    maps = [one.map for one in PARSER.parse(text) if one.map and one.level == 0 and one.nesting >= 0]
    begins = sorted({0, *(first for first, _ in maps)})
    for first, after in zip(begins, [*begins[1:], len(lines)], strict=True):
        if block := "\n".join(lines[first:after]).strip("\n"):
            yield block


def _lines_that_fit(block: str, fits: Callable[[str], bool]) -> list[str]:
    """A block's lines; a code block is one in each piece."""
    lines = block.split("\n")
    before = after = ""
    if lines[0].lstrip().startswith(("```", "~~~")):
        before, after = f"{lines[0]}\n", f"\n{lines[0].lstrip()[:3]}"
        lines = lines[1:-1] if lines[-1].strip() == lines[0].lstrip()[:3] else lines[1:]
    pieces: list[str] = []
    for line in lines:
        for part in _short(line, lambda one: fits(before + one + after)):
            if pieces and fits(f"{before}{pieces[-1]}\n{part}{after}"):
                pieces[-1] += f"\n{part}"
            else:
                pieces.append(part)
    return [before + one + after for one in pieces]


def _short(line: str, fits: Callable[[str], bool]) -> Iterator[str]:
    while not fits(line) and len(line) > 1:
        low, high = 1, len(line)
        while high - low > 1:  # the longest beginning that fits
            middle = (low + high) // 2
            low, high = (middle, high) if fits(line[:middle]) else (low, middle)
        space = line.rfind(" ", low // 2, low)
        end = space + 1 if space > 0 else low
        yield line[:end].rstrip()
        line = line[end:]
    yield line
