"""The library in the browser: lists, a prompt with its form and versions, what the composer asks for, and files."""

from __future__ import annotations

import io
import json
import uuid
from http import HTTPStatus
from typing import Any, cast

from django import forms
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import DRAFT_PREFIX, Agent
from apps.automation import targets
from apps.conversations.pages.session.sending import json_action, message_id
from apps.optional.prompts import documents, library
from apps.optional.prompts.models import Prompt
from apps.record.errors import InvalidFields, InvalidParams, Refusal
from apps.web.resources import MOST_SHOWN, Pages, ResourceForm, do
from apps.web.shell import as_reader, page, principal_of, reader_view
from parley import db

MOST_OPTIONS = 500  # of a composer's list
FIELD = "answer-"  # before a variable's name, as in `schema_forms`


class PromptForm(ResourceForm):
    class Meta(ResourceForm.Meta):
        model = Prompt
        fields = ("name", "slug", "text", "description", "tags", "is_shared")
        widgets = {"text": forms.Textarea({"rows": 12, "dir": "auto"})}


class PromptPages(Pages[Prompt]):
    def list(self, request: HttpRequest) -> HttpResponse:
        words = request.GET.get("q", "").replace("\x00", "").strip()[:200]
        rows = self.resource.visible_to(principal_of(request))
        for word in words.split():
            parts = (Q(**{f"{name}__icontains": word}) for name in ("name", "slug", "tags", "description"))
            rows = rows.filter(next(parts) | next(parts) | next(parts) | next(parts))
        return page(request, "prompts/prompts.html", rows=rows[:MOST_SHOWN], pages=self, words=words)

    def edit(self, request: HttpRequest, **key: uuid.UUID) -> HttpResponse:
        """Others copy a prompt instead."""
        if key and not library.may_change(principal_of(request), self.find(request, **key)):
            return redirect(self.names["one"], *key.values())
        return super().edit(request, **key)

    def saved(self, request: HttpRequest, row: Prompt, *, is_new: bool) -> HttpResponse:
        """A manager who ends the sharing of another's prompt does not see it any more."""
        is_seen = self.resource.visible_to(principal_of(request)).filter(pk=row.pk).exists()
        return redirect(self.names["one"], row.pk) if is_seen else redirect(self.names["list"])


def _context(request: HttpRequest, prompt: Prompt) -> dict[str, Any]:
    principal = principal_of(request)
    is_ours = library.may_change(principal, prompt)
    acts = [act for act in library.PROMPTS.acts if is_ours or act is not library.DELETE]
    agents = Agent.objects.visible_to(principal).listed().exclude(slug__startswith=DRAFT_PREFIX).order_by("name")
    versions = library.VERSIONS.visible_to(principal).filter(prompt=prompt)
    about = {"fields": prompt.template.fields, "agents": agents, "message": uuid.uuid4(), "versions": versions}
    return {**about, "acts": acts, "is_others": not is_ours}


pages = PromptPages(library.PROMPTS, PromptForm, context=_context)


