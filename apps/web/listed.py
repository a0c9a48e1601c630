"""The files of a session as its panel lists them (`static/js/session/files.js` asks for them anew)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

JSON = dict[str, Any]

KINDS = {
    "application/pdf": "PDF",
    "application/json": "JSON",
    "text/markdown": "Markdown",
    "text/plain": "Text",
    "text/html": "HTML",
    "text/csv": "CSV",
    "image/svg+xml": "SVG",
}


@dataclass(frozen=True)
class Listed:
    """A delivered artifact, and which version of its name it is; 0 where there is one alone."""

    artifact: JSON
    version: int

    @property
    def key(self) -> str:
        """How the page's script calls it."""
        return f"{self.artifact['taskId']}/{self.artifact['artifactId']}"

    @property
    def name(self) -> str:
        """By which its versions belong together."""
        return name_of(self.artifact)

    @property
    def is_picture(self) -> bool:
        """Whether its first part is one."""
        return any(part["mediaType"].startswith("image/") for part in self.artifact["parts"][:1])

    @property
    def about(self) -> str:
        """Kind, size, version, and how many parts there are."""
        return " · ".join(self._facts())

    def _facts(self) -> Iterator[str]:
        parts = self.artifact["parts"]
        for part in parts[:1]:
            yield kind_of(part["mediaType"])
            if part["size"] is not None:
                yield size_of(part["size"])
        if self.version:
            yield f"v{self.version}"
        if len(parts) > 1:
            yield f"{len(parts)} parts"

    @property
    def only_part(self) -> JSON | None:
        """What can be downloaded at once."""
        parts = self.artifact["parts"]
        return parts[0] if len(parts) == 1 and parts[0]["href"] else None


def name_of(artifact: JSON) -> str:
    """An artifact without a name is called by its id."""
    return str(artifact["name"] or artifact["artifactId"])


def by_name(artifacts: list[JSON]) -> list[tuple[Listed, list[Listed]]]:
    """The newest of each name and the older ones. What was made last comes first, what came together in its order."""
    begun: dict[str, int] = {}
    for artifact in artifacts:  # oldest first
        begun.setdefault(artifact["taskId"], artifact["firstEvent"])
    named = sorted(sorted(artifacts, key=lambda one: -one["firstEvent"]), key=name_of)
    groups = [_versions(list(group)) for _, group in groupby(named, key=name_of)]
    groups.sort(key=lambda group: _place(group[0].artifact, begun))
    return [(newest, older) for newest, *older in groups]


def _place(newest: JSON, begun: dict[str, int]) -> tuple[int, int]:
    return -begun[newest["taskId"]], newest["firstEvent"]


def _versions(group: list[JSON]) -> list[Listed]:
    many = len(group)
    return [Listed(artifact, many - place if many > 1 else 0) for place, artifact in enumerate(group)]


def kind_of(media_type: str) -> str:
    """As people say it."""
    kind = media_type.partition("/")[2] or media_type
    return KINDS.get(media_type) or kind.removeprefix("x-").removeprefix("vnd.")[:24].upper()


def size_of(size: int) -> str:
    """As the page's script writes it (`sizes.js`)."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1e3:.{1 if size < 10_000 else 0}f} kB"
    return f"{size / 1e6:.1f} MB"
