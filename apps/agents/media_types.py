"""What an agent accepts, in words for people."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable

KINDS = {"text": "text", "image": "pictures", "audio": "sound", "video": "video", "application/json": "JSON"}
"""The words for all types of a family, and for single types that have no better name."""


def accepted_sentence(modes: Iterable[str]) -> str:
    """Such as “It takes text only.” or “It takes text, pictures and PDF.”"""
    modes = list(modes)
    if "*/*" in modes:
        return "It takes files of any type."
    names = list(dict.fromkeys(map(_name_of, modes)))
    if not names:
        return "It takes no files."
    *first, last = names
    return f"It takes {', '.join(first)} and {last}." if first else f"It takes {last} only."


def _name_of(mode: str) -> str:
    family = mode.partition("/")[0]
    if known := KINDS.get(mode) or KINDS.get(family):
        return known
    ending = mimetypes.guess_extension(mode)
    return ending[1:].upper() if ending else mode
