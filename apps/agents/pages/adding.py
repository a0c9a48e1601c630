"""Adding a remote agent in two steps: where it is, then its card and how to use it.

Operators do the same in admin. Everything in a card is untrusted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, cast

from a2a.types import AgentCard
from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods
from google.protobuf.json_format import ParseDict

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.agents.models import Agent
from apps.agents.pages.agents import ACCESS_CHOICES
from apps.model_agents.forms import seconds_of
from apps.remote import registration
from apps.remote.authentication import security_schemes
from apps.remote.authentication.credentials import missing, requirements_of, set_personal
from apps.remote.errors import BadCard, RemoteError
from apps.remote.registration import Preview
from apps.web import allowances
from apps.web.roles import refuse
from apps.web.shell import page
from parley import db
from parley.db.sql import write_transaction
from parley.outbound import OutboundError, Private

LONGEST_URL = 2048  # characters
LONGEST_CARD = 512 * 1024
MOST_MINUTES = 365 * 24 * 60
MOST_SKILLS = 8  # on the page
MOST_ALLOWED = 10  # private hosts of one card
SOURCE = ("url", "card", "allow")
EXACT = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}


class RemoteAgentForm(forms.ModelForm):  # type: ignore[type-arg]
    """Without `digest`, it asks where the agent is. `digest` is that of the card that was seen: no other is registered.

    Attributes:
        known: the agent whose card is replaced, if any.
        preview: the card, once it is fetched.
        offers: addresses of cards that are near.
        access_choices: what operators of agents choose from; others have it for themselves alone.
        usual_access: who may use it, unless somebody chooses.
        widgets: those of admin, by the field.
    """

    access_choices: ClassVar[Mapping[str, str]] = ACCESS_CHOICES
    usual_access: ClassVar[str] = Agent.Access.WORKSPACE
    widgets: ClassVar[Mapping[str, Callable[[], forms.Widget]]] = {}

    url = forms.CharField(
        required=False,
        max_length=LONGEST_URL,
        label="Address",
        widget=forms.URLInput({**EXACT, "autofocus": True, "placeholder": "https://agents.example/report"}),
        help_text="The address of the agent or of its agent card.",
    )
    card = forms.CharField(
        required=False,
        max_length=LONGEST_CARD,
        widget=forms.Textarea({**EXACT, "rows": 10, "class": "code"}),
        help_text="The card as JSON, for an agent that does not publish one. It is ignored if there is an address.",
    )
    allow = forms.MultipleChoiceField(
        required=False,
        label="Allow calls to this private address",
        widget=forms.CheckboxSelectMultiple,
        help_text="It is saved together with the agent. Other agents, webhooks and tools may then call this host and "
        "port too. You can take it back in admin, under Private addresses.",
    )
    digest = forms.CharField(required=False, widget=forms.HiddenInput)
    minutes = forms.FloatField(
        required=False,
        min_value=0.1,
        max_value=MOST_MINUTES,
        label="Time limit, in minutes",
        help_text="The longest time for one answer. Empty: no limit. Its work may take hours or days.",
    )

    class Meta:
        model = Agent
        fields = ("slug", "access")
        labels = {"access": "Who may use it"}
        help_texts = {"slug": "The agent’s name in addresses: lower-case letters, digits and hyphens."}
        widgets = {"slug": forms.TextInput(EXACT)}

    field_order = ("url", "card", "allow", "digest", "slug", "minutes", "access")

    def __init__(self, user: User, data: QueryDict | None = None, known: Agent | None = None, **options: Any) -> None:
        super().__init__(data, instance=Agent(kind=Agent.Kind.REMOTE, access=self.usual_access), **options)
        self.user, self.known = user, known
        self.preview: Preview | None = None
        self.offers: Iterable[str] = ()
        for name, widget in self.widgets.items():
            self.fields[name].widget = widget()
        self._offer_access()
        self.may_allow = allowances.may_allow(user)
        if self.may_allow:
            given = data.getlist("allow")[:MOST_ALLOWED] if data else self.initial.get("allow", ())
            self._offer_to_allow(filter(allowances.is_entry, given))
        else:
            self._drop("allow")
        if known:
            self._drop("slug", "access", "minutes")
        if not (data.get("digest") if data else self.initial.get("digest")):
            self._drop("digest", "slug", "access", "minutes")

    def may_share(self) -> bool:
        """Whether the person chooses who may use it."""
        return self.user.has_perm("agents.add_agent")

    def _offer_access(self) -> None:
        field, may_share = cast("forms.ChoiceField", self.fields["access"]), self.may_share()
        field.choices = [one for one in self.access_choices.items() if may_share or one[0] == self.usual_access]
        field.required = False
        if not may_share:
            field.widget = forms.HiddenInput()

    def _drop(self, *names: str) -> None:
        for name in names:
            self.fields.pop(name, None)

    def _offer_to_allow(self, entries: Iterable[str]) -> None:
        cast("forms.ChoiceField", self.fields["allow"]).choices = [(entry, entry) for entry in entries]

    @property
    def says_where(self) -> bool:
        """Whether the card can be looked for."""
        return self.is_bound and self.errors.keys().isdisjoint(SOURCE)

    def clean_access(self) -> str:
        return self.cleaned_data["access"] or self.usual_access

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if not (given.get("url") or given.get("card")) and not self.errors:
            self.add_error("url", "Enter the address of the agent or of its card, or paste the card.")
        return given

    async def look(self) -> None:
        """Fetch the card. On failure the errors say why."""
        url, card, allow = (self.cleaned_data.get(name, "") for name in SOURCE)
        try:
            self.preview = await registration.preview(url=url, card="" if url else card, also=list(allow))
        except (RemoteError, OutboundError) as error:
            self._drop("digest", "slug", "access", "minutes")
            self.offers = error.offers if isinstance(error, BadCard) else ()
            private = error.entry if isinstance(error, Private | BadCard) else ""
            if private and self.may_allow:
                self._offer_to_allow([*allow, private])
            words = allowances.ALLOW_BELOW if self.may_allow else allowances.ASK_AN_OPERATOR
            self.add_error("url" if url else "card", words if private else str(error))
            return
        self.cleaned_data["allow"] = [entry for entry in allow if entry in self.preview.hosts]
        if self.cleaned_data.get("digest") not in (None, self.preview.sha256):
            self.add_error("digest", "The card has changed in the meantime. Here is the new one.")

    def register(self, request: HttpRequest, workspace: Workspace | None = None, **policies: Any) -> Agent | None:
        """Register the agent whose card was seen, by default in the workspace of the installation. The errors say why
        it is refused.
        """
        given, preview = self.cleaned_data, self.preview
        if preview is None or not given.get("digest") or self.errors:
            return None
        if not self.known:
            policies |= {"access": given["access"], "time_limit": seconds_of(given["minutes"])}
        slug = self.known.slug if self.known else given["slug"]
        try:
            with write_transaction():
                agent = registration.save(
                    slug, preview, workspace=workspace, author=self.user, update=bool(self.known), **policies
                )
                for entry in given["allow"]:
                    allowances.allow(request, entry, f"Remote agent {agent.name}")
        except ValidationError as error:
            for name, sentences in error.message_dict.items():
                self.add_error(name if name in self.fields else None, sentences)
            return None
        return agent

    def to_show(self) -> RemoteAgentForm:
        """What the page shows next: this form with its errors, or that of the card that was found."""
        if self.preview is None:
            if self.may_allow and not cast("forms.ChoiceField", self.fields["allow"]).choices:
                self._drop("allow")
            return self
        shown = self
        if not self.cleaned_data.get("digest"):
            slug = self.cleaned_data.get("slug") or _free_slug(self.preview.slug)
            found = {**self.cleaned_data, "digest": self.preview.sha256, "slug": slug}
            shown = type(self)(self.user, known=self.known, initial=found)
        for name in shown.fields.keys() & {*SOURCE}:
            field = shown.fields[name]
            field.widget = field.hidden_widget()
        return shown


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
async def add_agent(request: HttpRequest) -> HttpResponse:
    """The form; then a preview of what would be registered; after that is submitted, the agent's page."""
    user = cast("User", await request.auser())
    await db.run(refuse, user, request.resolver_match)  # before the form is filled in
    form = await db.run(RemoteAgentForm, user, request.POST if request.method == "POST" else None)
    if await db.run(lambda: form.says_where):
        await form.look()
        if (agent := await db.run(audit.for_request(request, _register), request, form)) is not None:
            lacking = await db.run(missing, agent, user.pk)
            return redirect("web:agent-credentials" if lacking else "web:agent", agent.slug)
    return await db.run(_page, request, form)


