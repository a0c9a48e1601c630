"""Registering a remote agent by its card, refreshing the card, and approving its changes.

The approved card is the content of the agent's current version. A refresh applies harmless changes, and proposes others
for an operator's approval.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User, Workspace, person_of
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents import versions
from apps.agents.identities import signing
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import error_text, house_workspace
from apps.remote import health_checks
from apps.remote.agent_cards import card_verification, cards, wrong_address
from apps.remote.agent_cards.card_verification import CardSignature
from apps.remote.agent_cards.cards import FetchedCard
from apps.remote.errors import BadCard, RemoteError
from apps.remote.models import RemoteAgent, SignatureStatus, next_refresh
from parley import outbound
from parley.outbound import OutboundError, targets

log = logging.getLogger("parley.remote")

log_lines = logging.getLogger("parley.audit")

JSON = dict[str, Any]

ADDING_SECONDS = 2.6  # for a card or what is there instead: somebody waits
SHORTEST_LOOK = 0.3
PARALLEL_FETCHES = 20
CARDS_PER_ROUND = 100  # the rest is due in the next round


@dataclass(frozen=True, slots=True)
class Preview:
    """A card that was fetched and checked, before it is stored."""

    found: FetchedCard
    signature: CardSignature

    @property
    def card(self) -> JSON:
        return self.found.card

    @property
    def content(self) -> JSON:
        """The content of the version with the card. It includes the signature, so that a new signature is a change."""
        signature = {"state": str(self.signature.label)}
        key = {"key": self.signature.key} if self.signature.key else {}
        return {"kind": str(Agent.Kind.REMOTE), "card": self.card, "signature": signature | key}

    @property
    def sha256(self) -> str:
        return versions.content_digest(self.content)

    @property
    def origin(self) -> str:
        return cards.card_origin(self.card)

    @property
    def hosts(self) -> set[str]:
        """The hosts and ports that are called: that of the card, and those that it names."""
        urls = [self.found.url, *(one["url"] for one in cards.usable_interfaces(self.card))]
        return {entry for url in urls for entry in targets.allowed_hosts(url)}

    @property
    def slug(self) -> str:
        """A slug made from the agent's name; it may be taken."""
        return re.sub(r"[^a-z0-9]+", "-", self.card["name"].lower()).strip("-")[:63].strip("-") or "agent"

    @property
    def _addresses(self) -> list[str]:
        return [one["url"] for one in cards.usable_interfaces(self.card)]

    @property
    def _is_for_another_address(self) -> bool:
        """Was it found below an agent's address, and names another?"""
        base, is_below, _ = self.found.url.partition("/.well-known/")
        return bool(is_below and not any(address.startswith(base) for address in self._addresses))

    @property
    def notes(self) -> list[str]:
        """What operators should know before they register the agent."""
        told = list(self.found.notes)
        if self.found.url and cards.checked_origin(self.found.url) != self.origin:
            told.append(f"The card is at {cards.checked_origin(self.found.url)}, the agent itself at {self.origin}.")
        elif self._is_for_another_address:
            told.append(f"The card at {self.found.url} is for another address: {self._addresses[0]}.")
        if self.origin.startswith("http:"):
            told.append("The agent is called without TLS: who is in between can read and change everything.")
        if self.signature.label == SignatureStatus.UNSIGNED:
            told.append("The card is unsigned.")
        if self.signature.label == SignatureStatus.UNVERIFIED:
            told.append(f"Not trusted: the card's signature could not be verified. {self.signature.reason}")
        return told


async def preview(url: str = "", card: str = "", also: Sequence[str] = ()) -> Preview:
    """The agent that would be registered, by a card's URL, a base URL, or the text of a card.

    `also` allows private hosts for this call only (see `outbound.Allowed.read`).
    Raises BadCard and the errors of `outbound`; where there is no card, within three seconds.
    """
    found = await _fetch_new(url.strip(), also) if url else cards.pasted_card(card, also)
    if found is None:
        raise BadCard("The server says that its card is unchanged, which nobody asked.")
    return await vet_card(found, also=also)


