"""Admin page of the archives of accounts. Operators see how far they are, never the files."""

from __future__ import annotations

from django.contrib import admin
from django.template.defaultfilters import filesizeformat

from apps.operators import columns
from apps.transfers.models import Export
from console.admin import ReadOnlyAdmin, column, page_link, related_cell, state_cell, time_cell
from console.cells import Tone

TONES = {
    Export.State.WAITING: Tone.QUEUED,
    Export.State.WORKING: Tone.WORKING,
    Export.State.DONE: Tone.DONE,
    Export.State.FAILED: Tone.FAILED,
    Export.State.DELETED: Tone.STOPPED,
}


@admin.register(Export)
class ExportAdmin(ReadOnlyAdmin):
    list_display = (
        page_link("id"),
        state_cell("state", TONES),
        related_cell("owner", text="email"),
        column("sessions", lambda row: f"{row.sessions_done:,} of {row.sessions:,}"),
        column("size", lambda row: filesizeformat(row.size), "size"),
        columns.created,
        time_cell("expires_at", "expires"),
    )
    list_filter = ("state",)
    search_fields = ("owner__email",)
    ordering = ("-created_at",)
    fields = (
        state_cell("state", TONES), related_cell("owner", text="email"), "attempt", "sessions", "sessions_done", "size",
        "problem", columns.created, time_cell("lease_until"), time_cell("finished_at"), time_cell("expires_at"),
    )  # fmt: skip
    select_related = ("owner",)
