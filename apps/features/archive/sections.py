"""Which rows are a session's own: its events, tasks and messages, and all that cannot be without one of those.

It is read from the models, so that a table that is added later, of whatever layer, goes along by itself.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import models

from apps.accounts.encrypted import EncryptedTextField
from apps.record.models import Context, Event, Message, Task

JSON = dict[str, Any]
Row = dict[str, Any]

ROOTS: tuple[type[models.Model], ...] = (Event, Task, Message)


@dataclass(frozen=True)
class Section:
    """The rows of one model, which belong to a session by way of `field`: a context, or a row of `of`."""

    model: type[models.Model]
    field: str
    of: Section | None = None

    @property
    def name(self) -> str:
        return str(self.model._meta.label_lower)

    def rows(self, context: Context) -> models.QuerySet[Any]:
        whose: Any = context if self.of is None else self.of.rows(context).values("pk")
        lookup = self.field if self.of is None else f"{self.field}__in"
        return self.model._base_manager.filter(**{lookup: whose}).order_by("pk")

    @property
    def secrets(self) -> list[str]:
        """The columns that are encrypted: what is in them never leaves the database."""
        return [field.name for field in self.model._meta.local_fields if isinstance(field, EncryptedTextField)]


@dataclass(frozen=True)
class Pointer:
    """A column that may name a row of a session, in rows that are not the session's own."""

    model: type[models.Model]
    field: str
    to: Section

    @property
    def name(self) -> str:
        return str(self.model._meta.label_lower)

    def rows(self, context: Context) -> models.QuerySet[Any]:
        pointing = self.model._base_manager.filter(**{f"{self.field}__in": self.to.rows(context).values("pk")})
        own = by_name().get(self.name)
        return pointing.exclude(pk__in=own.rows(context).values("pk")) if own else pointing


@cache
def all_sections() -> tuple[Section, ...]:
    """Every section; one that hangs on another comes after it."""
    found = [Section(model, "context") for model in ROOTS]
    for section in found:  # which grows meanwhile
        for relation in _relations(section.model):
            known = relation.related_model in (one.model for one in found)
            if not known and not relation.field.null and relation.on_delete is models.CASCADE:
                found.append(Section(relation.related_model, relation.field.name, section))
    return tuple(found)


@cache
def by_name() -> dict[str, Section]:
    return {section.name: section for section in all_sections()}


@cache
def pointers() -> tuple[Pointer, ...]:
    """The columns that are emptied while what they name is in a file, and filled again when it is back."""
    return tuple(
        Pointer(relation.related_model, relation.field.name, section)
        for section in all_sections()
        for relation in _relations(section.model)
        if relation.field.null and relation.field.db_constraint
    )


def _relations(model: type[models.Model]) -> Iterator[Any]:
    """The foreign keys to a model, also those that it cannot be asked for (`related_name="+"`)."""
    for relation in model._meta.get_fields(include_hidden=True):
        is_key = relation.auto_created and not relation.concrete and (relation.one_to_many or relation.one_to_one)
        related: Any = relation.related_model
        if is_key and not related._meta.proxy:
            yield relation


def holds_secrets(context: Context) -> bool:
    """Has the session rows with something in an encrypted column?"""
    for section in all_sections():
        for name in section.secrets:
            if any(section.rows(context).values_list(name, flat=True).iterator()):
                return True
    return False


def written(row: models.Model) -> Row:
    """A row as JSON: every column by its name."""
    return {field.attname: _plain(field.value_from_object(row)) for field in row._meta.local_concrete_fields}


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def read(model: type[models.Model], row: Row) -> models.Model:
    """The row that was written. A column that was added since has its default, and one that was removed is left out."""
    fields = {field.attname: field for field in model._meta.local_concrete_fields}
    values = {name: _value(fields[name], value) for name, value in row.items() if name in fields}
    return model(**values)


def _value(field: Any, value: Any) -> Any:
    if isinstance(field, models.JSONField):
        return value
    return (field.target_field if field.is_relation else field).to_python(value)
