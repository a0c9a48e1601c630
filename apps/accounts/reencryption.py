"""Bringing every secret at rest under the newest master key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models, transaction
from django.db.models.functions import Cast

from apps.accounts.encrypted import EncryptedTextField
from apps.accounts.keyring import CannotDecrypt, keyring

BATCH = 200


@dataclass(slots=True)
class Count:
    """What became of the values of one column that were not under the newest key."""

    column: str  # table.column
    renewed: int = 0
    unreadable: int = 0
    reason: str = ""  # why the last unreadable one was


def encrypted_fields() -> Iterator[EncryptedTextField]:
    """Every encrypted column of every model."""
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.local_concrete_fields:
            if isinstance(field, EncryptedTextField):
                yield field


def renew(field: EncryptedTextField) -> Count:
    """Encrypt the column's values anew that are under older keys.

    It may be ended at any moment and begun again: what is under the newest key is not touched. A value that changes
    meanwhile is left alone.
    """
    count, last = Count(field.place), None
    while rows := _older(field, after=last):
        last = rows[-1][0]
        with transaction.atomic():
            for key, stored in rows:
                _renew_one(field, key, stored, count)
    return count


def _stored(field: EncryptedTextField) -> models.QuerySet[Any]:
    """The rows of the column's model, with the value as it is stored."""
    return field.model._base_manager.annotate(stored=Cast(models.F(field.name), models.TextField()))


def _older(field: EncryptedTextField, *, after: Any) -> list[tuple[Any, str]]:
    older = _stored(field).exclude(stored="").exclude(stored=None)
    older = older.exclude(stored__startswith=keyring().current_prefix).order_by("pk")
    if after is not None:
        older = older.filter(pk__gt=after)
    return list(older.values_list("pk", "stored")[:BATCH])


def _renew_one(field: EncryptedTextField, key: Any, stored: str, count: Count) -> None:
    try:
        text = keyring().decrypt(stored, field.place)
    except CannotDecrypt as error:
        count.unreadable, count.reason = count.unreadable + 1, str(error)
    else:
        count.renewed += _stored(field).filter(pk=key, stored=stored).update(**{field.name: text})
