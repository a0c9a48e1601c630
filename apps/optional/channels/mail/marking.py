"""Markdown in letters: as it is for the text, and as HTML. Buttons are numbers that a reply names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.html import format_html
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from apps.optional.channels.markdown import parser
from apps.optional.channels.platforms import Button


def _link(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """An image as a link: one that mail programs load tells its server of the letter."""
    image = tokens[at]
    return format_html('<a href="{}">{}</a>', str(image.attrGet("src") or ""), image.content or "image")


LETTERS = parser()
LETTERS.add_render_rule("image", _link)


def with_choices(text: str, buttons: Sequence[Button]) -> str:
    if not buttons:
        return text
    if buttons[0].word:
        return f"{text}\n\nBegin your reply with {' or '.join(f'“{one.word}”' for one in buttons)}."
    lines = [f"{number}. {one.label}" for number, one in enumerate(buttons, 1)]
    return "\n".join([text, "", *lines, "", "Reply with the number or the words of your choice."])


def html_of(text: str) -> str:
    """What an agent wrote is data: HTML in it is shown as text, and images are links."""
    body: str = LETTERS.render(text)
    return f"<!doctype html><html><body>{body}</body></html>"
