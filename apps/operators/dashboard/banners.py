"""What is wrong now, at the top of the dashboard: the doctor's checks that say so by their `watch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.urls import reverse
from django.utils.text import capfirst, slugify

from apps.accounts.models import User
from apps.operators.actions import may_view
from apps.operators.doctor import CHECKS, Check, Finding, Patient, State
from parley.faces import cells
from parley.faces.admin import MenuItem
from parley.faces.cells import Tone

TONES = {State.WARNING: Tone.WAITING, State.PROBLEM: Tone.FAILED}


@dataclass(frozen=True, slots=True)
class Banner:
    """`id` is the same while the same is wrong. `links` lead to the rows concerned and to what to do."""

    id: str
    finding: Finding
    links: list[Any]

    @property
    def sign(self) -> Any:
        return cells.state(self.finding.text, TONES[self.finding.state])


def banners_for(viewer: User) -> list[Banner]:
    """What the viewer may know of; problems first."""
    patient = Patient(settings.PUBLIC_BASE_URL)
    shown = []
    for check in CHECKS:
        if check.watch is not None and may_view(viewer, check.watch.model):
            finding = check.found(patient)
            if finding.state in check.watch.states:
                shown.append(_banner(check, finding, viewer))
    return sorted(shown, key=lambda one: one.finding.state is not State.PROBLEM)


def _banner(check: Check, finding: Finding, viewer: User) -> Banner:
    watch, links = check.watch, []
    assert watch is not None
    if watch.rows is not None and may_view(viewer, watch.rows):
        menu: MenuItem | None = getattr(admin.site.get_model_admin(watch.rows), "menu", None)
        title = (menu and menu.title) or capfirst(watch.rows._meta.verbose_name_plural)
        links.append(cells.link(title, cells.list_url(watch.rows, **watch.filters)))
    page, _, place = (finding.page or watch.page).partition("#")
    address = reverse("operators:manual", args=[page]) + (f"#{place}" if place else "")
    links.append(cells.link("What to do", address))
    return Banner(f"banner-{slugify(check.name)}-{finding.state}", finding, links)
