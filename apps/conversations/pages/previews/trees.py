"""JSON as a tree of `<details>`: safe HTML of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe

MOST_MEMBERS = 200  # of one object or array
MOST_NODES = 2_000  # of a whole tree
MOST_DEPTH = 40
LONGEST_TEXT = 500  # characters of a string
OPEN_LEVELS = 2  # open at first, if they are short
MOST_OPEN_MEMBERS = 40  # members


class NotATree(ValueError):
    """Why this cannot be read as JSON, in a sentence."""


class Members(list[tuple[str, Any]]):
    """An object in its written order, with repeated names."""


class Figure(str):
    """A number as it is written."""


def tree_of(text: str) -> SafeString:
    """The tree as HTML. Raises NotATree."""
    try:
        value = json.loads(text, object_pairs_hook=Members, parse_int=Figure, parse_float=Figure)
    except json.JSONDecodeError as error:
        raise NotATree(f"This is no valid JSON: line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise NotATree("This is nested too deeply to be shown as a tree.") from error
    return mark_safe("".join(["<ul class='tree'>", *_TreeWriter().node("", value, 0), "</ul>"]))  # noqa: S308 (see `_TreeWriter`)


class _TreeWriter:
    """Only `_key` and `_leaf` write text from the file, and they escape it."""

    def __init__(self) -> None:
        self.left = MOST_NODES

    def node(self, key: str, value: Any, depth: int) -> Iterator[str]:
        self.left -= 1
        if not isinstance(value, list) or not value:
            yield f"<li>{key}{_leaf(value)}</li>"
        elif depth >= MOST_DEPTH:
            yield f"<li>{key}<span class='tree-more'>{_size_of(value)}, too deep to be shown here</span></li>"
        else:
            is_open = " open" if depth == 0 or (depth < OPEN_LEVELS and len(value) <= MOST_OPEN_MEMBERS) else ""
            yield f"<li><details{is_open}><summary>{key}<span class='tree-size'>{_size_of(value)}</span></summary><ul>"
            yield from self.members(value, depth + 1)
            yield "</ul></details></li>"

    def members(self, value: list[Any], depth: int) -> Iterator[str]:
        named = isinstance(value, Members)
        for place, member in enumerate(value):
            if place == MOST_MEMBERS or self.left <= 0:
                yield f"<li class='tree-more'>… and {len(value) - place:,} more. Download the file to see all.</li>"
                return
            name, inner = member if named else (place, member)
            yield from self.node(_key(name, named), inner, depth)


def _key(name: object, named: bool) -> str:
    look = "tree-key" if named else "tree-place"
    return f"<span class='{look}'>{escape(_cut(str(name)))}:</span> "


def _leaf(value: Any) -> str:
    if isinstance(value, list):
        return f"<span class='tree-size'>{_size_of(value)}</span>"
    if isinstance(value, Figure):
        return f"<span class='tree-figure'>{escape(_cut(value))}</span>"
    if isinstance(value, str):
        return f"<span class='tree-text'>{escape(_cut(value))}</span>"
    return f"<span class='tree-word'>{escape(json.dumps(value))}</span>"


def _size_of(value: list[Any]) -> str:
    if not value:
        return "empty"
    one, many = ("member", "members") if isinstance(value, Members) else ("item", "items")
    return f"{len(value):,} {one if len(value) == 1 else many}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text):,} characters)"
