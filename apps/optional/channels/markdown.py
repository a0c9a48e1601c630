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


def split(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """The Markdown in pieces that fit, as few as possible: between blocks, then lines, then anywhere.

    Each piece takes some tens of calls of `fits`. Who needs only the first does not pay for the others.
    """
    if fits(text):
        return iter([text])
    return _packed(list(_top_blocks(text)), "\n\n".join, fits, lambda block: _lines_that_fit(block, fits))


def _packed(
    units: list[str],
    join: Callable[[list[str]], str],
    fits: Callable[[str], bool],
    smaller: Callable[[str], Iterator[str]],
) -> Iterator[str]:
    """In each piece as many units as fit. One that does not becomes smaller ones; the last goes with the next unit."""
    at = 0

    def fit(number: int) -> bool:
        return fits(join(units[at : at + number]))

    while at < len(units):
        if count := _most(len(units) - at, fit):
            chosen, at = units[at : at + count], at + count
            if "".join(chosen).strip():
                yield join(chosen)
            continue
        last = ""
        for part in smaller(units[at]):
            if last.strip():
                yield join([last])
            last = part
        units[at] = last
        at += 0 if fit(1) else 1  # what cannot be made to fit is left out


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `count` that fits, by bisection; 0 if 1 does not.

    It begins with small ones, so that none that is tried is much larger than what fits.
    """
    low, high = 0, 1
    while high <= count and fits(high):
        low, high = high, high * 2
    high = min(high, count + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _top_blocks(text: str) -> Iterator[str]:
    lines = text.split("\n")
    maps = [one.map for one in PARSER.parse(text) if one.map and one.level == 0 and one.nesting >= 0]
    begins = sorted({0, *(first for first, _ in maps)})
    for first, after in zip(begins, [*begins[1:], len(lines)], strict=True):
        if block := "\n".join(lines[first:after]).strip("\n"):
            yield block


def _lines_that_fit(block: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """A block's lines; a code block is one in each piece."""
    lines = block.split("\n")
    before = after = ""
    if lines[0].lstrip().startswith(("```", "~~~")):
        sign = lines[0].lstrip()[:3]
        before, after = f"{lines[0]}\n", f"\n{sign}"
        before = before if fits(f"{before}.{after}") else f"{sign}\n"
        lines = lines[1:-1] if lines[-1].strip() == sign else lines[1:]

    def join(some: list[str]) -> str:
        return before + "\n".join(some) + after

    return _packed(lines, join, fits, lambda line: _short(line, lambda one: fits(join([one]))))


def _short(line: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """The longest beginnings that fit, up to a space if there is one in their second half."""
    at = 0
    while at < len(line):
        most = max(_most(len(line) - at, lambda number, at=at: fits(line[at : at + number])), 1)  # type: ignore[misc]
        space = line.rfind(" ", at + most // 2, at + most) if at + most < len(line) else -1
        end = space + 1 if space > at else at + most
        yield line[at:end].rstrip()
        at = end
