"""JSON as a tree that opens and closes: details and lists, made safe, never more than a page holds well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from django.utils.safestring import SafeString, mark_safe

BRANCHES = 200  # members that are shown of one object or array
NODES = 2_000  # of a whole tree
DEPTH = 40
LONGEST = 500  # characters of a string
OPEN = 2  # levels that are open at first, as long as they are short
SHORT = 40  # members


class NoTree(ValueError):
    """Why this cannot be read as JSON, in a sentence."""


class Members(list[tuple[str, Any]]):
    """An object as it is written: in its order, and with a name as often as it stands there."""


class Figure(str):
    """A number as it is written, whatever its size."""


def tree_of(text: str) -> SafeString:
    """The tree as HTML. Raises NoTree."""
    try:
        value = json.loads(text, object_pairs_hook=Members, parse_int=Figure, parse_float=Figure)
    except json.JSONDecodeError as error:
        raise NoTree(f"This is no valid JSON: line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise NoTree("This is nested too deeply to be shown as a tree.") from error
    return mark_safe("".join(["<ul class='tree'>", *_Drawing().node("", value, 0), "</ul>"]))  # noqa: S308 (see `_Drawing`)


class _Drawing:
    """Draws a tree; whatever comes from the file is escaped in `_key` and `_leaf`, and nowhere else is any."""

    def __init__(self) -> None:
        self.left = NODES

    def node(self, key: str, value: Any, depth: int) -> Iterator[str]:
        self.left -= 1
        if not isinstance(value, list) or not value:
            yield f"<li>{key}{_leaf(value)}</li>"
        elif depth >= DEPTH:
            yield f"<li>{key}<span class='tree-more'>{_size_of(value)}, too deep to be shown here</span></li>"
        else:
            is_open = " open" if depth == 0 or (depth < OPEN and len(value) <= SHORT) else ""
            yield f"<li><details{is_open}><summary>{key}<span class='tree-size'>{_size_of(value)}</span></summary><ul>"
            yield from self.members(value, depth + 1)
            yield "</ul></details></li>"

    def members(self, value: list[Any], depth: int) -> Iterator[str]:
        named = isinstance(value, Members)
        for place, member in enumerate(value):
            if place == BRANCHES or self.left <= 0:
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
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
