"""Pairing two installations with one code, and revoking.

A code has the address of the installation that made it, its key's fingerprint and a secret. Whoever takes it proves to
know the secret and to hold the key of its own identity (DID); the maker answers with a token by its key. Both fetch the
other's document through the guard and pin its keys.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import hashlib
import hmac
import json
import logging
import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Refusal
from apps.accounts.models import User, Workspace, person_of
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents.identities import identity
from apps.agents.identities.signing import signer_of
from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from apps.record.content import strict_json
from apps.remote.agent_cards import cards
from apps.remote.federation import tokens
from apps.remote.federation.tokens import BadPeerToken
from apps.remote.identity.did_web import Unresolved, resolver
from apps.remote.models import Peer, RemoteAgent
from parley import db, outbound
from parley.db.sql import write_transaction
from parley.outbound import Limits

log = logging.getLogger("parley.federation")

JSON = dict[str, Any]

CODE_MARK = "parley-pair_"
CODE_LIFETIME = datetime.timedelta(minutes=15)
LONGEST_CODE = 4_000  # characters
LIMITS = Limits(seconds=10.0, connect_seconds=5.0, bytes=1024**2, header_bytes=16 * 1024, connections=1)
PAIR_PATH, AGENTS_PATH, END_PATH = "/federation/pair", "/federation/agents", "/federation/end"


class PairingRefused(Refusal):
    """The installations cannot be paired; the message says why, and what to do."""


class PeerRefuses(Exception):
    """The peer does not accept this installation's token: it has revoked the pairing."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a code says. `kid` is the fingerprint of the maker's key."""

    number: int
    secret: str
    base_url: str
    kid: str

    @property
    def text(self) -> str:
        told = json.dumps([self.number, self.secret, self.base_url, self.kid]).encode()
        return CODE_MARK + base64.urlsafe_b64encode(told).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Code:
        """Raises PairingRefused."""
        packed = "".join(text.split()).removeprefix(CODE_MARK)
        try:
            number, *rest = json.loads(base64.urlsafe_b64decode(packed[:LONGEST_CODE] + "=" * (-len(packed) % 4)))
            secret, base_url, kid = (str(one) for one in rest)
            return cls(int(number), secret, base_url.rstrip("/"), kid)
        except (ValueError, TypeError, RecursionError):
            raise PairingRefused("This is no code. Copy the whole code again.") from None


def make_code(by: User | None) -> tuple[Peer, str]:
    """A code for one other installation, which is shown once."""
    secret = secrets.token_urlsafe(32)
    with write_transaction():
        peer = Peer.objects.create(code=secret, code_until=timezone.now() + CODE_LIFETIME, made_by=by)
        audit.record(AuditAction.PEER_INVITED, actor=by, object=peer)
    return peer, Code(peer.pk, secret, settings.PUBLIC_BASE_URL, signer_of(None).kid).text


def take_code(text: str, by: User | None) -> Peer:
    """Pair with the installation that made the code. For threads without an event loop. Raises PairingRefused."""
    code = Code.read(text)
    if code.base_url == settings.PUBLIC_BASE_URL:
        raise PairingRefused("This code is of this installation. Paste it at the other one.")
    return asyncio.run(_take(code, by))


async def _take(code: Code, by: User | None) -> Peer:
    did = identity.did_at(code.base_url)
    try:
        keys = await fetch_keys(did, code.base_url)
        maker_key = next((key for key in keys if key["kid"] == code.kid), None)
        if maker_key is None:
            raise PairingRefused("The other installation has another key than its code says. Make a new code there.")
        nonce = secrets.token_urlsafe(24)
        claims = {"url": settings.PUBLIC_BASE_URL, "name": own_name(), "nonce": nonce}
        mine = await db.run(partial(tokens.issue, tokens.PAIR, did, **claims))
        body = {"code": code.number, "token": mine, "proof": proof_of(code.secret, mine)}
        answer = await call(code.base_url + PAIR_PATH, body)
        read = tokens.read(str(answer.get("token", "")), tokens.PAIR)
        if read.kid != code.kid or read.issuer != did or read.claims.get("nonce") != nonce:
            raise PairingRefused("The other installation did not prove who it is. Make a new code there.")
        read.verify(maker_key)
    except (Unresolved, outbound.OutboundError, BadPeerToken, PeerRefuses) as error:
        raise PairingRefused(f"The other installation cannot be paired. {error}") from None
    return await db.run(_pair, did, code.base_url, read.name, keys, by)


async def answer_pairing(body: JSON) -> JSON:
    """Answer the installation that took a code of this one. Raises PairingRefused."""
    text, number = str(body.get("token", "")), body.get("code")
    peer = await db.run(_invitation, number if isinstance(number, int) else 0)
    if peer is None or not hmac.compare_digest(proof_of(peer.code, text), str(body.get("proof", ""))):
        raise PairingRefused("The code is unknown, was used, or has expired. Make a new one.")
    try:
        read = tokens.read(text, tokens.PAIR)
        base_url = str(read.claims.get("url", "")).rstrip("/")
        if read.issuer != identity.did_at(base_url):
            raise BadPeerToken("Its identity is not that of its address.")
        keys = await fetch_keys(read.issuer, base_url)
        read.verify(next((key for key in keys if key["kid"] == read.kid), None))
    except (Unresolved, BadPeerToken, ValueError) as error:
        log.warning("an installation was not paired: %s", error)
        await db.run(partial(audit.record, AuditAction.PEER_REFUSED, object=peer, details={"why": str(error)[:200]}))
        raise PairingRefused("Your identity (DID) could not be verified from here. See the log here.") from None
    if not await db.run(_use_code, peer):
        raise PairingRefused("The code was used already. Make a new one.")
    await db.run(_pair, read.issuer, base_url, read.name, keys, peer.made_by)
    claims = {"nonce": str(read.claims.get("nonce", "")), "name": own_name()}
    return {"token": await db.run(partial(tokens.issue, tokens.PAIR, read.issuer, **claims))}


def _invitation(number: int) -> Peer | None:
    open_codes = Peer.objects.filter(state=Peer.State.INVITED, code_until__gt=timezone.now())
    return open_codes.select_related("made_by").filter(pk=number).first()


def _use_code(peer: Peer) -> bool:
    """Only one caller can."""
    return bool(Peer.objects.filter(pk=peer.pk, state=Peer.State.INVITED).delete()[0])


def own_name() -> str:
    return str(settings.PUBLIC_BASE_URL).partition("://")[2][:100]


def proof_of(secret: str, token: str) -> str:
    return hmac.new(secret.encode(), token.encode(), hashlib.sha256).hexdigest()


def _pair(did: str, base_url: str, name: str, keys: list[JSON], by: User | None) -> Peer:
    """Paired anew, an installation keeps its people and their conversations."""
    fields = {"base_url": base_url, "keys": keys, "state": Peer.State.PAIRED, "error": "", "ended_at": None}
    now = timezone.now()
    with write_transaction():
        house_workspace()  # which is the first one
        peer = Peer.objects.filter(did=did).first() or Peer(did=did, salt=secrets.token_hex(16), made_by=by)
        for field, value in {**fields, "paired_at": now, "seen_at": now}.items():
            setattr(peer, field, value)
        peer.name = peer.name or name or base_url[:100]
        if peer.workspace is None:
            peer.workspace = Workspace.objects.create(name=f"People of {peer.name}"[:120])
        peer.save()
        User.objects.filter(peer_user__peer=peer).update(is_active=True)
        audit.record(AuditAction.PEER_PAIRED, actor=by, object=peer, details={"did": did, "keys": _names(keys)})
    return peer


def _names(keys: list[JSON]) -> list[str]:
    return [key["kid"] for key in keys]


def unencrypted_origin(base_url: str) -> str:
    """The origin of a peer without TLS, which only an installation without TLS may have. Raises Unresolved."""
    origin = cards.origin_of(base_url)
    if not origin:
        raise Unresolved("Its address may not be called.", is_final=True)
    if not cards.is_unencrypted(origin):
        return ""
    if not settings.PUBLIC_BASE_URL.startswith("http://"):
        raise Unresolved("Its address must begin with https://.", is_final=True)
    return origin


async def fetch_keys(did: str, base_url: str) -> list[JSON]:
    """The keys of an installation now, each with its kid. Raises Unresolved."""
    document = await resolver.resolve(did, unencrypted=unencrypted_origin(base_url), fresh=True)
    return [{**key, "kid": kid} for kid, key in document.keys.items()]


async def call(url: str, body: JSON | None = None, token: str = "") -> JSON:
    """POST, or without a body GET, JSON of an installation. Raises PeerRefuses, PairingRefused, OutboundError."""
    headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "Parley"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    content = b"" if body is None else json.dumps(body).encode()
    async with (
        outbound.exchange(LIMITS) as way,
        way.send("GET" if body is None else "POST", url, headers, content) as answer,
    ):
        try:
            told = strict_json.parse(await answer.read())
        except strict_json.InvalidJSON:
            told = None
        if answer.status in (401, 403):
            raise PeerRefuses("It does not know this installation, or has revoked it.")
        if answer.status != 200 or not isinstance(told, dict):
            said = told.get("detail") if isinstance(told, dict) else ""
            raise PairingRefused(str(said or f"{url} answers with status {answer.status}.")[:300])
        return told


def revoke(peer: Peer, by: User | None) -> None:
    """End the pairing at once, here, and try to tell the other side. For threads without an event loop."""
    if not end(peer, Peer.State.REVOKED, AuditAction.PEER_REVOKED, by):
        return
    try:
        token = tokens.issue(tokens.END, peer.did)
        asyncio.run(call(peer.base_url + END_PATH, {}, token))
    except (outbound.OutboundError, PairingRefused, PeerRefuses) as error:
        log.info("%s was not told that it is revoked, and will see it at its next call: %s", peer, error)


def _revoke(peer: Peer, operator: Principal) -> Peer:
    if peer.state in (Peer.State.REVOKED, Peer.State.ENDED):
        raise NotNeeded("It is revoked already.")
    revoke(peer, person_of(operator))
    return peer


REVOKE = Act(
    name="revoke",
    label="Revoke",
    do=_revoke,
    summary="Revoke a paired installation",
    effect="Calls of its people are refused, and its agents here are disabled. A code that was not used is deleted.",
    said=lambda _: "Revoked. Calls of its people are refused from now on.",
    is_offered=lambda peer: peer.state in (Peer.State.INVITED, Peer.State.PAIRED),
    is_grave=True,
    icon="link_off",
    records=True,
)
PEERS = Resource("peers", "peer", Peer, acts=(REVOKE,), order=("state", "name"))


def end(peer: Peer, state: Peer.State, action: AuditAction, by: User | None = None) -> bool:
    """End a pairing: its people are refused, and its agents here disabled. False if it has ended or is a code."""
    with write_transaction():
        paired = Peer.objects.paired().filter(pk=peer.pk)
        if not paired.update(state=state, ended_at=timezone.now()):
            unused = Peer.objects.filter(pk=peer.pk, state=Peer.State.INVITED)
            if state == Peer.State.REVOKED and unused.delete()[0]:
                audit.record(action, actor=by, object=peer)
            return False
        User.objects.filter(peer_user__peer=peer).update(is_active=False)
        theirs = RemoteAgent.objects.filter(peer=peer).values("agent")
        Agent.objects.filter(pk__in=theirs).update(is_enabled=False)
        audit.record(action, actor=by, object=peer, details={"did": peer.did})
    return True
