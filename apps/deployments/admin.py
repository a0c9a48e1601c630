"""Admin pages of agents' folders: upload one, see what became of it and what its process prints; and their secrets."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminPasswordWidget

from agentkit import HandlerError
from agentkit.command.packing import Packed
from apps.deployments import folders, processes, registering
from apps.deployments.models import AgentSecret, Deployment
from parley.faces.admin import ConsoleAdmin, LoggedAdmin, MenuItem, ReadOnlyAdmin, column, time_cell
from parley.faces.cells import Tone

State = Deployment.State


class UploadForm(forms.ModelForm):  # type: ignore[type-arg]
    """An archive of a folder."""

    file = forms.FileField(
        label="archive",
        help_text="A ZIP, tar or tar.gz file of a folder with an agent.yaml. Its code runs on this server.",
    )

    class Meta:
        model = Deployment
        fields = ("file", "slug", "access")

    def clean_file(self) -> Packed:
        """Raises ValidationError."""
        try:
            return folders.pack_archive(self.cleaned_data["file"].read())
        except HandlerError as error:
            raise forms.ValidationError(str(error)) from error


def _lines(text: str) -> Any:
    return format_html('<pre class="structure" tabindex="0">{}</pre>', text or "–")


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    menu = MenuItem("Registry", 6, "folder_zip", "Agents' folders")
    tones: ClassVar[Any] = {
        State.WAITING: Tone.QUEUED, State.WORKING: Tone.WORKING, State.DONE: Tone.DONE, State.FAILED: Tone.FAILED,
    }  # fmt: skip
    form = UploadForm
    search_fields = ("slug",)
    ordering = ("-created_at",)
    select_related = ("agent", "author")
    created = time_cell("created_at")
    folder_facts = column("folder", lambda row: f"{row.digest[:12]}, {row.files} files, {row.size // 1024 + 1} KiB")
    progress_lines = column("progress", lambda row: _lines(row.progress))
    printed = column("log", lambda row: _lines(processes.Place(row.slug, row.digest).log() or row.log))
    list_display = ("slug", "state", "agent", "version", "author", created)
    fields = ("slug", "state", "problem", progress_lines, "agent", "version", folder_facts, "author", created, printed)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return ConsoleAdmin.has_add_permission(self, request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return super().get_fields(request, obj) if obj else UploadForm.Meta.fields

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        begun = registering.begin(obj.slug, form.cleaned_data["file"], access=obj.access, author=request.user)  # type: ignore[arg-type]
        registering.DEPLOYMENTS.publish(begun.pk)
        obj.pk, obj._state.adding = begun.pk, False


class SecretForm(forms.ModelForm):  # type: ignore[type-arg]
    secret = forms.CharField(label="Value", widget=UnfoldAdminPasswordWidget, help_text="It is never shown again.")

    class Meta:
        model = AgentSecret
        fields = ("agent", "name")

    def save(self, commit: bool = True) -> Any:
        self.instance.value = self.cleaned_data["secret"]
        return super().save(commit)


@admin.register(AgentSecret)
class AgentSecretAdmin(LoggedAdmin):
    menu = MenuItem("Credentials", 5, "lock", "Of agents' processes")
    form = SecretForm
    autocomplete_fields = ("agent",)
    fields = ("agent", "name", "secret")
    list_display = ("name", "agent", "updated_at")
    list_select_related = ("agent",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("agent", "name") if obj else ()

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for row in queryset:
            row.delete()
