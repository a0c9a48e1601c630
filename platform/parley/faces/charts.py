"""Small SVG charts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from parley.faces.cells import Tone

WIDTH, HEIGHT = 320, 48

_numbers = itertools.count(1)


def sparkline(values: Sequence[float], title: str, description: str) -> SafeString:
    """A line above zero."""
    top, steps = max(values, default=0) or 1.0, max(len(values) - 1, 1)
    places = [(WIDTH * at / steps, (HEIGHT - 2) * (1 - value / top) + 1) for at, value in enumerate(values)]
    if len(places) == 1:
        places = [places[0], (float(WIDTH), places[0][1])]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return _svg("line", title, description, format_html('<polyline class="spark" points="{}"/>', points))


def bar(parts: Sequence[tuple[str, int, Tone]], title: str, description: str) -> SafeString:
    """Shares of a sum, side by side."""
    total, begins, drawn = sum(count for _, count, _ in parts) or 1, 0.0, []
    for word, count, tone in parts:
        width = WIDTH * count / total
        drawn.append((f"{begins:.1f}", f"{width:.1f}", tone, f"{word}: {count}"))
        begins += width
    rectangle = '<rect x="{}" y="0" width="{}" height="{}" class="share state-{}"><title>{}</title></rect>'
    shapes = format_html_join("", rectangle, ((x, width, HEIGHT // 3, tone, told) for x, width, tone, told in drawn))
    return _svg("shares", title, description, shapes, HEIGHT // 3)


def _svg(kind: str, title: str, description: str, shapes: SafeString, height: int = HEIGHT) -> SafeString:
    number = next(_numbers)  # not "chart", which the theme's script takes for a canvas
    return format_html(
        '<svg class="drawing drawing-{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-labelledby="{} {}">'
        '<title id="{}">{}</title><desc id="{}">{}</desc>{}</svg>',
        kind, WIDTH, height, f"chart-{number}", f"chart-{number}-more",
        f"chart-{number}", title, f"chart-{number}-more", description, shapes,
    )  # fmt: skip
