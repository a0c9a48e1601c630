"""JSON amid the words of a text: what is said, apart from what is shown as code.

Read as CommonMark, by a parser; `agentkit.directives` says what counts and why.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

EXAMPLES = frozenset({"example", "examples", "e.g", "snippet", "syntax"})
"""A paragraph with one of these words shows an example."""

TRIES = 200
"""Braces of a paragraph that are tried: each may cost a look through all that follows."""


@dataclass(frozen=True)
class Said:
    """A JSON value that is meant: the words around it, and whether it is all that the text says."""

    value: Any
    around: str
    is_all: bool = False


@dataclass(frozen=True)
class Paragraph:
    text: str
    code: list[tuple[int, int]]  # where its inline code is

    @property
    def is_example(self) -> bool:
        return not EXAMPLES.isdisjoint(re.findall(r"[a-z]+(?:\.[a-z])?", self.text.lower()))


type Block = Paragraph | str | None
"""A paragraph, the content of a fenced block that may be JSON, or anything else."""


def said_in(text: str) -> Iterator[Said]:
    """The JSON values that a text says, in order."""
    blocks = _blocks(text)
    for at, block in enumerate(blocks):
        if isinstance(block, Paragraph):
            yield from () if block.is_example else _amid_words(block)
        elif block is not None and at == len(blocks) - 1 and _may_end(blocks[:at]):
            lead = blocks[0].text if isinstance(blocks[0], Paragraph) else ""
            is_json, value = read_json(block)
            if is_json:
                yield Said(value, lead, is_all=at == 0)


def read_json(text: str) -> tuple[bool, Any]:
    """Is the text JSON, and what does it say?"""
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def _may_end(before: list[Block]) -> bool:
    """May a fenced block at the end be meant, by what stands before it?"""
    return not before or (len(before) == 1 and isinstance(before[0], Paragraph) and not before[0].is_example)


def _blocks(text: str) -> list[Block]:
    """The top-level blocks of a text."""
    blocks: list[Block] = []
    env: dict[str, Any] = {"code": {}}
    tokens = _commonmark().parse(text, env)
    for at, token in enumerate(tokens):
        if token.level or token.nesting < 0:
            continue
        if token.type == "paragraph_open":
            inline = tokens[at + 1]
            blocks.append(Paragraph(inline.content, env["code"].get(inline.content, [])))
        elif token.type == "fence" and token.info.strip().lower() in ("", "json"):
            blocks.append(token.content)
        else:
            blocks.append(None)
    return blocks


def _amid_words(paragraph: Paragraph) -> Iterator[Said]:
    """The JSON objects of a paragraph."""
    text, decoder, at = paragraph.text, json.JSONDecoder(), 0
    for _ in range(TRIES):
        if (at := text.find("{", at)) < 0:
            return
        if inside := next((end for start, end in paragraph.code if start <= at < end), 0):
            at = inside
            continue
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            yield Said(value, " ".join((text[:at] + text[end:]).split()))
            at = end


@cache
def _commonmark() -> "MarkdownIt":
    """A CommonMark parser that notes in `env["code"]` where in each paragraph inline code is."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import backtick

    def located(state: "StateInline", silent: bool) -> bool:
        start, known = state.pos, len(state.tokens)
        matched = backtick(state, silent)
        if matched and not silent and any(token.type == "code_inline" for token in state.tokens[known:]):
            state.env["code"].setdefault(state.src, []).append((start, state.pos))
        return matched

    parser = MarkdownIt("commonmark")
    parser.inline.ruler.at("backticks", located)
    return parser