@require_POST
@login_required
def restore_version(request: HttpRequest, prompt: uuid.UUID, version: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    versions = library.VERSIONS.visible_to(principal).filter(prompt=pages.find(request, prompt=prompt))
    do(request, library.RESTORE, versions.find(principal, version))
    return redirect(pages.names["one"], prompt)


# For the composer


@reader_view
def prompt_options(request: HttpRequest) -> HttpResponse:
    """The options of the list after a /."""
    return render(request, "prompts/_options.html", {"prompts": library.usable(principal_of(request))[:MOST_OPTIONS]})


@reader_view
def prompt_fields(request: HttpRequest, prompt: uuid.UUID) -> HttpResponse:
    """The form of a prompt's variables."""
    found = pages.find(request, prompt=prompt)
    return render(request, "prompts/_fill.html", {"prompt": found, "fields": found.template.fields})


@json_action
async def prompt_text(request: HttpRequest, principal: Principal, prompt: uuid.UUID) -> HttpResponse:
    """The text with the form's values."""
    return JsonResponse({"text": await db.run(_text, principal, prompt, request)})


@json_action
async def start_session(request: HttpRequest, principal: Principal, prompt: uuid.UUID) -> HttpResponse:
    """Begin a session with the text, once for each form."""
    address = await db.run(_begin, principal, cast("User", await request.auser()), prompt, request)
    return JsonResponse({"address": address}, status=HTTPStatus.CREATED)


def _begin(principal: Principal, user: User, prompt: uuid.UUID, request: HttpRequest) -> str:
    agent = targets.find_target(principal, request.POST.get("agent", ""))
    key, text = message_id(request), _text(principal, prompt, request)
    receipt = targets.start(user, cast("int", principal.workspace_id), agent, key=key, text=text, inputs={})
    return reverse("web:session", args=[receipt.context])


def _text(principal: Principal, prompt: uuid.UUID, request: HttpRequest) -> str:
    """Raises NotFound, InvalidParams at the form's field."""
    found = library.PROMPTS.find(principal, prompt)
    names = [name for name in request.POST if name.startswith(FIELD)]
    try:
        return library.use(principal, found, {name.removeprefix(FIELD): request.POST[name] for name in names})
    except InvalidFields as refused:
        place, sentence = refused.violations[0]
        raise InvalidParams(sentence, place.replace("values.", FIELD, 1)) from None


# Files


class ImportForm(forms.Form):
    file = forms.FileField(
        label="File",
        widget=forms.FileInput({"accept": ".json,.md,.markdown,.txt,.zip"}),
        help_text="JSON, Markdown with front matter, or a ZIP file of such. Open WebUI's export of prompts, too.",
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def import_prompts(request: HttpRequest) -> HttpResponse:
    form = ImportForm(request.POST or None, request.FILES or None)
    done = None
    if request.method == "POST" and form.is_valid():
        file = form.cleaned_data["file"]
        try:
            done = documents.take(principal_of(request), documents.read(file.name or "", _content(file)))
        except (Refusal, QuotaExceeded) as refusal:
            form.add_error("file", str(refusal))
    with as_reader(request):
        return page(request, "prompts/import.html", form=form, done=done, pages=pages)


def _content(file: Any) -> bytes:
    return cast("bytes", file.read(documents.MOST_BYTES + 1))


@reader_view
def export_prompts(request: HttpRequest) -> HttpResponseBase:
    """The person's own of this workspace: `as=json`, or `as=markdown` in a ZIP file."""
    own = Prompt.objects.filter(**principal_of(request).own()).order_by("slug")
    match request.GET.get("as", "json"):
        case "json":
            text = json.dumps(documents.document_of(own), ensure_ascii=False, indent=2)
            return _file(text.encode(errors="replace"), "prompts.json", "application/json")
        case "markdown":
            return _file(documents.zip_of(own), "prompts.zip", "application/zip")
    raise Http404


def _file(content: bytes, name: str, media_type: str) -> FileResponse:
    response = FileResponse(io.BytesIO(content), as_attachment=True, filename=name, content_type=media_type)
    response["X-Content-Type-Options"] = "nosniff"
    return response


urlpatterns = [
    path("prompts/options", prompt_options, name="prompt-options"),
    path("prompts/import", import_prompts, name="prompts-import"),
    path("prompts/export", export_prompts, name="prompts-export"),
    *pages.urls(),
    path("prompts/<uuid:prompt>/fields", prompt_fields, name="prompt-fields"),
    path("prompts/<uuid:prompt>/text", prompt_text, name="prompt-text"),
    path("prompts/<uuid:prompt>/start", start_session, name="prompt-start"),
    path("prompts/<uuid:prompt>/versions/<uuid:version>", restore_version, name="prompt-restore"),
]