def _register(request: HttpRequest, form: RemoteAgentForm) -> Agent | None:
    agent = form.register(request, form.user.membership.workspace)
    if agent is not None:
        for name, scheme in requirements_of(agent).schemes.items():
            if not scheme.problem:
                set_personal(agent, name, True, form.user)
    return agent


def _page(request: HttpRequest, form: RemoteAgentForm) -> HttpResponse:
    about: dict[str, Any] = {"form": form.to_show(), "offers": form.offers}
    if form.preview is not None:
        skills = form.preview.card["skills"]
        about |= {"preview": form.preview, "card": form.preview.card, "asks_for": _auth_labels(form.preview)}
        about |= {"skills": skills[:MOST_SKILLS], "more_skills": max(0, len(skills) - MOST_SKILLS)}
        about |= {"changed": form.errors.get("digest"), "allow": form.cleaned_data["allow"]}
    return page(request, "agents/add_agent.html", **about)


def _free_slug(wished: str) -> str:
    taken = set(Agent.objects.filter(slug__startswith=wished[:55]).values_list("slug", flat=True))
    numbered = (f"{wished[:55]}-{number}" for number in range(2, 1000))
    return wished if wished not in taken else next((one for one in numbered if one not in taken), "")


def _auth_labels(shown: Preview) -> list[str]:
    wanted = security_schemes.card_requirements(ParseDict(shown.card, AgentCard(), ignore_unknown_fields=True))
    ways = (
        way.problem or " and ".join(str(one.kind.label) if one.kind else one.name for one in way.schemes)
        for way in wanted.alternatives
    )
    return list(dict.fromkeys(ways))
