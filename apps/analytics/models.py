"""Sums of what agents did, by time, agent and version. All of it can be made again from the record."""

from __future__ import annotations

from django.db import models

MAX_LABEL = 200  # characters


class Figure(models.Model):
    """A sum for one agent and version in one span of time. `agent` and `version` are 0 where they do not apply.

    Plain numbers instead of foreign keys: a sum may outlive what it names until the next check.
    """

    span = models.PositiveIntegerField(help_text="Length, in seconds: five minutes, an hour or a day.")
    topic = models.CharField(max_length=20, help_text="See `counting`.")
    start = models.PositiveBigIntegerField(help_text="Seconds since 1970.")
    agent = models.PositiveBigIntegerField()
    version = models.PositiveIntegerField()
    label = models.CharField(max_length=MAX_LABEL)
    number = models.BigIntegerField()
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cost = models.BigIntegerField(help_text="Millionths of the installation's currency.")

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["span", "topic", "start", "agent", "version", "label"], name="one_sum_of_each_kind"
            )
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.label}: {self.number}"


class CountedHour(models.Model):
    """What the sums of an hour were made from, to notice rows that were added or deleted later."""

    source = models.CharField(max_length=20)
    start = models.PositiveBigIntegerField(help_text="Seconds since 1970.")
    rows = models.PositiveBigIntegerField()
    seconds = models.PositiveBigIntegerField(help_text="The sum of the rows' seconds within the hour.")

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["source", "start"], name="an_hour_is_counted_once")]

    def __str__(self) -> str:
        return f"{self.source} {self.start}: {self.rows}"


class Position(models.Model):
    """How far a source has been counted, and checked."""

    source = models.CharField(max_length=20, primary_key=True)
    until = models.DateTimeField(help_text="Rows before it are in the sums, others are not.")
    checked = models.PositiveBigIntegerField(default=0, help_text="Where the next check begins; seconds since 1970.")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.source} until {self.until}"


class StorageSize(models.Model):
    """What a kind of stored data takes, as measured last."""

    name = models.CharField(max_length=20, primary_key=True)
    bytes = models.PositiveBigIntegerField()
    rows = models.PositiveBigIntegerField(null=True)
    measured_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.bytes} bytes"
