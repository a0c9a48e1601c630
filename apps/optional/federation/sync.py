"""Keeps what is known of paired installations fresh: their keys, and the agents that they share."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.agents import cards as own_cards
from apps.agents.identities import signing
from apps.agents.identities.signing import BadSignature
from apps.agents.models import CLOSED, Agent
from apps.optional.federation import pairing
from apps.optional.federation.pairing import AGENTS_PATH, PairingRefused, PeerRefuses
from apps.remote import registration
from apps.remote.agent_cards import cards
from apps.remote.errors import RemoteError
from apps.remote.federation import tokens
from apps.remote.federation.tokens import SYNC
from apps.remote.identity.did_web import DidDocument, Unresolved, resolver
from apps.remote.models import Peer, RemoteAgent
from apps.remote.registration import Preview
from parley import db, outbound

log = logging.getLogger("parley.federation")

JSON = dict[str, Any]

MOST_AGENTS = 200  # of one peer
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def shared_agents() -> list[JSON]:
    """What paired installations see of the agents here that are shared with them. One query."""
    shared = Agent.objects.enabled().filter(shared_with_peers__isnull=False).exclude(access__in=CLOSED)
    return [
        {
            "slug": agent.slug,
            "cardUrl": f"{own_cards.agent_url(agent)}/.well-known/agent-card.json",
            "health": agent.health,
        }
        for agent in shared.order_by("slug")
    ]


def sync_peers() -> int:
    """Refreshes the keys and agents of paired installations."""
    return sum(map(sync_peer, Peer.objects.paired()))


def sync_peer(peer: Peer) -> bool:
    """For threads without an event loop. The outcome is noted with the peer."""
    try:
        found, previews = asyncio.run(_fetch(peer))
    except PeerRefuses:
        pairing.end(peer, Peer.State.ENDED, AuditAction.PEER_ENDED)
        return False
    except (Unresolved, PairingRefused, outbound.OutboundError) as error:
        Peer.objects.filter(pk=peer.pk).update(error=str(error)[:500])
        return False
    _save_agents(peer, found, previews)
    Peer.objects.filter(pk=peer.pk).update(error="", seen_at=timezone.now())
    return True


async def _fetch(peer: Peer) -> tuple[dict[str, str], dict[str, Preview]]:
    """The cards' addresses of the peer's agents by slug, and new agents. Raises PeerRefuses and others."""
    origin = pairing.unencrypted_origin(peer.base_url)
    document = await resolver.resolve(peer.did, unencrypted=origin, fresh=True)
    await db.run(follow_keys, peer, document)
    token = await db.run(tokens.issue, SYNC, peer.did)
    told = await pairing.call(peer.base_url + AGENTS_PATH, token=token)
    listed = told.get("agents")
    found = {
        one["slug"]: one["cardUrl"]
        for one in (listed if isinstance(listed, list) else [])[:MOST_AGENTS]
        if isinstance(one, dict) and SLUG.fullmatch(str(one.get("slug"))) and _is_its_own(peer, one.get("cardUrl"))
    }
    known = set(await db.run(lambda: list(peer.agents.values_list("card_url", flat=True))))
    return found, {slug: one for slug, url in found.items() if url not in known and (one := await _preview(peer, url))}


def _is_its_own(peer: Peer, url: Any) -> bool:
    return isinstance(url, str) and len(url) <= 2000 and cards.origin_of(url) == cards.origin_of(peer.base_url)


async def _preview(peer: Peer, url: str) -> Preview | None:
    try:
        card = await cards.fetch_card(url)
        found = card and await registration.vet_card(card)
    except (RemoteError, outbound.OutboundError) as error:
        log.warning("an agent of %s cannot be used: %s", peer, error)
        return None
    return found if found and found.origin == cards.origin_of(peer.base_url) else None


def _save_agents(peer: Peer, found: dict[str, str], previews: dict[str, Preview]) -> None:
    for slug, preview in previews.items():
        own_slug = f"{re.sub(r'[^a-z0-9]+', '-', peer.name.lower()).strip('-')[:40] or 'peer'}-{slug}"[:63].rstrip("-")
        try:
            agent = registration.save(own_slug, preview, access=Agent.Access.AUTHENTICATED, category=peer.name[:40])
        except ValidationError as error:
            log.warning("the agent %s of %s was not registered: %s", slug, peer, error)
            continue
        RemoteAgent.objects.filter(agent=agent).update(peer=peer)
    for remote in peer.agents.select_related("agent"):
        if remote.agent.is_enabled != (remote.card_url in found.values()):
            Agent.objects.filter(pk=remote.agent_id).update(is_enabled=not remote.agent.is_enabled)


def follow_keys(peer: Peer, document: DidDocument) -> None:
    """Pin the peer's new keys that one of its pinned keys signed, and drop those that it no longer trusts.

    Raises Unresolved if no pinned key is left: then only a new code can pair the two again.
    """
    trusted = {key["kid"]: key for key in peer.keys if key["kid"] in document.keys}
    new = {kid: method for kid, method in document.methods.items() if kid not in trusted}
    while found := [kid for kid, method in new.items() if _is_endorsed(kid, method, trusted)]:
        trusted |= {kid: {**new.pop(kid)["publicKeyJwk"], "kid": kid} for kid in found}
    if not trusted:
        raise Unresolved("Its keys changed, and no earlier key says so. Pair the two installations again.")
    if list(trusted) != [key["kid"] for key in peer.keys]:
        peer.keys = list(trusted.values())
        Peer.objects.filter(pk=peer.pk).update(keys=peer.keys)
        audit.record(AuditAction.PEER_KEYS, object=peer, details={"keys": list(trusted)})


def _is_endorsed(kid: str, method: JSON, trusted: dict[str, JSON]) -> bool:
    signature, public = method.get("endorsement"), method["publicKeyJwk"]
    try:
        endorser = trusted.get(str(signing.unverified_header(str(signature)).get("kid")))
        if endorser is None or signing.thumbprint(public) != kid:
            return False
        signing.verify_foreign(str(signature), signing.endorsed(kid), endorser)
    except (BadSignature, ValueError, KeyError, TypeError):
        return False
    return True
