"""Admin's sidebar: each class of admin pages says by its `menu` where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.contrib.admin import site
from django.http import HttpRequest
from django.urls import reverse

from parley.faces.admin import MenuItem


def sections_of(request: HttpRequest, order: Sequence[str]) -> list[dict[str, Any]]:
    """The sections with what the operator may see: those of `order` first, then others by name."""
    found: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}
    for model in filter(site.is_registered, apps.get_models()):
        admin: Any = site.get_model_admin(model)
        menu: MenuItem | None = getattr(admin, "menu", None)
        if menu is None or not admin.has_view_or_change_permission(request):
            continue
        plural = str(model._meta.verbose_name_plural)
        title = menu.title or f"{plural[:1].upper()}{plural[1:]}"
        link = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        item = {"title": title, "icon": menu.icon, "link": link}
        found.setdefault(menu.section, []).append((menu.place, title, item))
    names = [*(name for name in order if name in found), *sorted(found.keys() - set(order))]
    return [{"title": name, "items": [item for *_, item in sorted(found[name], key=_place)]} for name in names]


def _place(entry: tuple[int, str, dict[str, Any]]) -> tuple[int, str]:
    return entry[:2]
