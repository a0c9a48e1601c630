"""What is wrong with a template, and how it is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MOST_NAMED = 20


class TemplateProblem(Exception):
    """A template is invalid or failed; the text is a sentence that says why."""


def listed(names: Iterable[Any]) -> str:
    """Names for a sentence, at most MOST_NAMED."""
    quoted = [f"`{name}`" for name in names]
    return ", ".join(quoted[:MOST_NAMED]) + (", …" if len(quoted) > MOST_NAMED else "")


def sentence(text: str) -> str:
    """With a capital letter and one full stop."""
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
