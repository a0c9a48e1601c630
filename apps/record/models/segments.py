"""What a fork shares with the contexts that it goes on from: stretches of their logs, of which nothing is copied."""

from __future__ import annotations

from django.db import models

from apps.record.models.record import Context

ENDLESS = models.BigIntegerField.MAX_BIGINT
"""`last` of the segment in which a fork goes on by itself."""


class Segment(models.Model):
    """Events `first` to `last` of a fork's log are those of `source`, with the messages and tasks that they brought.

    A source always has these lines itself: the segments of a fork of a fork name each context whose own they are. The
    last segment of a fork names the fork. A context that is no fork has none.
    """

    context = models.ForeignKey(Context, on_delete=models.CASCADE, db_index=False, related_name="segments")
    # With its owner a source goes together with its forks; alone it goes after what they need was moved (`erasure`).
    source = models.ForeignKey(Context, on_delete=models.RESTRICT, related_name="lent")
    first = models.PositiveBigIntegerField(help_text="Index of an event.")
    last = models.PositiveBigIntegerField(help_text="Index of an event.")

    class Meta:
        ordering = ["first"]
        constraints = [
            models.UniqueConstraint(fields=["context", "first"], name="segments_follow_each_other"),
            models.CheckConstraint(condition=models.Q(last__gte=models.F("first")), name="a_segment_has_events"),
        ]

    def __str__(self) -> str:
        return f"{self.first} to {self.last} of {self.source_id}"
