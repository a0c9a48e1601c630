"""What an agent's own work says about it, as `features.health` measures it: for operators and for ranking."""

from __future__ import annotations

from django.db import models


class AgentStats(models.Model):
    """The measured facts of an agent, as of `updated_at`. Times are in seconds; None where nothing was measured.

    A "recent" run is one of the agent's newest `measuring.RUNS` that came to an end by themselves: what a person
    stopped is neither success nor failure.
    """

    agent = models.OneToOneField("agents.Agent", on_delete=models.CASCADE, primary_key=True, related_name="stats")
    runs = models.PositiveIntegerField(default=0, help_text="Recent runs.")
    succeeded = models.PositiveIntegerField(default=0, help_text="Recent runs that did not fail.")
    newest_runs = models.PositiveSmallIntegerField(default=0, help_text="The newest of them, by which health is told.")
    newest_succeeded = models.PositiveSmallIntegerField(default=0)
    took_p50 = models.FloatField(null=True, help_text="Of recent turns that succeeded: from start to end.")
    took_p95 = models.FloatField(null=True)
    waited_p50 = models.FloatField(null=True, help_text="Of the same: from the message to the start.")
    waited_p95 = models.FloatField(null=True)
    input_tokens = models.PositiveBigIntegerField(default=0, help_text="Of language models, in recent runs.")
    output_tokens = models.PositiveBigIntegerField(default=0)
    queued = models.PositiveIntegerField(default=0, help_text="Turns that waited at that moment.")
    running = models.PositiveIntegerField(default=0)
    tasks = models.PositiveBigIntegerField(default=0, help_text="How often a task was the answer.")
    messages = models.PositiveBigIntegerField(default=0, help_text="How often a message was.")
    tasks_of_a_day = models.PositiveIntegerField(default=0, help_text="In the last 24 hours.")
    messages_of_a_day = models.PositiveIntegerField(default=0)
    # What was counted up to a time that no transaction is older than, so that it need not be counted again.
    counted_to = models.DateTimeField(null=True)
    tasks_counted = models.PositiveBigIntegerField(default=0)
    messages_counted = models.PositiveBigIntegerField(default=0)
    ratings = models.PositiveIntegerField(default=0, help_text="Tasks that somebody gave stars.")
    mean_rating = models.FloatField(null=True, help_text="From 1 to 5; of each task the newest counts.")
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "agent stats"

    def __str__(self) -> str:
        return f"stats of {self.agent_id}"

    @property
    def success_rate(self) -> float | None:
        return self.succeeded / self.runs if self.runs else None

    @property
    def latency_ms(self) -> int | None:
        return latency_ms(self.took_p50, self.waited_p50)


def latency_ms(took: float | None, waited: float | None) -> int | None:
    """How long a caller waits for a turn, given the seconds that it takes and those before it starts."""
    return None if took is None else round(1000 * (took + (waited or 0.0)))
