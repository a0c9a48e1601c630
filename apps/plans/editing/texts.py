"""Writes a changed definition into its YAML text: what stays the same keeps its comments and its form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from apps.plans.definitions import InvalidYaml, read_yaml, write_yaml, yaml_node
from apps.record.events import JSON


def rewrite(text: str, content: JSON, renamed: Mapping[str, str] | None = None) -> str:
    """The text with this content. `renamed`: the old keys of steps, by their new ones.

    Raises InvalidYaml if the text cannot be read. A text without blocks, such as JSON, is written as new YAML.
    """
    old, node = read_yaml(text), yaml_node(text)
    if _is_same(old, content):
        return text
    if node is not None and _is_block(node, old, content):
        writer = _Writer(text, renamed or {})
        begins = node.start_mark.index
        made = text[:begins] + writer.mapping(node, old, content, len(text.rstrip())) + "\n"
        with suppress(InvalidYaml):
            if _is_same(read_yaml(made), content):
                return made
    return write_yaml(content)


def _is_same(one: Any, other: Any) -> bool:
    """In the same order, too."""
    return json.dumps(one) == json.dumps(other)


def _is_block(node: Node | None, old: Any, new: Any) -> bool:
    """Can its entries be written one by one?"""
    both = isinstance(old, dict) and isinstance(new, dict) and bool(old) and bool(new)
    return both and isinstance(node, MappingNode) and not node.flow_style


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a block; `lead` are the blank lines and comments above it, and `ends` is where its text does."""

    key: ScalarNode
    value: Node
    lead: str
    ends: int


@dataclass(frozen=True, slots=True)
class _Writer:
    text: str
    renamed: Mapping[str, str]

    def mapping(self, node: Node, old: JSON, new: JSON, ends: int, path: tuple[str, ...] = ()) -> str:
        """The text of a block mapping up to `ends`, from its first key on."""
        entries = {entry.key.value: entry for entry in self._entries(node, ends)}
        gap = "\n" if any("\n" in entry.lead.replace("#", "") for entry in entries.values()) else ""
        indent = " " * node.start_mark.column
        written = ""
        for name, value in new.items():
            former = self.renamed.get(name, name) if path == ("steps",) else name
            entry = entries.get(former)
            lead = entry.lead if entry and entry.lead else gap
            if written:
                written += f"\n{lead}{indent}"
            elif lead.strip():
                written = f"{lead.lstrip()}{indent}"
            written += self._entry(entry, old[former], name, value, path) if entry else _dumped(name, value, indent)
        last = list(entries.values())[-1]
        return written + self.text[last.ends : ends].rstrip()

    def _entries(self, node: Node, ends: int) -> Iterator[_Entry]:
        lead, pairs = "", list(node.value)
        for number, (key, value) in enumerate(pairs):
            begins = key.start_mark.index
            following = pairs[number + 1][0].start_mark.index if number + 1 < len(pairs) else None
            limit = ends if following is None else self.text.rindex("\n", 0, following) + 1
            lines = self.text[begins:limit].split("\n")
            while len(lines) > 1 and _is_beside(lines[-1], node.start_mark.column):
                lines.pop()
            stop = begins + len("\n".join(lines))
            yield _Entry(key, value, lead, stop)
            lead = self.text[stop + 1 : limit]

    def _entry(self, entry: _Entry, old: Any, name: str, new: Any, path: tuple[str, ...]) -> str:
        head = name + self.text[entry.key.end_mark.index : entry.value.start_mark.index]
        if _is_same(old, new):
            return head + self.text[entry.value.start_mark.index : entry.ends]
        if _is_block(entry.value, old, new):
            return head + self.mapping(entry.value, old, new, entry.ends, (*path, name))
        remark = self.text[entry.value.end_mark.index : entry.ends]
        written = _dumped(name, new, " " * entry.key.start_mark.column)
        keeps = isinstance(entry.value, ScalarNode) and remark.lstrip().startswith("#") and "\n" not in written + remark
        return written + remark if keeps else written


def _is_beside(line: str, column: int) -> bool:
    """Is it blank, or a comment that is not within the entry above it?"""
    words = line.lstrip(" ")
    return not words.strip() or (words.startswith("#") and len(line) - len(words) <= column)


def _dumped(name: str, value: Any, indent: str) -> str:
    lines = write_yaml({name: value}).rstrip("\n").split("\n")
    return "\n".join([lines[0], *(indent + line if line else "" for line in lines[1:])])
