"""Settings → Memory: instructions, entries, and which agent may know them."""

from __future__ import annotations

from typing import cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.accounts.pages.account import saved
from apps.accounts.principals import WRITE, Principal, check_allowed
from apps.agents.models import Agent
from apps.optional.memory import remembering, rights
from apps.optional.memory.models import AgentMemory, MemoryEntry, PersonalInstructions
from apps.record.errors import Refusal
from apps.record.models import Context
from apps.web.resources import ProjectField, ResourceForm, words_of
from apps.web.settings.resources import SectionPages
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import agent_or_404, principal_of

FORM = "instructions"  # of a POST to the section


class EntryForm(ResourceForm):
    project = ProjectField("All sessions", label="Who is told")

    class Meta(ResourceForm.Meta):
        model = MemoryEntry
        fields = ("text", "project")


class InstructionsForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta(ResourceForm.Meta):
        model = PersonalInstructions
        fields = ("text", "is_on", "has_memory")
        widgets = {"text": forms.Textarea({"rows": 6, "dir": "auto"})}


class MemoryPages(SectionPages[MemoryEntry]):
    def list(self, request: HttpRequest) -> HttpResponse:
        """The entries that a search finds, and the form of the instructions."""
        principal = person_of(request).principal
        given = request.POST if request.method == "POST" else None
        form = InstructionsForm(given, instance=remembering.instructions_of(principal))
        if request.method == "POST" and form.is_valid():
            try:
                check_allowed(principal, WRITE)
                remembering.save_instructions(principal, form.instance)
                return saved(request, self.section)
            except Refusal as refusal:
                form.add_error(None, words_of(refusal))
        words = request.GET.get("q", "").replace("\x00", "").strip()[:200]
        rows = self.resource.visible_to(principal)
        for word in words.split():
            rows = rows.filter(text__icontains=word)
        shown = list(rows)
        there = set(
            Context.objects.visible_to(principal)
            .filter(pk__in=[one.session for one in shown])
            .values_list("pk", flat=True)
        )
        entries = [(one, one.session in there) for one in shown]
        return settings_page(
            request, self.section, form, form=form, entries=entries, words=words, pages=self,
            template="memory/settings_memory.html", most=remembering.MOST_ENTRIES,
        )  # fmt: skip


PAGES = MemoryPages(remembering.ENTRIES, EntryForm, section="memory", icon="inbox")


@private_view
def delete_all(request: HttpRequest) -> HttpResponse:
    """A POST deletes; a GET asks first."""
    if request.method != "POST":
        effect = "No agent is told any of it again. Your instructions stay. You cannot undo this."
        about = {"label": "Delete all", "name": "all that agents remember of you", "effect": effect}
        return settings_page(request, PAGES.section, template="web/settings_confirm.html", **about)
    try:
        principal = person_of(request).principal
        check_allowed(principal, WRITE)
        remembering.delete_all(principal)
        messages.success(request, "All was deleted.")
    except Refusal as refusal:
        messages.error(request, words_of(refusal))
    return redirect(PAGES.names["list"])


# On other pages


def agent_part(request: HttpRequest, agent: Agent) -> SafeString:
    """On the page of an agent: what it may do with the reader's memory."""
    if agent.kind == Agent.Kind.PLAN:
        return SafeString()
    person = cast("User", request.user)
    choices = [(one.value, one.label) for one in rights.possible(agent)]
    uses = rights.uses_of(agent, person.pk)
    about = {"agent": agent, "uses": uses.value, "label": uses.label, "choices": choices}
    return render_to_string("memory/_agent.html", about, request)


@require_POST
@login_required
def choose(request: HttpRequest, slug: str) -> HttpResponse:
    """The reader's choice for an agent."""
    agent, uses = agent_or_404(request, slug), request.POST.get("uses", "")
    try:
        if uses in AgentMemory.Uses.values and AgentMemory.Uses(uses) in rights.possible(agent):
            rights.choose(principal_of(request), agent, AgentMemory.Uses(uses))
    except Refusal as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:agent", slug)


def session_trail(principal: Principal, context: Context) -> SafeString:
    """Above the title of a temporary session."""
    return render_to_string("memory/_trail.html") if context.is_temporary else SafeString()


def beginning_tool() -> SafeString:
    """Beside the field for a session's first message."""
    return render_to_string("memory/_beginning.html")


urlpatterns = [
    path("settings/memory/delete-all", delete_all, name="settings-memory-delete-all"),
    path("agents/<slug:slug>/memory", choose, name="agent-memory"),
    *PAGES.urls(),
]
