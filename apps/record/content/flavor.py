"""What our Markdown adds to CommonMark for what models write: CJK emphasis, folds, fences, footnotes, citations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, emphasis, strikethrough
from markdown_it.token import Token

type InlineRule = Callable[[StateInline, bool], bool]

# Emphasis in CJK text

CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u303f\u3040-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)


def cjk_emphasis(md: MarkdownIt) -> None:
    """`**提示：**先` is bold: CJK text has no spaces around its punctuation, by which CommonMark finds a word's end."""
    md.inline.ruler.at("emphasis", _beside_cjk(emphasis.tokenize))
    md.inline.ruler.at("strikethrough", _beside_cjk(strikethrough.tokenize))


def _beside_cjk(rule: InlineRule) -> InlineRule:
    def tokenize(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.delimiters)
        if not rule(state, silent):
            return False
        before, after = state.src[start - 1 : start] or " ", state.src[state.pos : state.pos + 1] or " "
        if state.src[start] != "_" and (CJK.match(before) or CJK.match(after)):
            for one in state.delimiters[known:]:
                one.open, one.close = _flanks(after, before), _flanks(before, after)
        return True

    return tokenize


def _flanks(inside: str, outside: str) -> bool:
    """May a sign stand between these, as the beginning or end of emphasis?"""
    if inside.isspace():
        return False
    return (
        not _is_western_punctuation(inside) or outside.isspace() or _is_punctuation(outside) or bool(CJK.match(outside))
    )


def _is_western_punctuation(sign: str) -> bool:
    return _is_punctuation(sign) and not CJK.match(sign)


