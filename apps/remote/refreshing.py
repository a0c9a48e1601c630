"""Looking at remote agents' cards again: what is harmless counts at once, what is not waits for an operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from apps.agents import jose, versions
from apps.agents.models import Agent
from apps.agents.registration import explain
from apps.remote import cards, discovery
from apps.remote.errors import RemoteError
from apps.remote.models import Label, RemoteAgent
from apps.remote.models.remote_agents import next_refresh
from apps.remote.registering import Preview, become, trust_card, vetted
from outbound import OutboundError

log = logging.getLogger("parley.remote")

JSON = dict[str, Any]

AT_ONCE = 20  # cards that are fetched side by side
MOST = 100  # cards of one round; the rest is due in the next


class Outcome(StrEnum):
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What came of looking at a card again; `reason` is a sentence where it failed."""

    outcome: Outcome
    reason: str = ""


def refresh(agent: Agent) -> Refreshed:
    """Look at an agent's card again now. For threads without an event loop."""
    return refresh_all([RemoteAgent.objects.select_related("agent").get(agent=agent)])[0]


def refresh_all(remotes: Sequence[RemoteAgent]) -> list[Refreshed]:
    """Look at these cards again now, side by side. For threads without an event loop."""
    return [_note(remote, found) for remote, found in zip(remotes, asyncio.run(_look_at(remotes)), strict=True)]


def refresh_due() -> int:
    """Look at the cards that are due, each by one process alone; how many there were."""
    due = RemoteAgent.objects.due(timezone.now()).select_related("agent")[:MOST]
    return len(refresh_all([remote for remote in due if _claimed(remote)]))


def _claimed(remote: RemoteAgent) -> bool:
    """Take a card that is due, by compare-and-swap; its next time is set already."""
    due = RemoteAgent.objects.filter(pk=remote.pk, refresh_at=remote.refresh_at)
    return bool(due.update(refresh_at=next_refresh()))


Found = Preview | None | Exception  # None: as it was


async def _look_at(remotes: Sequence[RemoteAgent]) -> list[Found]:
    """What each card says now. Nothing here touches the database."""
    few = asyncio.Semaphore(AT_ONCE)

    async def look(remote: RemoteAgent) -> Found:
        if not remote.card_url:
            return None
        try:
            async with few:
                found = await discovery.fetch(remote.card_url, remote.etag, remote.last_modified)
                return None if found is None else await vetted(found, remote.pinned_keys)
        except (RemoteError, OutboundError) as error:
            return error
        except Exception as error:  # one card must not keep all others from being looked at
            log.exception("the card of agent %s could not be looked at", remote.agent_id)
            return error

    return await asyncio.gather(*map(look, remotes))


def _note(remote: RemoteAgent, found: Found) -> Refreshed:
    """Make of what was found what there is to be made of it; a card that failed leaves all as it was."""
    if not remote.card_url:
        return Refreshed(Outcome.FAILED, "The card was pasted: give it the new one.")
    if isinstance(found, Exception):
        is_known = isinstance(found, (RemoteError, OutboundError))
        return _failed(remote, str(found) if is_known else "The card could not be read. The log says more.")
    try:
        with transaction.atomic():
            return _apply(remote, found)
    except ValidationError as error:
        return _failed(remote, explain(error))


def _failed(remote: RemoteAgent, reason: str) -> Refreshed:
    RemoteAgent.objects.filter(pk=remote.pk).update(card_error=reason, refreshed_at=timezone.now())
    log.warning("the card of %s could not be loaded again: %s", remote.agent.slug, reason)
    return Refreshed(Outcome.FAILED, reason)


def _apply(read: RemoteAgent, found: Preview | None) -> Refreshed:
    agent = Agent.objects.select_for_update(of=("self",)).select_related("current_version").get(pk=read.agent_id)
    locked = RemoteAgent.objects.select_for_update(of=("self",))
    remote = locked.select_related("proposed", "declined").get(agent=agent)
    if remote.card_url != read.card_url:  # registered anew meanwhile
        return Refreshed(Outcome.UNCHANGED)
    if found is None:
        remote.note_fetched(remote.etag, remote.last_modified)
        outcome = Outcome.WAITING if remote.proposed else Outcome.UNCHANGED
    else:
        remote.note_fetched(found.found.etag, found.found.last_modified)
        outcome = _compare(agent, remote, found.content)
    remote.save()
    return Refreshed(outcome)


def _compare(agent: Agent, remote: RemoteAgent, content: JSON) -> Outcome:
    """Take a card over, or propose it, by what is different in it."""
    sha256, current = versions.digest(content), agent.current_version
    if current and current.sha256 == sha256:
        remote.proposed = None
        return Outcome.UNCHANGED
    if remote.declined and remote.declined.sha256 == sha256:
        remote.proposed = None
        return Outcome.UNCHANGED
    if remote.proposed and remote.proposed.sha256 == sha256:
        return Outcome.WAITING
    if current and (changes := weighty_changes(current.content, content)):
        note = f"Needs approval: another {', '.join(changes)}."
        remote.proposed = versions.propose(agent, content, note=note)
        log.warning("the card of %s changed and waits for approval: another %s", agent.slug, ", ".join(changes))
        return Outcome.WAITING
    remote.agent, remote.proposed, remote.declined = agent, None, None
    become(agent, content["card"])
    versions.keep(agent, content, note="The card changed.")
    trust_card(remote, content)
    return Outcome.UPDATED


def weighty_changes(older: JSON, newer: JSON) -> list[str]:
    """What an operator has to look at before a card counts: where the agent is, what it wants of us, who signs it."""
    parts: dict[str, Callable[[JSON], Any]] = {
        "origin": _origin,
        "interface": _interfaces,
        "security scheme": _security,
    }
    changed = [name for name, part in parts.items() if part(older["card"]) != part(newer["card"])]
    # Where nothing was verified there is no key to be true to: the first one is taken.
    was_verified = older["signature"]["state"] == Label.VERIFIED
    return changed + (["signing key"] if was_verified and _key(older) != _key(newer) else [])


def _origin(card: JSON) -> str:
    return cards.origin_of(card)


def _interfaces(card: JSON) -> Any:
    """As a set: another order of preference is harmless."""
    return {tuple(sorted(one.items())) for one in card["supportedInterfaces"]}


def _security(card: JSON) -> Any:
    of_skills = {skill["id"]: wanted for skill in card["skills"] if (wanted := skill.get("securityRequirements"))}
    return card.get("securitySchemes") or {}, card.get("securityRequirements") or [], of_skills


def _key(content: JSON) -> str:
    key = content["signature"].get("key")
    return jose.thumbprint(key) if key else ""
