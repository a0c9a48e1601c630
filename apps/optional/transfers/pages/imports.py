"""Importing conversations: a file is looked at, what it gives is shown, and the person says what to import."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded, count_act
from apps.agents.models import DRAFT_PREFIX, Agent
from apps.conversations.uploads import resumable
from apps.conversations.uploads.models import Upload
from apps.optional.transfers.formats import FORMATS, SKIPPED_WORDS
from apps.optional.transfers.importing import Import, Outcome, import_file, preview
from apps.record.content import blobs
from apps.record.errors import Refusal
from apps.web.settings.sections import private_view, settings_page
from apps.web.shell import principal_of

LISTED = 300  # conversations to choose from; later ones are imported with them


class ImportForm(forms.Form):
    """A new file, or one that is there as an upload: then `listed` keys of conversations that are not in `take`, and
    those in `without`, are left out.
    """

    file = forms.FileField(
        label="File", required=False, widget=forms.FileInput({"accept": ".zip,.json,.jsonl", "required": True})
    )
    agent = forms.ModelChoiceField(
        Agent.objects.none(),
        to_field_name="slug",
        label="Agent",
        empty_label=None,
        help_text="It answers when you continue an imported conversation.",
    )
    upload = forms.UUIDField(required=False, widget=forms.HiddenInput)
    listed = forms.CharField(required=False, widget=forms.HiddenInput)
    without = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, principal: Principal, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.fields["file"].help_text = (
            "The ZIP file as you got it, or a JSON file of it."
            f" At most {settings.MAX_UPLOAD_BYTES // resumable.MEGABYTE} MB."
        )
        usable = Agent.objects.visible_to(principal).exclude(slug__startswith=DRAFT_PREFIX)
        cast("forms.ModelChoiceField[Agent]", self.fields["agent"]).queryset = usable.order_by("name")

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if not (found.get("file") or found.get("upload") or self.errors):
            raise ValidationError({"file": "Choose a file."})
        return found

    @property
    def left_out(self) -> set[str]:
        listed = set(filter(None, self.cleaned_data["listed"].split(",")))
        taken = set(cast("Any", self.data).getlist("take"))
        return (listed - taken) | set(filter(None, self.cleaned_data["without"].split(",")))


@private_view
def import_conversations(request: HttpRequest) -> HttpResponse:
    """Shows what a file has; with `step=import`, imports it and lists what became of its conversations."""
    if request.method != "POST":
        return redirect("web:settings-data")
    principal = principal_of(request)
    form, about = ImportForm(principal, request.POST, request.FILES), dict[str, Any]()
    if form.is_valid():
        try:
            count_act(principal)
            about = _imported(principal, form) if request.POST.get("step") == "import" else _previewed(principal, form)
        except (Refusal, QuotaExceeded) as refusal:
            form.add_error("file", str(refusal))
    return settings_page(
        request, "data", form, template="transfers/settings_import.html", imports=form, formats=FORMATS, **about
    )


def _previewed(principal: Principal, form: ImportForm) -> dict[str, Any]:
    file: UploadedFile[bytes] | None = form.cleaned_data["file"]
    if file is None:
        upload = form.cleaned_data["upload"]
    else:
        upload = resumable.store_at_once(principal, file.name or "", file.size or 0, file.chunks()).pk
    found = _with_file(principal, upload, lambda content: preview(principal, content))
    ready, skipped = found.of(Outcome.READY), found.of(Outcome.SKIPPED)
    listed = ready[:LISTED]
    return {
        "preview": found,
        "upload": upload,
        "agent": form.cleaned_data["agent"],
        "ready": len(ready),
        "listed": listed,
        "listed_keys": ",".join(one.key for one in listed),
        "more": len(ready) - len(listed),
        "skipped": skipped[:LISTED],
        "skipped_count": len(skipped),
        "existing": len(found.of(Outcome.EXISTING)),
        "not_taken": _not_taken(found),
    }


def _imported(principal: Principal, form: ImportForm) -> dict[str, Any]:
    left_out, agent, upload = form.left_out, form.cleaned_data["agent"], form.cleaned_data["upload"]
    wanted = lambda key: key not in left_out  # noqa: E731
    done = _with_file(principal, upload, lambda content: import_file(principal, agent, content, is_wanted=wanted))
    if not done.remaining:
        resumable.discard_upload(Upload.objects.find(principal, upload))
    return {
        "imported": done,
        "upload": upload,
        "agent": agent,
        "without": ",".join(sorted(left_out)),
        "existing": len(done.of(Outcome.EXISTING)),
        "skipped": done.of(Outcome.SKIPPED)[:LISTED],
        "skipped_count": len(done.of(Outcome.SKIPPED)),
        "not_taken": _not_taken(done),
    }


def _with_file(principal: Principal, upload: Any, act: Callable[[Any], Import]) -> Import:
    """Raises UploadNotFound, InvalidParams."""
    with closing(blobs.open_content(resumable.message_part(principal, upload))) as file:
        return act(file)


def _not_taken(found: Import) -> list[str]:
    said = [f"{SKIPPED_WORDS[reason].capitalize()}: {number:,}" for reason, number in sorted(found.skipped.items())]
    return [*said, f"Other files of the ZIP file: {', '.join(found.unread)}"] if found.unread else said
