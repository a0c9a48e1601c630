"""The rows of one workspace, to see that nobody else changes them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import Model, Q

Keys = dict[type[Model], set[Any]]
MOVING = {"last_used_at", "last_used_from", "lease_until", "published_at", "last_seen_at", "last_login"}
LEFT_OUT = {
    "sessions.Session",
    "accounts.CacheEntry",
    "accounts.UsedNonce",
    "accounts.AuditEntry",
    "accounts.AuditHead",
}


def keys() -> Keys:
    """The keys of all rows."""
    models = [one for one in apps.get_models() if one._meta.label not in LEFT_OUT and not one._meta.proxy]
    return {one: set(one._base_manager.values_list("pk", flat=True)) for one in models}


def added(before: Keys, after: Keys) -> Keys:
    return {model: after[model] - before[model] for model in after if after[model] - before[model]}


@dataclass
class Watch:
    """Digests of these rows and of all that refer to them, so that a row which somebody adds counts, too."""

    queries: dict[str, tuple[str, tuple[Any, ...]]]  # by table; made once, because making them costs more than asking
    before: dict[str, str] | None = None

    @classmethod
    def of(cls, own: Keys) -> Watch:
        models = [one for one in apps.get_models() if one._meta.label not in LEFT_OUT and not one._meta.proxy]
        return cls({one._meta.label: _query(one, own) for one in models if one in own or _references(one, own)})

    def digests(self) -> dict[str, str]:
        return {label: _digest(*query) for label, query in self.queries.items()}

    def changed(self) -> list[str]:
        """The tables that changed since it was asked last."""
        before, self.before = self.before, self.digests()
        return [label for label, now in self.before.items() if before is not None and before[label] != now]


def _references(model: type[Model], own: Keys) -> list[tuple[str, type[Model]]]:
    fields = model._meta.concrete_fields
    return [(f.attname, f.related_model) for f in fields if f.related_model in own]  # type: ignore[misc]


def _query(model: type[Model], own: Keys) -> tuple[str, tuple[Any, ...]]:
    theirs = Q(pk__in=own.get(model, ()))
    for name, other in _references(model, own):
        theirs |= Q(**{f"{name}__in": own[other]})
    names = [f.attname for f in model._meta.concrete_fields if f.attname not in MOVING]
    return model._base_manager.filter(theirs).values_list(*names).query.sql_with_params()


def _digest(sql: str, params: tuple[Any, ...]) -> str:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        found = sorted(map(repr, cursor.fetchall()))
    return hashlib.sha256("\n".join(found).encode()).hexdigest()
