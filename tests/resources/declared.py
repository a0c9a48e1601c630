"""What the declarations of resources say, found without naming any: their faces, and the addresses of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import getclosurevars, unwrap
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.urls import URLPattern

import parley.urls  # noqa: F401 - it loads all faces
from apps.accounts.resources import Act, Resource, faces
from apps.operators.actions import ActingAdmin
from apps.operators.bulk import ACTIONS, RowAction
from apps.web.resources import Pages
from tests.isolation import rows

Everything = dict[str, list[str]]


def _patterns(face: str) -> Iterator[URLPattern]:
    for module in faces(face):
        yield from (one for one in module.urlpatterns if isinstance(one, URLPattern))


def pages() -> list[Pages[Any]]:
    views = [getattr(unwrap(one.callback), "__self__", None) for one in _patterns("pages")]
    return list({id(one): one for one in views if isinstance(one, Pages)}.values())


@dataclass(frozen=True)
class SectionAct:
    """An act of a section of the settings, with its address."""

    name: str
    resource: Resource[Any]
    act: Act[Any]


def section_acts() -> list[SectionAct]:
    found = []
    for one in _patterns("pages"):
        closure = getclosurevars(unwrap(one.callback)).nonlocals
        if isinstance(act := closure.get("act"), Act):
            resource = closure["resource"] if "resource" in closure else closure["self"].resource
            found.append(SectionAct(f"web:{one.name}", resource, act))
    return found


def admins() -> list[ActingAdmin]:
    return [one for one in admin.site._registry.values() if isinstance(one, ActingAdmin) and one.acts]


def action_of(shown: ActingAdmin, act: Act[Any] | RowAction) -> RowAction:
    if isinstance(act, RowAction):
        return act
    assert shown.resource is not None
    return ACTIONS[f"{shown.resource.noun}.{act.name}"]


@cache
def _queries() -> dict[str, str]:
    """Of all rows, by table; made once, because making them costs more than asking."""
    models = [one for one in apps.get_models() if one._meta.label not in rows.LEFT_OUT and not one._meta.proxy]
    names = {one: [field.attname for field in one._meta.concrete_fields] for one in models}
    return {
        one._meta.label: str(one._base_manager.values_list(*sorted(set(fields) - rows.MOVING)).query)
        for one, fields in names.items()
    }


def everything() -> Everything:
    """All rows, to see what changes."""
    found = {}
    with connection.cursor() as cursor:
        for label, query in _queries().items():
            cursor.execute(query)
            found[label] = sorted(map(repr, cursor.fetchall()))
    return found


def changed(before: Everything) -> list[str]:
    return [label for label, found in everything().items() if found != before[label]]
