"""SVG files that load nothing else."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from functools import cache

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

MEDIA_TYPE = "image/svg+xml"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
"""The Content-Security-Policy of such a file: it runs nothing and loads nothing."""
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0 §2.2
SYMBOL = re.compile(r'<symbol id="([a-z]+)".*?</symbol>', re.DOTALL)


def render_svg(template: str, signs: Collection[str], **context: object) -> str:
    """Render a template; `signs` are symbols of `static/icons.svg`."""
    found = mark_safe("".join(_symbols()[name] for name in signs))  # noqa: S308 - a file of ours
    return NO_XML.sub("\N{REPLACEMENT CHARACTER}", render_to_string(template, {**context, "signs": found}))


@cache
def _symbols() -> dict[str, str]:
    path = finders.find("icons.svg")
    assert path is not None
    with open(path, encoding="utf-8") as sprite:
        return {one[1]: one[0] for one in SYMBOL.finditer(sprite.read())}


def shortened(text: str, room: float) -> str:
    """The text, cut with an ellipsis to fit `room` average letters."""
    text = " ".join(text.split())
    taken = 0.0
    for at, letter in enumerate(text):
        taken += _letter_width(letter)
        if taken > room:
            kept = text[: max(at - 1, 1)].rstrip()
            return f"{kept}…"
    return text


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.9
    return 1.3 if letter.isupper() or letter in "mw@%" else 0.55 if letter in "ijlft.,:;'|!()[] " else 1.0
