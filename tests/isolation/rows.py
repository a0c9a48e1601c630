"""The rows of one workspace, to see that nobody else changes them."""

from __future__ import annotations

import hashlib
from typing import Any

from django.apps import apps
from django.db.models import Model, Q

Keys = dict[type[Model], set[Any]]
MOVING = {"last_used_at", "last_used_from", "lease_until", "published_at", "last_seen_at", "last_login"}
LEFT_OUT = {"sessions.Session", "accounts.CacheEntry", "accounts.AuditEntry", "accounts.AuditHead"}


def keys() -> Keys:
    """The keys of all rows."""
    models = [one for one in apps.get_models() if one._meta.label not in LEFT_OUT and not one._meta.proxy]
    return {one: set(one._base_manager.values_list("pk", flat=True)) for one in models}


def added(before: Keys, after: Keys) -> Keys:
    return {model: after[model] - before[model] for model in after if after[model] - before[model]}


def digests(own: Keys) -> dict[str, str]:
    """By table, of these rows and of all that refer to them, so that a row which somebody adds counts, too."""
    return {model._meta.label: _digest(model, own) for model in keys_of_interest(own)}


def keys_of_interest(own: Keys) -> list[type[Model]]:
    return [
        model
        for model in apps.get_models()
        if model._meta.label not in LEFT_OUT and not model._meta.proxy and (model in own or _references(model, own))
    ]


def _references(model: type[Model], own: Keys) -> list[tuple[str, type[Model]]]:
    fields = model._meta.concrete_fields
    return [(f.attname, f.related_model) for f in fields if f.related_model in own]  # type: ignore[misc]


def _digest(model: type[Model], own: Keys) -> str:
    theirs = Q(pk__in=own.get(model, ()))
    for name, other in _references(model, own):
        theirs |= Q(**{f"{name}__in": own[other]})
    names = [f.attname for f in model._meta.concrete_fields if f.attname not in MOVING]
    found = sorted(map(repr, model._base_manager.filter(theirs).values_list(*names)))
    return hashlib.sha256("\n".join(found).encode()).hexdigest()
