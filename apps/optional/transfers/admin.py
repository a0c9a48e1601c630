"""Admin page of the archives of accounts. Operators see how far they are, never the files."""

from __future__ import annotations

from django.contrib import admin
from django.template.defaultfilters import filesizeformat

from apps.optional.transfers.models import Export
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column
from parley.faces.cells import Tone


@admin.register(Export)
class ExportAdmin(ReadOnlyAdmin):
    menu = MenuItem("Record", 9, "download")
    tones = {
        Export.State.WAITING: Tone.QUEUED,
        Export.State.WORKING: Tone.WORKING,
        Export.State.DONE: Tone.DONE,
        Export.State.FAILED: Tone.FAILED,
        Export.State.DELETED: Tone.STOPPED,
    }
    list_display = (
        "id", "state", "owner", column("sessions", lambda row: f"{row.sessions_done:,} of {row.sessions:,}"),
        column("size", lambda row: filesizeformat(row.size), "size"), "created_at", "expires_at",
    )  # fmt: skip
    list_filter = ("state",)
    search_fields = ("owner__email",)
    ordering = ("-created_at",)
    fields = (
        "state", "owner", "fence", "sessions", "sessions_done", "size", "problem", "created_at", "lease_until",
        "finished_at", "expires_at",
    )  # fmt: skip
    select_related = ("owner",)
