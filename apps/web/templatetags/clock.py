"""Times in all templates (see `settings.TEMPLATES`): `{{ task.created_at|moment }}`; and the clock for scripts."""

from __future__ import annotations

import datetime

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from parley.faces import clock

register = template.Library()


@register.filter
def moment(at: datetime.datetime | None, style: str = "") -> str:
    """`parley.faces.clock.written`, with its styles."""
    return clock.written(at, style)


@register.simple_tag
def clock_attributes() -> SafeString:
    """The clock as `data-` attributes of the page, for `static/js/format.js`."""
    now = clock.current()
    known = {"clock": now.hours, "dates": "month" if now.month_first else "day", "zone": now.zone}
    return format_html_join("", ' data-{}="{}"', [pair for pair in known.items() if pair[1]])