async def _fetch_new(url: str, also: Sequence[str]) -> FetchedCard | None:
    """The card at an address that somebody typed. Raises BadCard that says what else is there."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ADDING_SECONDS
    limits = replace(cards.FETCH_LIMITS, seconds=ADDING_SECONDS, connect_seconds=ADDING_SECONDS)
    try:
        return await cards.fetch_card(url, also=also, limits=limits)
    except outbound.Untrusted:
        raise  # who is not to be trusted is not called by http instead
    except (cards.NoCard, outbound.Misleading, outbound.Unreachable) as error:
        left = max(deadline - loop.time(), SHORTEST_LOOK)
        raise await wrong_address.explain(url, error, left, also) or error from error


async def vet_card(found: FetchedCard, pinned: list[JSON] | None = None, also: Sequence[str] = ()) -> Preview:
    """Verify a card's signature and addresses. Raises BadCard and outbound.Forbidden.

    With REQUIRE_TRUSTED_CARDS, only a verified card is a good one.
    """
    for origin in {cards.checked_origin(one["url"]) for one in cards.usable_interfaces(found.card)}:
        try:
            await outbound.guard().opening(also).vet(origin)
        except (outbound.Unreachable, outbound.TooSlow):
            continue  # an unreachable agent may be registered
    card_origin = cards.checked_origin(found.url) if found.url else cards.card_origin(found.card)
    signature = await card_verification.verify_card(found.original, card_origin, pinned or (), also)
    _require_trust(signature)
    return Preview(found, signature)


def _require_trust(signature: CardSignature) -> None:
    """Raises BadCard where REQUIRE_TRUSTED_CARDS is set and the card is not verified."""
    if settings.REQUIRE_TRUSTED_CARDS and signature.label != SignatureStatus.VERIFIED:
        reason = signature.reason or f"This one is {signature.label.label}."
        raise BadCard(f"Only cards with a verified signature are accepted here. {reason}")


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
    """Register a remote agent, or with `update` apply the card to the registered one.

    For threads without an event loop; others await `preview` and then call `save`. `policies` are fields of Agent, such
    as `access`. Raises ValidationError, BadCard, the errors of `outbound`.
    """
    found = asyncio.run(preview(url, card))
    return save(slug, found, workspace=workspace, author=author, update=update, **policies)


@transaction.atomic
def save(
    slug: str,
    preview: Preview,
    *,
    workspace: Workspace | None = None,
    author: User | None = None,
    update: bool = False,
    **policies: Any,
) -> Agent:
    """Register a previewed agent and pin its key. Arguments as of `register_remote`. Raises ValidationError."""
    agent = _found_or_new(slug, workspace or house_workspace(), update)
    try:
        with transaction.atomic():
            apply_card(agent, preview.card, **policies)
    except IntegrityError:  # registered concurrently
        raise _slug_taken(slug) from None
    versions.save_version(agent, preview.content, author=author)
    remote = RemoteAgent.objects.filter(agent=agent).first() or RemoteAgent(agent=agent, registered_by=author)
    remote.card_url = preview.found.url
    remote.proposed = remote.declined = None
    remote.note_fetched(preview.found.etag, preview.found.last_modified, preview.found.notes)
    trust_card(remote, preview.content)
    remote.save()
    return agent


def _found_or_new(slug: str, workspace: Workspace, update: bool) -> Agent:
    agent = Agent.objects.select_for_update().filter(slug=slug).first()
    if agent is None:
        return Agent(slug=slug, workspace=workspace)
    if agent.kind != Agent.Kind.REMOTE:
        raise ValidationError({"slug": f"{slug} is an agent of another kind. Choose another slug."})
    if not update:
        raise _slug_taken(slug)
    return agent


def _slug_taken(slug: str) -> ValidationError:
    return ValidationError({"slug": f"There is an agent {slug} already. Choose another slug."})


def apply_card(agent: Agent, card: JSON, **policies: Any) -> None:
    """Apply the card to the agent. Raises ValidationError."""
    unlimited = {} if agent.pk else {"time_limit": None}  # its work may take days
    given = {**unlimited, **policies, "kind": Agent.Kind.REMOTE, **cards.agent_fields(card)}
    for name, value in given.items():
        setattr(agent, name, value)
    if agent.pk and not policies:  # an operator's earlier choices may no longer be valid
        agent.clean_fields(exclude={field.name for field in Agent._meta.fields} - given.keys())
    else:
        agent.full_clean()
    agent.save()


def trust_card(remote: RemoteAgent, content: JSON) -> None:
    """Trust the origin and the key of a version's card; the caller saves."""
    signature = content["signature"]
    remote.origin, remote.spoken_version = cards.card_origin(content["card"]), ""
    remote.signature = signature["state"]
    remote.pinned_keys = [signature["key"]] if "key" in signature else []


