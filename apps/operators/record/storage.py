"""Idempotency keys, and content that is kept in files."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import display
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString

from apps.accounts.models import Workspace
from apps.agents.models import Agent
from apps.features.uploads.models import Upload
from apps.operators.record import columns
from apps.record.models import Accepted, Blob, Message
from console import cells
from console.records import ReadOnlyAdmin, timed


@admin.register(Accepted)
class AcceptedAdmin(ReadOnlyAdmin):
    list_display = (columns.message_id, "sender", "agent_", columns.task, "answer_", columns.created)
    list_filter = ("agent",)
    list_select_related = ("agent",)
    list_display_links = (columns.created,)
    search_fields = ("=message_id", "=sender")
    search_help_text = "Id of a message or task, or a sender"
    id_lookups = ("message_id", "task_id")
    ordering = ("-pk",)
    narrowings = {"agent__id__exact": ("agent", Agent)}
    fields = (
        columns.message_id,
        "sender",
        "agent_",
        columns.task,
        "answer_",
        columns.created,
        timed("claimed_until"),
        "hash_",
    )

    @display(description="agent", ordering="agent__name")
    def agent_(self, accepted: Accepted) -> SafeString:
        return cells.link(accepted.agent.name, cells.page_url(Agent, accepted.agent_id))

    @display(description="answer")
    def answer_(self, accepted: Accepted) -> SafeString:
        return cells.row_id(Message, accepted.answer_id)

    @display(description="hash of the body")
    def hash_(self, accepted: Accepted) -> SafeString:
        return cells.ident(accepted.body_hash)


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    list_display = ("digest", "bytes", "uses", "workspace_", columns.created)
    list_select_related = ("workspace",)
    search_fields = ("=sha256",)
    search_help_text = "SHA-256"
    ordering = ("-pk",)
    narrowings = {"workspace__id__exact": ("workspace", Workspace)}
    fields = ("digest", "bytes", "uses", "workspace_", columns.created)

    @display(description="SHA-256", ordering="sha256")
    def digest(self, blob: Blob) -> SafeString:
        return cells.ident(blob.sha256, cells.page_url(Blob, blob.pk))

    @display(description="size", ordering="size")
    def bytes(self, blob: Blob) -> str:
        return filesizeformat(blob.size)

    @display(description="workspace", ordering="workspace__name")
    def workspace_(self, blob: Blob) -> SafeString:
        return cells.link(blob.workspace, cells.page_url(Workspace, blob.workspace_id))


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    list_display = ("filename", "owner", "bytes", "is_whole_", timed("created_at"), timed("expires_at"))
    list_select_related = ("owner",)
    search_fields = ("=id", "=sha256", "=owner__email")
    search_help_text = "Id, SHA-256, or an owner's e-mail address"
    ordering = ("-created_at",)
    narrowings = {"workspace__id__exact": ("workspace", Workspace)}
    fields = (
        "filename",
        "owner",
        "bytes",
        "claimed",
        "media_type",
        "digest",
        "is_whole_",
        timed("created_at"),
        timed("expires_at"),
    )

    @display(description="size", ordering="size")
    def bytes(self, upload: Upload) -> str:
        return filesizeformat(upload.size)

    @display(description="whole", boolean=True)
    def is_whole_(self, upload: Upload) -> bool:
        return upload.is_whole

    @display(description="SHA-256")
    def digest(self, upload: Upload) -> SafeString:
        return cells.ident(upload.sha256)
