"""The tables of an installation, and their rows in a form that both databases read exactly.

A row is a list of JSON values in the order of the table's columns. JSON columns and encrypted columns are the text that
the database has; UUIDs, times, decimals and bytes are text in their usual forms. Derived columns are left out, and are
computed again when rows are inserted.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from allauth.usersessions.models import UserSession
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.duration import duration_iso_string

from apps.accounts.models import CacheEntry, UsedNonce
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.conversations.search import indexing
from apps.conversations.search.models import WordsField
from apps.conversations.uploads.models import Upload
from apps.housekeeping.models import Backup

Row = list[Any]
Encode = Callable[[Any], Any]

SEEDED = ("contenttypes.ContentType", "auth.Permission")
"""Tables that `migrate` fills. Rows refer to theirs by number, so a backup's replace them as a whole."""

LEFT_OUT_OF_FILES: dict[type[models.Model], str | None] = {
    Session: None,
    UserSession: None,
    CacheEntry: None,
    UsedNonce: None,
    Backup: None,
    Upload: "sha256 <> ''",
}
"""What a backup leaves out, or the condition of what it has: sign-ins, counts of attempts, used nonces, the list
of backups (a restored installation deletes none of them), and uploads under way (their bytes are no stored files yet).
"""


@dataclass(frozen=True)
class Table:
    """A model's table. `condition`: SQL of the rows that are read; "" for all."""

    model: type[models.Model]
    condition: str = ""

    @property
    def name(self) -> str:
        return str(self.model._meta.label_lower)

    @property
    def db_table(self) -> str:
        return str(self.model._meta.db_table)

    @cached_property
    def fields(self) -> list[models.Field[Any, Any]]:
        return [one for one in self.model._meta.local_concrete_fields if not isinstance(one, WordsField)]

    @cached_property
    def derived(self) -> list[WordsField]:
        return [one for one in self.model._meta.local_concrete_fields if isinstance(one, WordsField)]

    @property
    def columns(self) -> list[str]:
        return [str(field.column) for field in self.fields]

    @property
    def encrypted(self) -> list[int]:
        """The places of encrypted columns."""
        return [place for place, field in enumerate(self.fields) if isinstance(field, EncryptedTextField)]

    @property
    def sequence(self) -> str:
        """The column whose keys the database gives out; "" if there is none."""
        key = self.model._meta.pk
        return str(key.column) if isinstance(key, models.AutoField | models.BigAutoField) else ""

    def sql(self, database: BaseDatabaseWrapper, what: str = "") -> str:
        """A SELECT of the columns, or of `what`."""
        quote = database.ops.quote_name
        chosen = what or ", ".join(map(quote, self.columns))
        where = f" WHERE {self.condition}" if self.condition else ""
        return f"SELECT {chosen} FROM {quote(self.db_table)}{where}"  # noqa: S608

    def encoders(self, database: BaseDatabaseWrapper) -> list[Encode | None]:
        """For each column, what makes a row's value of the driver's; None where they are the same."""
        return [_encoder(field, self.db_table, database) for field in self.fields]

    def row_maker(self, database: BaseDatabaseWrapper) -> Callable[[Row], Sequence[Any]]:
        """What makes the parameters of an insert of a row: its columns, then the derived ones."""
        decoders = [
            (place, decode)
            for place, field in enumerate(self.fields)
            if (decode := _decoder(field, database)) is not None
        ]
        place_of = {field.name: place for place, field in enumerate(self.fields)}
        derived = [([place_of[name] for name in one.texts], place_of[one.group]) for one in self.derived]

        def make(row: Row) -> Sequence[Any]:
            words = [
                indexing.words_of("\n".join(row[place] for place in texts), row[group], database.vendor)
                for texts, group in derived
            ]
            for place, decode in decoders:
                if row[place] is not None:
                    row[place] = decode(row[place])
            return row + words

        return make


def all_tables(*, for_file: bool = False) -> list[Table]:
    """The tables, each after those that its rows refer to, as far as they do not refer to each other.

    `for_file`: without what a backup leaves out.
    """
    left_out = LEFT_OUT_OF_FILES if for_file else {}
    found = [one for one in _ordered(_stored_models()) if left_out.get(one, "") is not None]
    return [Table(model, left_out.get(model) or "") for model in found]


def seeded_tables() -> list[Table]:
    return [Table(apps.get_model(label)) for label in SEEDED]


def _stored_models() -> list[type[models.Model]]:
    every = apps.get_models(include_auto_created=True)
    return [model for model in every if model._meta.managed and not model._meta.proxy]


def _ordered(every: Iterable[type[models.Model]]) -> list[type[models.Model]]:
    """Foreign keys are checked at the commit, but cost less if the row that they name is there."""
    visited: set[type[models.Model]] = set()
    ordered: list[type[models.Model]] = []

    def visit(model: type[models.Model]) -> None:
        if model in visited:
            return
        visited.add(model)
        for field in model._meta.local_concrete_fields:
            if isinstance(field, models.ForeignKey):
                visit(cast(type[models.Model], field.related_model._meta.concrete_model))
        ordered.append(model)

    for model in every:
        visit(model)
    return ordered


def _encoder(field: models.Field[Any, Any], db_table: str, database: BaseDatabaseWrapper) -> Encode | None:
    target = _target(field)
    if isinstance(target, models.JSONField | EncryptedTextField):
        return None
    column: Any = target.get_col(db_table)
    converters = [*database.ops.get_db_converters(column), *target.get_db_converters(database)]
    if not converters and isinstance(target, models.CharField | models.TextField | models.IntegerField):
        return None

    def encode(value: Any) -> Any:
        for convert in converters:
            value = convert(value, column, database)
        return neutral(value)

    return encode


def neutral(value: Any) -> Any:
    """A Python value as a value of JSON. Raises TypeError for an unknown type."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case uuid.UUID() | decimal.Decimal():
            return str(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return duration_iso_string(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
    raise TypeError(f"A backup cannot hold a {type(value).__name__}.")


def _decoder(field: models.Field[Any, Any], database: BaseDatabaseWrapper) -> Encode | None:
    """What makes the driver's value of a row's; None if they are the same. It never gets None."""
    target = _target(field)
    if isinstance(target, models.BinaryField):
        return base64.b64decode
    if isinstance(target, models.DurationField):
        return lambda value: target.get_db_prep_save(target.to_python(value), database)
    if isinstance(target, models.JSONField | EncryptedTextField):
        return None
    if database.vendor == "postgresql":
        return None  # COPY takes the usual text of every type
    if isinstance(target, models.CharField | models.TextField | models.IntegerField | models.FloatField):
        return None
    if isinstance(target, models.UUIDField):
        return lambda value: str(value).replace("-", "")
    if isinstance(target, models.DateTimeField):
        adapt = database.ops.adapt_datetimefield_value
        return lambda value: adapt(datetime.datetime.fromisoformat(value))
    return lambda value: target.get_db_prep_save(target.to_python(value), database)


def _target(field: models.Field[Any, Any]) -> Any:
    """The field itself, or the field that a foreign key finally refers to."""
    return _target(field.target_field) if isinstance(field, models.ForeignKey) else field