class RefreshOutcome(StrEnum):
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """`reason` says why it failed."""

    outcome: RefreshOutcome
    reason: str = ""


def refresh_card(agent: Agent) -> RefreshResult:
    return refresh_cards([RemoteAgent.objects.select_related("agent").get(agent=agent)])[0]


def refresh_cards(remotes: Sequence[RemoteAgent]) -> list[RefreshResult]:
    fetched = asyncio.run(_fetch_all(remotes))
    return [_apply_result(remote, found) for remote, found in zip(remotes, fetched, strict=True)]


def refresh_due_cards() -> int:
    """Reads the cards of remote agents again."""
    due = RemoteAgent.objects.due(timezone.now()).select_related("agent")[:CARDS_PER_ROUND]
    return len(refresh_cards([remote for remote in due if _claim_refresh(remote)]))


def _claim_refresh(remote: RemoteAgent) -> bool:
    """Compare-and-swap on the card's next time."""
    due = RemoteAgent.objects.filter(pk=remote.pk, refresh_at=remote.refresh_at)
    return bool(due.update(refresh_at=next_refresh()))


FetchResult = Preview | None | Exception  # None: unchanged


async def _fetch_all(remotes: Sequence[RemoteAgent]) -> list[FetchResult]:
    few = asyncio.Semaphore(PARALLEL_FETCHES)

    async def fetch(remote: RemoteAgent) -> FetchResult:
        if not remote.card_url:
            return None
        try:
            async with few:
                found = await cards.fetch_card(remote.card_url, remote.etag, remote.last_modified)
                if found is None:
                    _require_trust(CardSignature(SignatureStatus(remote.signature)))
                return None if found is None else await vet_card(found, remote.pinned_keys)
        except (RemoteError, OutboundError) as error:
            return error
        except Exception as error:  # one card must not stop the refresh of all others
            log.exception("the card of agent %s could not be fetched", remote.agent_id)
            return error

    return await asyncio.gather(*map(fetch, remotes))


def _apply_result(remote: RemoteAgent, found: FetchResult) -> RefreshResult:
    if not remote.card_url:
        return RefreshResult(RefreshOutcome.FAILED, "The card was pasted: give it the new one.")
    if isinstance(found, Exception):
        is_known = isinstance(found, (RemoteError, OutboundError))
        return _refresh_failed(remote, str(found) if is_known else "The card could not be read. The log says more.")
    try:
        with transaction.atomic():
            return _apply_preview(remote, found)
    except ValidationError as error:
        return _refresh_failed(remote, error_text(error))


def _refresh_failed(remote: RemoteAgent, reason: str) -> RefreshResult:
    RemoteAgent.objects.filter(pk=remote.pk).update(card_error=reason, refreshed_at=timezone.now())
    log.warning("the card of %s could not be loaded again: %s", remote.agent.slug, reason)
    return RefreshResult(RefreshOutcome.FAILED, reason)


