"""OAuth2 client credentials (RFC 6749 §4.4): asking an authorization server for a token."""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode

from django.utils import timezone

import outbound
from apps.remote.authenticating.errors import TokenRefused, TokenUnavailable
from apps.remote.authenticating.origins import origin_of
from apps.remote.authenticating.schemes import Scheme
from outbound import Limits, OutboundError

LIMITS = Limits(seconds=15.0, bytes=256 * 1024, header_bytes=32 * 1024, connections=1)
SHORTEST, UNTOLD, LONGEST = 1.0, 300.0, 24 * 3600.0  # seconds that a token is taken to last; untold: it did not say
EARLY = 30.0  # seconds before its end from which on a token is not used any more, at most a tenth of its life
TEXT = re.compile(r"[\x21-\x7e]{1,16384}")  # a token goes into a header
CREDENTIALS_WRONG = ("invalid_client", "unauthorized_client", "access_denied", "invalid_scope", "invalid_grant")


@dataclass(frozen=True, slots=True)
class Token:
    """An access token; `until` it is used."""

    text: str = field(repr=False)
    until: datetime.datetime

    @property
    def is_good(self) -> bool:
        return timezone.now() < self.until


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks for tokens."""

    id: str
    secret: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """RFC 6749 §2.3.1: both are form-encoded first."""
        pair = f"{quote_plus(self.id)}:{quote_plus(self.secret)}"
        return "Basic " + base64.b64encode(pair.encode()).decode()


async def fetch(scheme: Scheme, client: Client) -> Token:
    """A new token. The client's secret goes to the origin that the card names and follows no redirect.

    Raises TokenRefused, TokenUnavailable.
    """
    endpoint = scheme.token_url or await _discovered(scheme.discovery_url)
    form = {"grant_type": "client_credentials"}
    if scheme.scopes:
        form["scope"] = " ".join(scheme.scopes)
    status, answer = await _asked("POST", endpoint, form, {"Authorization": client.authorization})
    if status in (400, 401) and answer.get("error") == "invalid_client":  # some take the secret in the body alone
        in_body = {**form, "client_id": client.id, "client_secret": client.secret}
        status, answer = await _asked("POST", endpoint, in_body, {})
    if status != 200:
        raise _refusal(endpoint, status, answer, client)
    return _token(endpoint, answer)


async def _discovered(url: str) -> str:
    """The token endpoint that an OpenID provider names; another origin than its own gets no secret."""
    status, answer = await _asked("GET", url, {}, {})
    endpoint = answer.get("token_endpoint")
    if status != 200 or not isinstance(endpoint, str) or origin_of(endpoint) == "":
        raise TokenUnavailable(f"{origin_of(url)} does not say where OAuth2 tokens are fetched.")
    if origin_of(endpoint) != origin_of(url):
        raise TokenUnavailable(
            f"{origin_of(url)} has tokens fetched at {origin_of(endpoint)}. A secret is sent to the provider alone."
        )
    return endpoint


async def _asked(method: str, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, Any]:
    """The status and the JSON object of the answer; {} where it is none."""
    sent = {"Accept": "application/json", **headers}
    if form:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        async with (
            outbound.exchange(LIMITS) as way,
            way.send(method, url, sent, urlencode(form).encode()) as answer,
        ):
            return answer.status, _object(await answer.read())
    except OutboundError as error:
        raise TokenUnavailable(f"A token for the agent could not be fetched at {origin_of(url)}: {error}") from None


def _object(content: bytes) -> Any:
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _token(endpoint: str, answer: Mapping[str, Any]) -> Token:
    text, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(text, str) or not TEXT.fullmatch(text):
        raise TokenUnavailable(f"{origin_of(endpoint)} answered with no access token.")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenUnavailable(f"{origin_of(endpoint)} gave a token of a kind that is not Bearer, which Parley knows.")
    seconds = _lifetime(answer.get("expires_in"))
    used = seconds - min(EARLY, seconds / 10)
    return Token(text, timezone.now() + datetime.timedelta(seconds=used))


def _lifetime(said: Any) -> float:
    """Seconds, from a number or one in text; what makes no sense counts as untold."""
    try:
        seconds = float(said) if isinstance(said, int | float | str) and not isinstance(said, bool) else UNTOLD
    except (ValueError, OverflowError):
        return UNTOLD
    return min(max(seconds, SHORTEST), LONGEST) if seconds == seconds else UNTOLD  # NaN is no number of seconds


def _refusal(endpoint: str, status: int, answer: Mapping[str, Any], client: Client) -> Exception:
    """What the server said, as text of somebody else's, without the secret."""
    error = _cleaned(answer.get("error"), client)
    told = _cleaned(answer.get("error_description"), client)
    why = ": ".join(filter(None, (error, told))) or f"status {status}"
    where = origin_of(endpoint)
    if error in CREDENTIALS_WRONG or status in (400, 401, 403):
        return TokenRefused(f"{where} gives no token to this OAuth2 client ({why}).")
    return TokenUnavailable(f"A token for the agent could not be fetched at {where} ({why}).")


def _cleaned(said: Any, client: Client) -> str:
    if not isinstance(said, str):
        return ""
    for secret in (client.authorization.removeprefix("Basic "), client.secret, quote_plus(client.secret)):
        said = said.replace(secret, "•••")
    return "".join(letter for letter in said if letter.isprintable())[:200]
