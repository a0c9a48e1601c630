"""Cells of admin tables as safe HTML."""

import datetime
import json
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

CENTS = 0.1  # smaller amounts need more than two decimals
NOTHING = mark_safe('<span class="nothing">–</span>')
ENDS = (8, 4)  # characters shown at an id's start and end


class Tone(StrEnum):
    """A state's meaning, with a color and a sign (`static/console/console.css`)."""

    QUEUED = "queued"
    WORKING = "working"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


SIGNS = {
    Tone.QUEUED: '<circle cx="8" cy="8" r="4.5"/>',
    Tone.WORKING: '<circle cx="8" cy="8" r="4" class="dot"/>',
    Tone.WAITING: (
        '<path d="M4.5 9V4.8M7 8V3M9.5 8V3.6M12 8.6V5.4M4.5 9 2.8 7.4"/>'
        '<path d="M4.5 9c0 3 1.6 4.6 3.7 4.6S12 12 12 8.6"/>'
    ),
    Tone.DONE: '<path d="M3 8.6 6.4 12 13 4.6"/>',
    Tone.FAILED: '<path d="m4 4 8 8m0-8-8 8"/>',
    Tone.STOPPED: '<circle cx="8" cy="8" r="5"/><path d="M5.5 8h5"/>',
}


def state(word: str, tone: Tone) -> SafeString:
    sign = mark_safe(SIGNS[tone])  # noqa: S308
    return format_html(
        '<span class="state state-{}"><svg viewBox="0 0 16 16" aria-hidden="true">{}</svg>{}</span>', tone, sign, word
    )


def identifier(value: object, url: str = "") -> SafeString:
    """An id whose middle is hidden, but selected, read out and copied."""
    if not (text := str(value or "")):
        return NOTHING
    if len(text) > sum(ENDS) + 4:
        middle = format_html('<span class="ident-middle">{}</span>', text[ENDS[0] : -ENDS[1]])
        shown = format_html("{}{}{}", text[: ENDS[0]], middle, text[-ENDS[1] :])
    else:
        shown = format_html("{}", text)
    code = format_html('<code title="{}">{}</code>', text, shown)
    return format_html(
        '<span class="ident">{}<button type="button" data-copy="{}" aria-label="Copy {}"></button></span>',
        link(code, url) if url else code,
        text,
        text,
    )


def relative_time(at: datetime.datetime | None) -> SafeString:
    """Relative to now; the tooltip has the absolute time. `console.js` updates it."""
    if at is None:
        return NOTHING
    utc = at.astimezone(datetime.UTC)
    absolute = utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html('<time datetime="{}" title="{}">{}</time>', utc.isoformat(), absolute, from_now(utc))


def from_now(at: datetime.datetime) -> str:
    """ "now", "12 s ago", "in 3 min"; a date beyond 30 days."""
    seconds = (timezone.now() - at).total_seconds()
    distance = abs(seconds)
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h"), (2_592_000, 86_400, "d")):
        if distance < limit:
            amount = int(distance / unit)
            return "now" if amount == 0 else f"{amount} {name} ago" if seconds > 0 else f"in {amount} {name}"
    return at.strftime("%Y-%m-%d")


def duration(seconds: float | None) -> str:
    """ "840 ms", "4.2 s", "3 min"."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def link(text: object, url: str) -> SafeString:
    return format_html('<a class="console-link" href="{}">{}</a>', url, text)


def page_url(model: type[Model], pk: Any) -> str:
    """The row need not be loaded."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[quote(pk)])


def list_url(model: type[Model], **filters: Any) -> str:
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return f"{url}?{urlencode(filters)}" if filters else url


def count_link(count: int, model: type[Model], **filters: Any) -> SafeString:
    return link(f"{count:,}", list_url(model, **filters))


def row_link(model: type[Model], pk: object) -> SafeString:
    return identifier(pk, page_url(model, pk)) if pk else NOTHING


def json_block(value: Any) -> SafeString:
    if value in (None, {}, [], ""):
        return NOTHING
    return format_html('<pre class="structure" tabindex="0">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False))


def judged(text: str, is_better: bool) -> SafeString:
    """A difference, as better or worse, also for those who see no color."""
    word, tone = ("better", Tone.DONE) if is_better else ("worse", Tone.FAILED)
    return format_html('<span class="state-{}">{}, {}</span>', tone, text, word)


def lines(texts: Iterable[str]) -> SafeString:
    return format_html_join(mark_safe("<br>"), "{}", ((text,) for text in texts)) or NOTHING


def shortened(text: str, length: int = 80) -> str:
    """One line of at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def money(amount: float | None) -> str:
    """An amount as people read it, in the currency of prices and costs; "–" for None."""
    if amount is None:
        return "–"
    is_small = 0 < abs(amount) < CENTS
    number = format(Decimal(f"{amount:.2g}"), "f") if is_small else f"{amount:,.2f}"  # never as 1e-05
    return f"{number} {settings.CURRENCY}"