def _apply_preview(read: RemoteAgent, found: Preview | None) -> RefreshResult:
    agent = Agent.objects.select_for_update(of=("self",)).select_related("current_version").get(pk=read.agent_id)
    locked = RemoteAgent.objects.select_for_update(of=("self",))
    remote = locked.select_related("proposed", "declined").get(agent=agent)
    if remote.card_url != read.card_url:  # it was registered again in the meantime
        return RefreshResult(RefreshOutcome.UNCHANGED)
    if found is None:
        remote.note_fetched(remote.etag, remote.last_modified)
        outcome = RefreshOutcome.WAITING if remote.proposed else RefreshOutcome.UNCHANGED
    else:
        remote.note_fetched(found.found.etag, found.found.last_modified, found.found.notes)
        outcome = _apply_or_propose(agent, remote, found.content)
    remote.save()
    return RefreshResult(outcome)


def _apply_or_propose(agent: Agent, remote: RemoteAgent, content: JSON) -> RefreshOutcome:
    sha256, current = versions.content_digest(content), agent.current_version
    if any(version and version.sha256 == sha256 for version in (current, remote.declined)):
        remote.proposed = None
        return RefreshOutcome.UNCHANGED
    if remote.proposed and remote.proposed.sha256 == sha256:
        return RefreshOutcome.WAITING
    if current and (changes := changes_to_approve(current.content, content)):
        note = f"Needs approval: another {', '.join(changes)}."
        remote.proposed = versions.propose_version(agent, content, note=note, action=AuditAction.CARD_PROPOSED)
        log.warning("the card of %s changed and waits for approval: another %s", agent.slug, ", ".join(changes))
        return RefreshOutcome.WAITING
    remote.agent, remote.proposed, remote.declined = agent, None, None
    apply_card(agent, content["card"])
    versions.save_version(agent, content, note="The card changed.")
    trust_card(remote, content)
    return RefreshOutcome.UPDATED


def changes_to_approve(older: JSON, newer: JSON) -> list[str]:
    """The changes that an operator must approve: the agent's address, security requirements, or signing key."""
    parts: dict[str, Callable[[JSON], Any]] = {
        "origin": cards.card_origin,
        "interface": _interface_set,
        "security scheme": _security_fields,
    }
    changed = [name for name, part in parts.items() if part(older["card"]) != part(newer["card"])]
    # The first verified key is trusted.
    was_verified = older["signature"]["state"] == SignatureStatus.VERIFIED
    return changed + (["signing key"] if was_verified and _key_thumbprint(older) != _key_thumbprint(newer) else [])


def _interface_set(card: JSON) -> Any:
    """As a set: the order of preference may change."""
    return {tuple(sorted(one.items())) for one in card["supportedInterfaces"]}


def _security_fields(card: JSON) -> Any:
    of_skills = {skill["id"]: wanted for skill in card["skills"] if (wanted := skill.get("securityRequirements"))}
    return card.get("securitySchemes") or {}, card.get("securityRequirements") or [], of_skills


def _key_thumbprint(content: JSON) -> str:
    key = content["signature"].get("key")
    return signing.thumbprint(key) if key else ""


@transaction.atomic
def approve_card(agent: Agent, by: User | None, version: AgentVersion | None = None) -> AgentVersion:
    """Apply the agent's proposed card and pin its key.

    Raises ValidationError, also if the proposal is no longer `version`, the one that the operator saw.
    """
    remote, proposed = _lock_proposed(agent, version)
    apply_card(remote.agent, proposed.content["card"])
    remote.agent.current_version = proposed
    remote.agent.save(update_fields=["current_version", "updated_at"])
    trust_card(remote, proposed.content)
    remote.proposed = remote.declined = None
    remote.save()
    _record_decision(AuditAction.CARD_APPROVED, agent, proposed, by)
    return proposed


