"""The token of an OAuth2 client: kept encrypted until shortly before its end, fetched by one at a time."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx

import db
from apps.remote.authenticating import tokens
from apps.remote.authenticating.errors import CredentialMissing
from apps.remote.authenticating.schemes import Scheme
from apps.remote.authenticating.tokens import Client, Token
from apps.remote.models import RemoteCredential

TAKEN_BACK = "The agent's OAuth2 client was taken back or replaced meanwhile. Send the message again."

_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[int, asyncio.Lock]] = WeakKeyDictionary()


class ClientToken:
    """Signs with a token that it fetches when there is no good one, or when the agent refused the one there was."""

    def __init__(self, credential: RemoteCredential, scheme: Scheme, keep_out: Callable[[str], None]) -> None:
        self._credential, self._scheme, self._keep_out = credential, scheme, keep_out
        self._token = _kept_by(credential, scheme)
        self._is_new = False
        if self._token:
            keep_out(self._token.text)

    async def sign(self, request: httpx.Request) -> None:
        """Raises TokenRefused, TokenUnavailable, CredentialMissing."""
        token, self._is_new = self._token, False
        if token is None or not token.is_good:
            token = await self._another_than("")
        request.headers["Authorization"] = f"Bearer {token.text}"

    async def renewed(self) -> bool:
        """There is another token, unless the one that was refused had just been made."""
        if self._is_new or self._token is None:
            return False
        refused = self._token.text
        return (await self._another_than(refused)).text != refused

    async def _another_than(self, refused: str) -> Token:
        """A good token: what somebody else has fetched meanwhile, or a new one."""
        async with _alone(self._credential.pk):
            token = await db.run(_now_kept, self._credential, self._scheme)
            if token is None or not token.is_good or token.text == refused:
                values = self._credential.values
                token = await tokens.fetch(self._scheme, Client(values["client_id"], values["client_secret"]))
                self._is_new = True
                await db.run(_keep, self._credential, self._scheme, token)
        self._keep_out(token.text)
        self._token = token
        return token


def _alone(credential: int) -> AbstractAsyncContextManager[None]:
    """One at a time for a credential, in this event loop; other processes are met in the row."""
    mine = _locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    lock = mine.get(credential)
    if lock is None:
        lock = mine[credential] = asyncio.Lock()
    return lock


def _now_kept(credential: RemoteCredential, scheme: Scheme) -> Token | None:
    """Raises CredentialMissing where the client itself is no longer what it was."""
    same = RemoteCredential.objects.filter(pk=credential.pk, updated_at=credential.updated_at)
    row = same.only("token", "token_until").first()
    if row is None:
        raise CredentialMissing(TAKEN_BACK, schemes=[scheme.name])
    return _kept_by(row, scheme)


def _kept_by(row: RemoteCredential, scheme: Scheme) -> Token | None:
    kept = json.loads(row.token) if row.token and row.token_until else {}
    until: datetime.datetime | None = row.token_until
    if until is None or kept.get("scopes") != list(scheme.scopes):
        return None
    return Token(kept["access_token"], until)


def _keep(credential: RemoteCredential, scheme: Scheme, token: Token) -> None:
    """Only for the client that it was fetched for: one that was replaced meanwhile gets none of it."""
    text = json.dumps({"access_token": token.text, "scopes": list(scheme.scopes)})
    same = RemoteCredential.objects.filter(pk=credential.pk, updated_at=credential.updated_at)
    same.update(token=text, token_until=token.until)
