"""Short-lived signed tokens (JWT) with which one installation speaks to another, for itself or for a person.

`iss` and `aud` are the identities (DIDs) of both. `sub` is a pseudonym that only these two know a person by.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from apps.accounts.models import User
from apps.agents.identities import identity, signing
from apps.agents.identities.signing import BadSignature, signer_of
from apps.remote.models import Peer
from parley import db

JSON = dict[str, Any]

CALL, SYNC, END, PAIR = "parley-call+jwt", "parley-sync+jwt", "parley-end+jwt", "parley-pair+jwt"
LIFETIME = 120  # seconds
LONGEST_LIFETIME = 300  # seconds, of others' tokens
CLOCK_SKEW = 60  # seconds
LONGEST_TOKEN = 8 * 1024  # characters
BEARER = re.compile(r"(?i:bearer) \s*(ey[\w-]+\.ey[\w-]+\.[\w-]+)\s*", re.ASCII)
SUBJECT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
INSTALLATION = "installation"
"""The subject of calls that are for nobody in particular, such as health checks."""


class BadPeerToken(Exception):
    """The token is not one of a paired installation, or has expired. `str()` says why, for the log."""


@dataclass(frozen=True, slots=True)
class PeerToken:
    """A token that was read, and not verified yet."""

    text: str
    kind: str
    kid: str
    claims: JSON

    @property
    def issuer(self) -> str:
        return str(self.claims["iss"])

    @property
    def subject(self) -> str:
        return str(self.claims.get("sub", ""))

    @property
    def name(self) -> str:
        """What the person is called, in one line; "" if their installation does not say."""
        return " ".join("".join(one for one in str(self.claims.get("name", "")) if one.isprintable()).split())[:100]

    def verify(self, public: JSON | None) -> None:
        """Raises BadPeerToken unless this key, pinned for the issuer, made it."""
        if public is None:
            raise BadPeerToken("It is signed by a key that is not pinned.")
        try:
            signing.verify_token(self.text, public)
        except BadSignature as error:
            raise BadPeerToken(str(error)) from None


def issue(kind: str, audience: str, **claims: Any) -> str:
    """A token of this installation. Mostly without a query. Raises encryption.CannotDecrypt."""
    now = int(time.time())
    own = {"iss": identity.did_of(None), "aud": audience, "iat": now, "exp": now + LIFETIME, "jti": uuid.uuid4().hex}
    return signer_of(None).token({**own, **claims}, kind)


def read(text: str, *kinds: str, may_be_old: bool = False) -> PeerToken:
    """A token for this installation, of one of the kinds; its signature is not checked yet.

    `may_be_old`: an open stream's, whose call began in time. Raises BadPeerToken.
    """
    try:
        header, claims = signing.unverified_token(text if len(text) <= LONGEST_TOKEN else "")
    except BadSignature as error:
        raise BadPeerToken(str(error)) from None
    if header.get("typ") not in kinds:
        raise BadPeerToken("It is a token of another kind.")
    if claims.get("aud") != identity.did_of(None) or not isinstance(claims.get("iss"), str):
        raise BadPeerToken("It is for another installation.")
    issued, until, now = _seconds(claims, "iat"), _seconds(claims, "exp"), time.time()
    if until - issued > LONGEST_LIFETIME or issued > now + CLOCK_SKEW or (until < now and not may_be_old):
        raise BadPeerToken("It has expired, or lasts too long.")
    return PeerToken(text, str(header["typ"]), str(header.get("kid", "")), claims)


def _seconds(claims: JSON, name: str) -> float:
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadPeerToken("It does not say when it expires.")
    return float(value)


def token_in(authorization: str) -> str:
    """The token in an `Authorization` header that may be a peer's; "" if it holds something else."""
    found = BEARER.fullmatch(authorization)
    return found[1] if found else ""


def pseudonym(peer: Peer, user_id: int | None) -> str:
    """Who a person here is to this peer. It says nothing to others, and nothing about the person."""
    if user_id is None:
        return INSTALLATION
    return hashlib.sha256(f"{peer.salt}:{user_id}".encode()).hexdigest()[:40]


class PeerSigner:
    """Signs each request to a peer's agent with a fresh token for a person (`http_auth.Signer`)."""

    def __init__(self, peer: Peer, owner_id: int | None) -> None:
        self._peer, self._owner_id = peer, owner_id
        self._claims: JSON | None = None

    async def sign(self, request: httpx.Request) -> None:
        request.headers["Authorization"] = f"Bearer {await db.run(self._issue)}"

    async def renew(self) -> bool:
        return False

    def _issue(self) -> str:
        if self._claims is None:
            self._claims = {"sub": pseudonym(self._peer, self._owner_id)}
            if self._peer.passes_names and self._owner_id is not None:
                self._claims["name"] = User.objects.get(pk=self._owner_id).short_name
        return issue(CALL, self._peer.did, **self._claims)