@transaction.atomic
def decline_card(agent: Agent, by: User | None, version: AgentVersion | None = None) -> AgentVersion:
    """Keep the approved card; the same card is not proposed again. Arguments as of `approve_card`."""
    remote, proposed = _lock_proposed(agent, version)
    remote.proposed, remote.declined = None, proposed
    remote.save()
    _record_decision(AuditAction.CARD_DECLINED, agent, proposed, by)
    return proposed


def _record_decision(action: AuditAction, agent: Agent, version: AgentVersion, by: User | None) -> None:
    details = {"version": version.number, "sha256": version.sha256, "note": version.note}
    audit.record(action, actor=by, object=agent, details=details)
    log_lines.info("%s: %s, version %s of the remote agent %s", by, action.label, version.number, agent.slug)


def _lock_proposed(agent: Agent, seen: AgentVersion | None) -> tuple[RemoteAgent, AgentVersion]:
    locked = Agent.objects.select_for_update().get(pk=agent.pk)
    remote = RemoteAgent.objects.select_for_update(of=("self",)).select_related("proposed").get(agent=locked)
    remote.agent = locked
    proposed = remote.proposed
    if proposed is None:
        raise ValidationError({"agent": "Nothing waits for approval."})
    if seen is not None and seen.pk != proposed.pk:
        raise ValidationError({"agent": "The card changed again meanwhile. Look at what waits now."})
    return remote, proposed


def _refresh(remote: RemoteAgent, operator: Principal) -> RemoteAgent:
    refreshed = refresh_card(remote.agent)
    # Also of an unchanged or failed one: the operator had its server called.
    details: audit.Details = {"note": f"Refreshed the card: {refreshed.outcome}."}
    audit.record(AuditAction.ADMIN_CHANGED, actor=operator, object=audit.row_subject(remote), details=details)
    if refreshed.outcome == RefreshOutcome.FAILED:
        raise ValidationError(f"{remote} was not changed. {refreshed.reason}")
    if refreshed.outcome == RefreshOutcome.UNCHANGED:
        raise NotNeeded(f"{remote}'s card is unchanged.")
    remote.refresh_from_db()
    return remote


def _refreshed(remote: RemoteAgent) -> str:
    if remote.has_proposal:
        return f"{remote}'s card changed. Review the change and approve it."
    return f"{remote} was updated from its card."


def _decide(decision: Callable[[Agent, User, AgentVersion], AgentVersion]) -> Callable[[RemoteAgent, Principal], Any]:
    def decide(remote: RemoteAgent, operator: Principal) -> AgentVersion:
        if remote.proposed is None:
            raise NotNeeded("Its card has no change to approve.")
        return decision(remote.agent, person_of(operator), remote.proposed)

    return decide


REFRESH = Act(
    name="refresh",
    label="Refresh the card",
    do=_refresh,
    summary="Refresh the card of a remote agent",
    effect="It is fetched again. Harmless changes are applied, and others wait for approval.",
    said=_refreshed,
    is_offered=lambda remote: bool(remote.card_url),
    icon="refresh",
    records=True,
)
APPROVE = Act(
    name="approve",
    label="Approve the changed card",
    do=_decide(approve_card),
    summary="Approve the changed card of a remote agent",
    effect="From now on, the agent is called as the card says.",
    said=lambda version: f"Approved version {version.number} of {version.agent}.",
    is_offered=lambda remote: remote.has_proposal,
    icon="check",
    records=True,
)
DECLINE = Act(
    name="decline",
    label="Decline the changed card",
    do=_decide(decline_card),
    summary="Decline the changed card of a remote agent",
    effect="The agent is called as before. The same card is not proposed again.",
    said=lambda version: f"Declined version {version.number} of {version.agent}.",
    is_offered=lambda remote: remote.has_proposal,
    icon="close",
    records=True,
)
REMOTE_AGENTS = Resource(
    "remote-agents",
    "remote",
    RemoteAgent,
    acts=(REFRESH, APPROVE, DECLINE, *health_checks.OF_AGENT),
    related=("agent__current_version", "proposed"),
    order=("agent__name",),
)
