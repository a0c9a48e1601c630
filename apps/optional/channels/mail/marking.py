"""Markdown in letters: as it is for the text, and as HTML. Buttons are numbers that a reply names."""

from __future__ import annotations

from collections.abc import Sequence

from apps.optional.channels.markdown import PARSER
from apps.optional.channels.platforms import Button


def with_choices(text: str, buttons: Sequence[Button]) -> str:
    if not buttons:
        return text
    lines = [f"{number}. {one.label}" for number, one in enumerate(buttons, 1)]
    return "\n".join([text, "", *lines, "", "Reply with the number or the words of your choice."])


def html_of(text: str) -> str:
    """What an agent wrote is data: HTML in it is shown as text."""
    body: str = PARSER.render(text)
    return f"<!doctype html><html><body>{body}</body></html>"
