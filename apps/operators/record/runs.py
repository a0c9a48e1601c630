"""Runs: who executes a turn, for how long still, and how it went."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.utils.safestring import SafeString

from apps.agents.models import AgentVersion
from apps.operators.record import columns
from apps.operators.record.live import LiveAdmin
from apps.record.models import Message, Run, Task
from apps.record.usage import Spent
from console import cells
from console.records import structured, timed


@admin.register(Run)
class RunAdmin(LiveAdmin):
    list_display = (
        columns.id_,
        columns.run_state,
        columns.task,
        columns.turn,
        columns.attempt,
        columns.worker,
        columns.lease,
        columns.queued,
        columns.took,
        columns.problem,
    )
    list_filter = ("state",)
    search_fields = ("worker",)
    search_help_text = "Id of a run or task, or a worker"
    id_lookups = ("pk", "task_id")
    date_hierarchy = "queued_at"
    ordering = ("-queued_at",)
    select_related = ("task", "message", "agent")
    narrowings = {"task__id__exact": ("task", Task)}
    fields = (
        "key",
        "fence",
        "interrupted",
        "resumed",
        *map(timed, ("queued_at", "published_at", "started_at", "finished_at")),
        "answers",
        "stand_in",
        "version",
        "input_hash_",
        "trace",
        "language_models",
        *map(structured, ("error", "notes", "input", "memory", "slot", "remote")),
    )

    @display(description="id")
    def key(self, run: Run) -> SafeString:
        return cells.ident(run.pk)

    @display(description="message")
    def answers(self, run: Run) -> SafeString:
        return cells.ident(run.message.message_id, cells.page_url(Message, run.message_id))

    @display(description="taken by")
    def stand_in(self, run: Run) -> SafeString:
        return columns.agent(run)

    @display(description="trace")
    def trace(self, run: Run) -> SafeString:
        return cells.ident(run.traceparent)

    @display(description="version of the agent")
    def version(self, run: Run) -> SafeString:
        used = run.input.get("agent")
        return cells.link(used["number"], cells.page_url(AgentVersion, used["version"])) if used else cells.NOTHING

    @display(description="language models")
    def language_models(self, run: Run) -> SafeString:
        return cells.lines(Spent.of([run.usage]).lines)

    @display(description="input hash")
    def input_hash_(self, run: Run) -> SafeString:
        return cells.ident(run.input_hash)
