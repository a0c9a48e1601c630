"""Registering a remote agent: by its card's URL, by its base URL, or by a card that is pasted."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

import outbound
from apps.accounts.models import User, Workspace
from apps.agents import versions
from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from apps.remote import cards, discovery, trust
from apps.remote.discovery import Fetched
from apps.remote.errors import BadCard
from apps.remote.models import Label, RemoteAgent
from apps.remote.trust import Signature

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Preview:
    """A card that was found and checked, before anything is kept of it."""

    found: Fetched
    signature: Signature

    @property
    def card(self) -> JSON:
        return self.found.card

    @property
    def content(self) -> JSON:
        """What the version that keeps the card says: also whose signature it has, so that a change of it shows."""
        signature = {"state": str(self.signature.label)}
        key = {"key": self.signature.key} if self.signature.key else {}
        return {"kind": str(Agent.Kind.REMOTE), "card": self.card, "signature": signature | key}

    @property
    def sha256(self) -> str:
        """The digest of that version."""
        return versions.digest(self.content)

    @property
    def origin(self) -> str:
        """Where the agent is called."""
        return cards.origin_of(self.card)

    @property
    def slug(self) -> str:
        """A slug that suits the agent's name; somebody else may have it already."""
        return re.sub(r"[^a-z0-9]+", "-", self.card["name"].lower()).strip("-")[:63].strip("-") or "agent"

    @property
    def notes(self) -> list[str]:
        """What somebody who registers the agent should know, in sentences."""
        told = []
        if self.found.url and cards.origin(self.found.url) != self.origin:
            told.append(f"The card is at {cards.origin(self.found.url)}, the agent itself at {self.origin}.")
        if self.origin.startswith("http:"):
            told.append("The agent is called without TLS: who is in between can read and change everything.")
        if self.signature.label == Label.UNSIGNED:
            told.append("The card is unsigned.")
        if self.signature.label == Label.UNVERIFIED:
            told.append(f"The card's signature could not be verified. {self.signature.reason}")
        return told


async def preview(url: str = "", card: str = "") -> Preview:
    """What would be registered, by a card's URL, a base URL, or the text of a card.

    Raises BadCard and the errors of `outbound`.
    """
    found = await discovery.fetch(url.strip()) if url else discovery.pasted(card)
    if found is None:
        raise BadCard("The server says that its card is unchanged, which nobody asked.")
    return await vetted(found)


async def vetted(found: Fetched, pinned: list[JSON] | None = None) -> Preview:
    """The card with what is known of its signature. Raises BadCard, and Forbidden for an address that is not open."""
    for origin in {cards.origin(one["url"]) for one in cards.usable(found.card)}:
        try:
            await outbound.guard().vet(origin)
        except (outbound.Unreachable, outbound.TooSlow):
            continue  # an agent that is away may be registered
    home = cards.origin(found.url) if found.url else cards.origin_of(found.card)
    return Preview(found, await trust.judge(found.told, home, pinned or ()))


def register_remote(
    slug: str,
    *,
    url: str = "",
    card: str = "",
    workspace: Workspace | None = None,
    author: User | None = None,
    update: bool = False,
    **policies: Any,
) -> Agent:
    """Register a remote agent; with `update` one that is registered becomes what this card says.

    It is for threads without an event loop; others await `preview` and then call `save`. `policies` are further fields
    of Agent, such as `access`. Raises ValidationError, BadCard, the errors of `outbound`.
    """
    shown = asyncio.run(preview(url, card))
    return save(slug, shown, workspace=workspace, author=author, update=update, **policies)


@transaction.atomic
def save(
    slug: str,
    shown: Preview,
    *,
    workspace: Workspace | None = None,
    author: User | None = None,
    update: bool = False,
    **policies: Any,
) -> Agent:
    """Register what `preview` showed; its key is pinned. Arguments as of `register_remote`. Raises ValidationError."""
    agent = _found_or_new(slug, workspace or house_workspace(), update)
    try:
        with transaction.atomic():
            become(agent, shown.card, **policies)
    except IntegrityError:  # somebody else was quicker
        raise _taken(slug) from None
    versions.keep(agent, shown.content, author=author)
    remote = RemoteAgent.objects.filter(agent=agent).first() or RemoteAgent(agent=agent, registered_by=author)
    remote.card_url = shown.found.url
    remote.proposed = remote.declined = None
    remote.note_fetched(shown.found.etag, shown.found.last_modified)
    trust_card(remote, shown.content)
    remote.save()
    return agent


def _found_or_new(slug: str, workspace: Workspace, update: bool) -> Agent:
    agent = Agent.objects.select_for_update().filter(slug=slug).first()
    if agent is None:
        return Agent(slug=slug, workspace=workspace)
    if agent.kind != Agent.Kind.REMOTE:
        raise ValidationError({"slug": f"{slug} is an agent of another kind. Choose another slug."})
    if not update:
        raise _taken(slug)
    return agent


def _taken(slug: str) -> ValidationError:
    return ValidationError({"slug": f"There is an agent {slug} already. Choose another slug."})


def become(agent: Agent, card: JSON, **policies: Any) -> None:
    """Make the agent what the card says. Raises ValidationError."""
    given = {**policies, "kind": Agent.Kind.REMOTE, **cards.stated(card)}
    for name, value in given.items():
        setattr(agent, name, value)
    if (
        agent.pk and not policies
    ):  # what an operator chose earlier, say a fallback that is gone by now, is no fault of the card
        agent.clean_fields(exclude={field.name for field in Agent._meta.fields} - given.keys())
    else:
        agent.full_clean()
    agent.save()


def trust_card(remote: RemoteAgent, content: JSON) -> None:
    """Approve the origin and the key of a version's card; it is saved by the caller."""
    signature = content["signature"]
    remote.origin = cards.origin_of(content["card"])
    remote.signature = signature["state"]
    remote.pinned_keys = [signature["key"]] if "key" in signature else []