def _is_punctuation(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "PS"


# Folds

FOLD_TAG = re.compile(r"<(/?)(details|summary)(?:\s+open(?:=(?:\"\"|\"open\"|'')?)?)?\s*>", re.IGNORECASE)
MOST_FOLDS = 100  # tags in a text


def folds(md: MarkdownIt) -> None:
    """`<details>` and `<summary>` at the beginning of a line, with Markdown in them. The sanitizer balances them."""
    md.block.ruler.before("fence", "fold", _fold_rule, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _fold_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    begin = state.bMarks[start_line] + state.tShift[start_line]
    if not FOLD_TAG.match(state.src, begin, state.eMarks[start_line]) or state.is_code_block(start_line):
        return False
    if silent:
        return True
    line = state.src[begin : state.eMarks[start_line]]
    state.env["folds"] = state.env.get("folds", 0) + len(FOLD_TAG.findall(line))
    if state.env["folds"] > MOST_FOLDS:
        return False
    in_summary, at, level = False, 0, state.level
    for tag in FOLD_TAG.finditer(line):
        _push_words(state, line[at : tag.start()], start_line, is_bare=in_summary)
        name, closes = tag[2].lower(), bool(tag[1])
        in_summary = name == "summary" and not closes
        token = state.push(f"{name}_{'close' if closes else 'open'}", name, -1 if closes else 1)
        token.block = True
        if not closes and "open" in tag[0].lower():
            token.attrSet("open", "")
        at = tag.end()
    _push_words(state, line[at:], start_line, is_bare=in_summary)
    state.level = level  # at the parser's deepest level, the rest of a text would be lost
    state.line = start_line + 1
    return True


def _push_words(state: StateBlock, words: str, line: int, *, is_bare: bool) -> None:
    if not words.strip():
        return
    if not is_bare:
        state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children, inline.map = words.strip(), [], [line, line + 1]
    if not is_bare:
        state.push("paragraph_close", "p", -1)


# Fences in fences

FENCE = re.compile(r"(?P<signs>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
OF_MARKDOWN = re.compile(r"(?:markdown|md|mdx)\b", re.IGNORECASE)
MOST_NESTED = 100  # blocks of Markdown in a text that are looked at


def nested_fences(md: MarkdownIt) -> None:
    """A block of Markdown holds blocks with a language, though its fence is no longer than theirs."""
    within = ["paragraph", "reference", "blockquote", "list"]
    md.block.ruler.before("fence", "nested_fence", _nested_fence_rule, {"alt": within})


def _nested_fence_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    opening = _fence_at(state, start_line)
    if opening is None or not OF_MARKDOWN.match(opening["info"]) or state.is_code_block(start_line):
        return False
    state.env["nested"] = state.env.get("nested", 0) + 1
    end = _end_of_nested(state, start_line, end_line, opening) if state.env["nested"] <= MOST_NESTED else None
    if end is None:
        return False
    if not silent:
        token = state.push("fence", "code", 0)
        token.info, token.markup, token.map = opening["info"].strip(), opening["signs"], [start_line, end + 1]
        token.content = state.getLines(start_line + 1, end, state.sCount[start_line], True)
        state.line = end + 1
    return True


def _end_of_nested(state: StateBlock, start_line: int, end_line: int, opening: re.Match[str]) -> int | None:
    """The line that ends a block with others in it; None if it has none, or they do not end."""
    level, has_others = 1, False
    for line in range(start_line + 1, end_line):
        if not state.isEmpty(line) and state.sCount[line] < state.blkIndent:
            return None
        fence = _fence_at(state, line)
        if fence is None or not fence["signs"].startswith(opening["signs"]):
            continue
        level += 1 if fence["info"].strip() else -1
        has_others = has_others or level > 1
        if not level:
            return line if has_others else None
    return None


def _fence_at(state: StateBlock, line: int) -> re.Match[str] | None:
    return FENCE.fullmatch(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]])


# Footnotes


def uncited_notes(md: MarkdownIt) -> None:
    """Keeps footnotes that the text does not refer to, which the footnote plugin drops."""
    md.core.ruler.after("inline", "uncited_notes", _keep_uncited)


def _keep_uncited(state: StateCore) -> None:
    notes = state.env.get("footnotes", {"refs": {}})
    for label in [label for label, number in notes["refs"].items() if number < 0]:
        notes["refs"][label] = number = len(notes["list"])
        notes["list"][number] = {"label": label[1:], "count": 0}


# Citations

NUMBER = re.compile(r"\[?(\d{1,3})\]?")
CITED = re.compile(r"【(\d{1,4})(?::(\d{1,4}))?†([^】†\n]{1,120})(?:†[^】\n]{0,40})?】")
UNNAMED = frozenset(("source", "sources"))
LONGEST_TITLE = 120  # characters


def citations(md: MarkdownIt) -> None:
    """Links whose text is a number, and the marks `【1†source】`, become numbered chips that name their source."""
    md.core.ruler.after("inline", "citations", _cite)


def _cite(state: StateCore) -> None:
    for token in state.tokens:
        if token.type == "inline" and token.children:
            token.children = list(_with_citations(token.children))


def _with_citations(tokens: list[Token]) -> Iterator[Token]:
    for at, token in enumerate(tokens):
        if token.type == "link_open" and (number := _cited_number(tokens[at : at + 3])):
            yield from _chip(token, number)
        elif token.type == "text" and "【" in token.content:
            yield from _marks(token)
        else:
            yield token


def _cited_number(tokens: list[Token]) -> str:
    """The number that a link consists of; it empties the text, which the chip repeats."""
    is_plain = [one.type for one in tokens[1:3]] == ["text", "link_close"]
    found = NUMBER.fullmatch(tokens[1].content.strip()) if is_plain else None
    if found is None:
        return ""
    tokens[1].content = ""
    return found[1]


def _chip(link: Token, number: str) -> Iterator[Token]:
    source = source_of(str(link.attrGet("href") or ""), str(link.attrGet("title") or ""))
    link.attrSet("class", "cite")
    link.attrSet("aria-label", f"Source {number}: {source}")
    link.attrs.pop("title", None)
    yield link
    yield _text(number)
    yield from _named(source)


def _named(source: str) -> Iterator[Token]:
    yield _span("source")
    yield _text(source)
    yield Token("span_close", "span", -1)


def _span(name: str) -> Token:
    return Token("span_open", "span", 1, attrs={"class": name})


def _text(words: str) -> Token:
    return Token("text", "", 0, content=words)


def source_of(href: str, title: str) -> str:
    """A link's title and host."""
    host = (urlsplit(href).hostname or "").removeprefix("www.") if "://" in href else ""
    return " · ".join(filter(None, (title[:LONGEST_TITLE], host))) or href[:LONGEST_TITLE]


def _marks(token: Token) -> Iterator[Token]:
    at = 0
    for mark in CITED.finditer(token.content):
        yield _text(token.content[at : mark.start()])
        number, name = mark[2] or mark[1], mark[3].strip()
        yield _span("cite")
        yield _text(number if name.lower() in UNNAMED else name)
        yield Token("span_close", "span", -1)
        at = mark.end()
    yield _text(token.content[at:])
