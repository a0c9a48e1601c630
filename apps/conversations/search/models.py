"""The full-text index. It can be rebuilt from the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.visibility import VisibleQuerySet
from apps.record.models import Context


class WordsField(models.Field):  # type: ignore[type-arg]
    """The words of a text in order: a tsvector on PostgreSQL, on SQLite the text for FTS5 (`indexing.words_value`).

    `texts` names the fields with the text, and `group` the field by whose value the index finds a group of rows.
    """

    def __init__(self, *args: Any, texts: Sequence[str] = ("text",), group: str = "owner", **options: Any) -> None:
        super().__init__(*args, **options)
        self.texts, self.group = tuple(texts), group

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, values, options = super().deconstruct()
        if self.texts != ("text",):
            options["texts"] = self.texts
        if self.group != "owner":
            options["group"] = self.group
        return name, path, values, options

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "text"


class SearchEntryQuerySet(VisibleQuerySet["SearchEntry"]):
    def visible_to(self, principal: Principal) -> SearchEntryQuerySet:
        """The entries of a caller's own sessions; an anonymous caller finds nothing."""
        own = (
            self.filter(owner=principal.user_id, context__workspace=principal.workspace_id, context__deleted_at=None)
            if principal.is_known
            else self.none()
        )
        return principal.only_agents(own, "context__agent")


class SearchEntry(models.Model):
    """A message, a delivered artifact, or the title of a session.

    Its relations have no database constraint, whose check would lock the context.
    """

    class Kind(models.TextChoices):
        SESSION = "session", "title of a session"
        MESSAGE = "message"
        ARTIFACT = "artifact"

    context = models.ForeignKey(
        Context, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="search_entries"
    )
    owner = models.ForeignKey(User, on_delete=models.CASCADE, db_constraint=False, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind)
    key = models.CharField(max_length=250, blank=True, help_text="Of a message its id, of an artifact task/artifact.")
    index = models.PositiveBigIntegerField(help_text="Index of the event that brought it.")
    at = models.DateTimeField()
    name = models.CharField(max_length=250, blank=True, help_text="Of an artifact; of a message its role.")
    text = models.TextField(help_text="As far as it is searched: excerpts are made of it.")
    words = WordsField()

    objects: ClassVar[Any] = SearchEntryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "search entries"
        constraints = [models.UniqueConstraint(fields=["context", "kind", "key"], name="found_in_one_entry")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class SearchWords(models.Model):
    """SQLite's FTS5 table over the entries' words (`search.sql`)."""

    entry = models.OneToOneField(
        SearchEntry, primary_key=True, db_column="rowid", on_delete=models.DO_NOTHING, related_name="found"
    )
    match = models.TextField(db_column="search_searchwords")  # FTS5: a column of the table's name
    rank = models.FloatField(help_text="Less than 0, and less the better.")

    class Meta:
        managed = False
        db_table = "search_searchwords"

    def __str__(self) -> str:
        return f"words of {self.pk}"


class Indexed(models.Model):
    """How far a session's log is indexed. Lock its row before changing entries of the session."""

    context = models.OneToOneField(
        Context, primary_key=True, on_delete=models.CASCADE, db_constraint=False, related_name="indexed"
    )
    upto = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "indexed contexts"

    def __str__(self) -> str:
        return f"{self.context_id} up to {self.upto}"


class Progress(models.Model):
    """How far the job has read the record. There is one row (`jobs`)."""

    event = models.PositiveBigIntegerField(help_text="Events up to this key are indexed.")
    next_event = models.PositiveBigIntegerField(help_text="The newest event when the job looked last.")
    writers = models.JSONField(default=list, help_text="Transactions that may still add events before that one.")
    checked = models.UUIDField(null=True, help_text="While all sessions are checked: up to this one.")
    checked_at = models.DateTimeField(null=True, help_text="When all sessions were checked last.")

    class Meta:
        default_permissions = ()
        verbose_name_plural = "progress"

    def __str__(self) -> str:
        return f"up to event {self.event}"
