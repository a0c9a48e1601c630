"""Pictures as files of their own (SVG), with their colours, light and dark, and their signs: nothing is loaded."""

from __future__ import annotations

import re
from functools import cache

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from apps.plans.pictures.gantt import Gantt
from apps.plans.pictures.graph import Graph

MEDIA_TYPE = "image/svg+xml"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""The Content-Security-Policy of such a file: it runs nothing and loads nothing."""
SIGNS = ("working", "waiting", "done", "failed", "canceled", "none", "person")
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0 §2.2
SYMBOL = re.compile(r'<symbol id="([a-z]+)".*?</symbol>', re.DOTALL)


def graph(picture: Graph) -> str:
    return _whole("plans/graph.svg", graph=picture)


def gantt(picture: Gantt) -> str:
    return _whole("plans/gantt.svg", gantt=picture)


def nowhere(task: object) -> str:
    """The `depicting.Address` of a picture whose steps lead nowhere: as a file it has no page around it."""
    return ""


def _whole(template: str, **about: object) -> str:
    return NO_XML.sub("\N{REPLACEMENT CHARACTER}", render_to_string(template, {**about, "signs": _signs()}))


@cache
def _signs() -> SafeString:
    """The signs that pictures use, of the sprite that pages load."""
    path = finders.find("icons.svg")
    assert path is not None
    with open(path, encoding="utf-8") as sprite:
        found = [one[0] for one in SYMBOL.finditer(sprite.read()) if one[1] in SIGNS]
    return mark_safe("".join(found))  # noqa: S308 - a file of ours
