"""Adding a remote agent: its card is fetched or pasted, looked at, and registered as it was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from a2a.types import AgentCard
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods
from google.protobuf.json_format import ParseDict

import db
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.remote import credentials, registering
from apps.remote.authenticating import ways
from apps.remote.authenticating.schemes import Scheme
from apps.remote.errors import RemoteError
from apps.remote.registering import Preview
from apps.web.shell import page
from outbound import OutboundError

LONGEST_URL = 2048  # characters
MOST_SKILLS = 8  # that are shown before it is registered
OWN = Agent.Access.WORKSPACE
CHOICES: dict[str, str] = {
    OWN: "You alone",
    Agent.Access.AUTHENTICATED: "Everybody who is signed in",
    Agent.Access.PUBLIC: "Everybody, without signing in",
}
"""Who may use it, in a person's words; operators choose."""


@dataclass(slots=True)
class Adding:
    """What was filled in, what was found by it, and what is wrong, by field."""

    url: str = ""
    card: str = ""
    slug: str = ""
    access: str = OWN
    digest: str = ""
    shown: Preview | None = None
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, request: HttpRequest) -> Adding:
        names = ("url", "card", "slug", "access", "digest")
        url, card, slug, access, digest = (request.POST.get(name, "").replace("\x00", "").strip() for name in names)
        return cls(url, card, slug, access or OWN, digest)

    async def look(self) -> None:
        """Find the card. What keeps that from being done stands by the field."""
        if not (self.url or self.card):
            self.problems["url"] = "Write the address of the agent or of its card, or paste the card."
        elif len(self.url) > LONGEST_URL:
            self.problems["url"] = f"An address has at most {LONGEST_URL} characters."
        else:
            try:
                self.shown = await registering.preview(url=self.url, card="" if self.url else self.card)
            except (RemoteError, OutboundError) as error:
                self.problems["url" if self.url else "card"] = str(error)

    @property
    def changed(self) -> bool:
        """Is the card another than the one that was looked at?"""
        return self.shown is not None and self.shown.sha256 != self.digest


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
async def add(request: HttpRequest) -> HttpResponse:
    """The form; what would be registered; and, where that was looked at, the agent's page."""
    user = cast("User", await request.auser())
    adding = Adding.read(request) if request.method == "POST" else Adding()
    if request.method == "POST":
        await adding.look()
        if adding.shown is not None and adding.digest:
            if not adding.changed:
                agent = await db.run(_registered, user, adding)
                if agent is not None:
                    lacking = await db.run(credentials.missing, agent, user.pk)
                    return redirect("web:agent-credentials" if lacking else "web:agent", agent.slug)
            else:
                adding.problems["digest"] = "The card has changed since you looked at it. This is what it says now."
    return await db.run(_shown, request, user, adding)


def _registered(user: User, adding: Adding) -> Agent | None:
    """Register it for the person; None where a field is wrong."""
    if adding.access not in _choices(user):
        adding.problems["access"] = "Choose one of these."
        return None
    try:
        shown = cast("Preview", adding.shown)
        home = user.personal_workspace
        agent = registering.save(adding.slug, shown, workspace=home, author=user, access=adding.access)
    except ValidationError as error:
        adding.problems |= {name: " ".join(told) for name, told in error.message_dict.items()}
        return None
    for name, scheme in credentials.wanted_by(agent).schemes.items():
        if not scheme.problem:  # who registers it lets themselves in
            credentials.bring_own(agent, name, True, user)
    return agent


def _shown(request: HttpRequest, user: User, adding: Adding) -> HttpResponse:
    if adding.shown is None:
        return page(request, "web/add_agent.html", adding=adding)
    card = adding.shown.card
    about: dict[str, Any] = {
        "card": card,
        "skills": card["skills"][:MOST_SKILLS],
        "more_skills": max(0, len(card["skills"]) - MOST_SKILLS),
        "asks_for": _asks_for(adding.shown),
        "slug": adding.slug or _free_slug(adding.shown.slug),
        "choices": _choices(user),
        "base": settings.PUBLIC_BASE_URL,
    }
    return page(request, "web/add_agent_preview.html", adding=adding, **about)


def _choices(user: User) -> dict[str, str]:
    """Who may use it: a person's own registration is theirs."""
    return CHOICES if user.has_perm("agents.add_agent") else {OWN: CHOICES[OWN]}


def _free_slug(wished: str) -> str:
    taken = set(Agent.objects.filter(slug__startswith=wished[:55]).values_list("slug", flat=True))
    numbered = (f"{wished[:55]}-{number}" for number in range(2, 1000))
    return wished if wished not in taken else next((one for one in numbered if one not in taken), "")


def _asks_for(shown: Preview) -> list[str]:
    """What the agent wants of who calls it, each way in words; none where it wants nothing."""
    wanted = ways.wanted(ParseDict(shown.card, AgentCard(), ignore_unknown_fields=True))
    told = (way.problem or " and ".join(_kind(scheme) for scheme in way.schemes) for way in wanted.ways)
    return list(dict.fromkeys(told))


def _kind(scheme: Scheme) -> str:
    return str(scheme.kind.label) if scheme.kind else scheme.name
