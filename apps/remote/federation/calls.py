"""Lets people of paired installations in: who calls, and which agent they may use."""

from __future__ import annotations

import hashlib

from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Role
from apps.accounts.principals import READ, WRITE, Principal
from apps.accounts.requests.authentication import BadCredentials
from apps.agents.models import Agent
from apps.remote.federation import tokens
from apps.remote.federation.tokens import BadPeerToken, PeerToken
from apps.remote.models import Peer, PeerUser, SharedAgent
from parley import db
from parley.db.sql import Query, write_transaction

SEEN_EVERY = 60.0  # seconds between notes of when a peer was last seen

CALLER = tuple[Peer | None, User | None, Agent | None, SharedAgent | None]

PEER_USER_AND_AGENT = Query[CALLER](
    "SELECT {peer}, {person}, {agent}, {shared} FROM (SELECT 1) AS always "
    "LEFT JOIN {peer.table} ON peer.did = %s AND peer.state = 'paired' "
    "LEFT JOIN {peer_user.table} ON peer_user.peer_id = peer.id AND peer_user.subject = %s "
    "LEFT JOIN {person.table} ON person.id = peer_user.user_id "
    "LEFT JOIN {agent.table} ON agent.slug = %s LEFT JOIN {shared.table} ON shared.agent_id = agent.id",
    lambda *found: found,
    peer=Peer,
    peer_user=PeerUser,
    person=User,
    agent=Agent,
    shared=SharedAgent,
)
"""By the peer's identity, the person's pseudonym and the agent's slug; None for what there is not."""


class BadPeerCredentials(BadCredentials):
    """This token is not one of an installation that is paired with this one, or it has expired. Pair them again."""


def federated_caller(token: str, slug: str, *, is_open: bool) -> tuple[Principal, Agent | None]:
    """The caller of a peer's token and the agent, if it is shared with peers. One query after the first call.

    `is_open`: an open stream is checked again. Raises BadPeerCredentials.
    """
    try:
        read = tokens.read(token, tokens.CALL, may_be_old=is_open)
        if not tokens.SUBJECT.fullmatch(read.subject):
            raise BadPeerToken("It names nobody.")
        peer, user, agent, shared = PEER_USER_AND_AGENT.one(read.issuer, read.subject, slug) or (None,) * 4
        if peer is None:
            raise BadPeerToken("It is of an installation that is not paired with this one.")
        read.verify(peer.key(read.kid))
    except BadPeerToken:
        raise BadPeerCredentials from None
    user = user or _first_call(peer, read)
    if not user.is_active:
        raise BadPeerCredentials
    _note_seen(peer)
    principal = Principal(
        user_id=user.pk,
        workspace_id=peer.workspace_id,
        role=Role.MEMBER,
        name=read.name or user.short_name,
        scopes=frozenset((READ, WRITE)),
        agents=frozenset((slug,)),
        key=_key_of(peer),
    )
    return principal, agent if shared is not None else None


LONGEST_KEY = 60


def _key_of(peer: Peer) -> str:
    """The peer's identity, as limits and the queue count its calls. A long one is told apart by a digest."""
    if len(peer.did) <= LONGEST_KEY:
        return peer.did
    return f"{peer.did[:40]}…{hashlib.sha256(peer.did.encode()).hexdigest()[:19]}"


def _first_call(peer: Peer, read: PeerToken) -> User:
    """A user for a person whom the peer names for the first time. Nobody can sign in as them."""
    digest = hashlib.sha256(f"{peer.did} {read.subject}".encode()).hexdigest()[:40]
    with write_transaction():
        Peer.objects.select_for_update().get(pk=peer.pk)
        known = PeerUser.objects.filter(peer=peer, subject=read.subject).select_related("user").first()
        if known is not None:
            return known.user
        name = f"{read.name or 'Somebody'} ({peer.name})"[:120]
        fields = {"name": name, "notify_ended": False, "notify_questions": False}
        user = User.objects.create_user(f"{digest}@peer.invalid", None, **fields)
        PeerUser.objects.create(peer=peer, subject=read.subject, user=user)
    return user


def _note_seen(peer: Peer) -> None:
    now = timezone.now()
    if peer.seen_at is None or (now - peer.seen_at).total_seconds() > SEEN_EVERY:
        db.later(Peer.objects.filter(pk=peer.pk).update, seen_at=now)
