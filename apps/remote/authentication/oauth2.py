"""OAuth2 client credentials (RFC 6749 §4.4). Tokens are stored encrypted."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx
from django.utils import timezone

from apps.credentials.oauth import TOKEN_TEXT, lifetime
from apps.remote.agent_cards.cards import origin_of
from apps.remote.authentication.security_schemes import Scheme
from apps.remote.errors import CredentialMissing, TokenRefused, TokenUnavailable
from apps.remote.models import RemoteCredential
from parley import db, outbound
from parley.outbound import Limits, OutboundError

TOKEN_LIMITS = Limits(seconds=15.0, bytes=256 * 1024, header_bytes=32 * 1024, connections=1)
SHORTEST_LIFETIME = 1.0  # seconds
DEFAULT_LIFETIME = 300.0
LONGEST_LIFETIME = 24 * 3600.0
EXPIRY_MARGIN = 30.0  # seconds before expiry when a token is replaced; at most a tenth of its lifetime
CLIENT_ERRORS = ("invalid_client", "unauthorized_client", "access_denied", "invalid_scope", "invalid_grant")

CLIENT_REPLACED = "The agent's OAuth2 client was taken back or replaced meanwhile. Send the message again."

_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[int, asyncio.Lock]] = WeakKeyDictionary()


class ClientTokenSigner:
    """Signs with a token. Fetches one if there is none, it has expired, or the agent refused it."""

    def __init__(self, credential: RemoteCredential, scheme: Scheme, redact: Callable[[str], None]) -> None:
        self._credential, self._scheme, self._redact = credential, scheme, redact
        self._token = _stored_token(credential, scheme)
        self._is_new = False
        if self._token:
            redact(self._token.text)

    async def sign(self, request: httpx.Request) -> None:
        """Raises TokenRefused, TokenUnavailable, CredentialMissing."""
        token, self._is_new = self._token, False
        if token is None or not token.is_good:
            token = await self._replace_token("")
        request.headers["Authorization"] = f"Bearer {token.text}"

    async def renew(self) -> bool:
        """Get another token, unless the refused one was new."""
        if self._is_new or self._token is None:
            return False
        refused = self._token.text
        return (await self._replace_token(refused)).text != refused

    async def _replace_token(self, refused: str) -> Token:
        async with _fetch_lock(self._credential.pk):
            token = await db.run(_load_token, self._credential, self._scheme)
            if token is None or not token.is_good or token.text == refused:
                values = self._credential.values
                token = await fetch_token(self._scheme, Client(values["client_id"], values["client_secret"]))
                self._is_new = True
                await db.run(_save_token, self._credential, self._scheme, token)
        self._redact(token.text)
        self._token = token
        return token


def _fetch_lock(credential: int) -> AbstractAsyncContextManager[None]:
    """Allows one fetch per credential in this event loop; processes share the row."""
    mine = _locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    lock = mine.get(credential)
    if lock is None:
        lock = mine[credential] = asyncio.Lock()
    return lock


def _load_token(credential: RemoteCredential, scheme: Scheme) -> Token | None:
    """Raises CredentialMissing if the client was replaced or erased."""
    same = RemoteCredential.objects.filter(pk=credential.pk, updated_at=credential.updated_at)
    row = same.only("token", "token_until").first()
    if row is None:
        raise CredentialMissing(CLIENT_REPLACED, schemes=[scheme.name])
    return _stored_token(row, scheme)


def _stored_token(row: RemoteCredential, scheme: Scheme) -> Token | None:
    kept = json.loads(row.token) if row.token and row.token_until else {}
    until: datetime.datetime | None = row.token_until
    if until is None or kept.get("scopes") != list(scheme.scopes):
        return None
    return Token(kept["access_token"], until)


def _save_token(credential: RemoteCredential, scheme: Scheme, token: Token) -> None:
    text = json.dumps({"access_token": token.text, "scopes": list(scheme.scopes)})
    same = RemoteCredential.objects.filter(pk=credential.pk, updated_at=credential.updated_at)
    same.update(token=text, token_until=token.until)


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    until: datetime.datetime

    @property
    def is_good(self) -> bool:
        return timezone.now() < self.until


@dataclass(frozen=True, slots=True)
class Client:
    id: str
    secret: str = field(repr=False)

    @property
    def authorization(self) -> str:
        pair = f"{quote_plus(self.id)}:{quote_plus(self.secret)}"
        return "Basic " + base64.b64encode(pair.encode()).decode()


async def fetch_token(scheme: Scheme, client: Client) -> Token:
    """A new token. The client's secret goes only to the origin in the card, without redirects.

    Raises TokenRefused, TokenUnavailable.
    """
    endpoint = scheme.token_url or await _discover_endpoint(scheme.discovery_url)
    form = {"grant_type": "client_credentials"}
    if scheme.scopes:
        form["scope"] = " ".join(scheme.scopes)
    status, answer = await _request("POST", endpoint, form, {"Authorization": client.authorization})
    if status in (400, 401) and answer.get("error") == "invalid_client":  # some servers read it only in the body
        in_body = {**form, "client_id": client.id, "client_secret": client.secret}
        status, answer = await _request("POST", endpoint, in_body, {})
    if status != 200:
        raise _error_from(endpoint, status, answer, client)
    return _token_from(endpoint, answer)


async def _discover_endpoint(url: str) -> str:
    status, answer = await _request("GET", url, {}, {})
    endpoint = answer.get("token_endpoint")
    if status != 200 or not isinstance(endpoint, str) or origin_of(endpoint) == "":
        raise TokenUnavailable(f"{origin_of(url)} does not say where OAuth2 tokens are fetched.")
    if origin_of(endpoint) != origin_of(url):
        raise TokenUnavailable(
            f"{origin_of(url)} has tokens fetched at {origin_of(endpoint)}. A secret is sent to the provider alone."
        )
    return endpoint


async def _request(method: str, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, Any]:
    sent = {"Accept": "application/json", **headers}
    if form:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        async with (
            outbound.exchange(TOKEN_LIMITS) as way,
            way.send(method, url, sent, urlencode(form).encode()) as answer,
        ):
            status, content = answer.status, await answer.read()
    except OutboundError as error:
        raise TokenUnavailable(f"A token for the agent could not be fetched at {origin_of(url)}: {error}") from None
    with suppress(ValueError, RecursionError):
        if isinstance(read := json.loads(content), dict):
            return status, read
    return status, {}


def _token_from(endpoint: str, answer: Mapping[str, Any]) -> Token:
    text, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(text, str) or not TOKEN_TEXT.fullmatch(text):
        raise TokenUnavailable(f"{origin_of(endpoint)} answered with no access token.")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenUnavailable(f"{origin_of(endpoint)} gave a token of a kind that is not Bearer, which Parley knows.")
    said = lifetime(answer.get("expires_in"))
    seconds = DEFAULT_LIFETIME if said is None else min(max(said, SHORTEST_LIFETIME), LONGEST_LIFETIME)
    used = seconds - min(EXPIRY_MARGIN, seconds / 10)
    return Token(text, timezone.now() + datetime.timedelta(seconds=used))


def _error_from(endpoint: str, status: int, answer: Mapping[str, Any], client: Client) -> Exception:
    error = _without_secrets(answer.get("error"), client)
    told = _without_secrets(answer.get("error_description"), client)
    why = ": ".join(filter(None, (error, told))) or f"status {status}"
    where = origin_of(endpoint)
    if error in CLIENT_ERRORS or status in (400, 401, 403):
        return TokenRefused(f"{where} gives no token to this OAuth2 client ({why}).")
    return TokenUnavailable(f"A token for the agent could not be fetched at {where} ({why}).")


def _without_secrets(said: Any, client: Client) -> str:
    if not isinstance(said, str):
        return ""
    for secret in (client.authorization.removeprefix("Basic "), client.secret, quote_plus(client.secret)):
        said = said.replace(secret, "•••")
    return "".join(letter for letter in said if letter.isprintable())[:200]
