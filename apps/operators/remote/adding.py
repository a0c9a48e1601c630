"""Registering a remote agent in two steps: where it is, and, with its card in sight, how it is used here.

The same two give a registered agent another card, or the address of another; what it is used for stays.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from apps.accounts.models import User
from apps.agents.definitions import as_yaml
from apps.agents.differences import side_by_side
from apps.agents.models import Agent
from apps.operators.remote import cards
from apps.remote import registering
from apps.remote.errors import RemoteError
from apps.remote.registering import Preview
from outbound import OutboundError

LONGEST = 512 * 1024  # characters of a card that is pasted


class SourceForm(forms.Form):
    """Where the agent is."""

    source = forms.CharField(
        label="URL",
        max_length=LONGEST,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "spellcheck": "false", "autofocus": True}),
        help_text="Of the agent or of its card: https://agents.example.org/translator. Or paste the card itself.",
    )


class UseForm(SourceForm):
    """How it is used here; `sha256` is the digest of what was shown."""

    source = forms.CharField(max_length=LONGEST, widget=forms.HiddenInput)
    sha256 = forms.CharField(widget=forms.HiddenInput)
    slug = forms.CharField(
        label="Slug",
        max_length=63,
        widget=UnfoldAdminTextInputWidget,
        help_text="What its address here ends with: /a2a/…",
    )
    access = forms.ChoiceField(
        label="Who may use it",
        choices=Agent.Access.choices,
        initial=Agent.Access.AUTHENTICATED,
        widget=UnfoldAdminSelectWidget,
        help_text="Groups are named on the agent's own page.",
    )


class Adding:
    """One request of the page: what it shows next, or the agent that came of it.

    Attributes:
        agent: that was registered, or None.
        context: for the page's template.
    """

    def __init__(self, request: HttpRequest, known: Agent | None = None) -> None:
        """`known` is the agent that is to get another card."""
        self.agent: Agent | None = None
        self._known = known
        self.context: dict[str, Any] = {}
        if request.method != "POST":
            self._ask(SourceForm())
        elif not (form := SourceForm(request.POST)).is_valid():
            self._ask(form)
        elif shown := self._look(form):
            self._go_on(request, shown)

    def _ask(self, form: SourceForm) -> None:
        self.context = {"form": form, "go_on": "Look"}

    def _look(self, form: SourceForm) -> Preview | None:
        source = form.cleaned_data["source"].strip()
        try:
            given = {"card": source} if source.startswith("{") else {"url": source}
            return asyncio.run(registering.preview(**given))
        except (RemoteError, OutboundError) as error:
            form.add_error("source", str(error))
            self._ask(form)
            return None

    def _go_on(self, request: HttpRequest, shown: Preview) -> None:
        source = request.POST["source"]
        slug = self._known.slug if self._known else shown.slug
        fresh = self._form(initial={"source": source, "sha256": shown.sha256, "slug": slug})
        if "sha256" not in request.POST:
            return self._show(fresh, shown)
        form = self._form(request.POST)
        if form.is_valid():
            if form.cleaned_data["sha256"] != shown.sha256:
                self._show(fresh, shown)
                self.context["notes"].insert(0, "The card changed since you looked at it. This is what it says now.")
                return None
            self._save(form, shown, request.user)  # type: ignore[arg-type]
        if self.agent is None:
            self._show(form, shown)
        return None

    def _form(self, *args: Any, **options: Any) -> UseForm:
        form = UseForm(*args, **options)
        if self._known:
            del form.fields["slug"], form.fields["access"]
        return form

    def _save(self, form: UseForm, shown: Preview, author: User) -> None:
        values = form.cleaned_data
        try:
            if self._known:
                self.agent = registering.save(self._known.slug, shown, author=author, update=True)
            else:
                access = values["access"]
                # The house's own workspace has no members: one that is for a workspace is for that of who adds it.
                home = author.personal_workspace if access == Agent.Access.WORKSPACE else None
                self.agent = registering.save(values["slug"], shown, workspace=home, author=author, access=access)
        except ValidationError as error:
            for field, messages in error.message_dict.items():
                form.add_error(field if field in form.fields else None, messages)

    def _show(self, form: UseForm, shown: Preview) -> None:
        self.context = {
            "form": form,
            "go_on": "Register",
            "preview": shown,
            "facts": cards.facts_of(shown.card, shown.signature.label, shown.sha256),
            "tables": cards.tables_of(shown.card),
            "notes": list(shown.notes),
            "older": (older := self._known and self._known.current_version),
            "pairs": side_by_side(as_yaml(older.content), as_yaml(shown.content)) if older else [],
        }
