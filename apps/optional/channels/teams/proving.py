"""Whether a request is of the Bot Framework: by its token, which is for one bot and one service address.

https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication#connector-to-bot
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from apps.accounts.errors import Kind, Refusal
from apps.optional.channels.platforms import parsed
from parley import outbound
from parley.outbound import Limits, OutboundError

log = logging.getLogger("parley.channels")

JSON = dict[str, Any]
METADATA = "https://login.botframework.com/v1/.well-known/openidconfiguration"
ISSUER = "https://api.botframework.com"
CHANNEL = "msteams"
ALGORITHMS = ["RS256"]
SKEW_SECONDS = 300
KEPT_SECONDS = 24 * 3600.0
ASKED_SECONDS = 300.0  # between looks for a key that is not known
AGAIN_SECONDS = 5.0  # after a look that failed
LONGEST_TOKEN = 10_000
SLOW = Limits(seconds=10.0)


class NoKeys(Refusal):
    """The keys of Microsoft cannot be read now. Send it again later."""

    kind = Kind.UNAVAILABLE


class Keys:
    """The keys of one metadata document, for one process. They are looked up again once a day, and for a new key."""

    def __init__(self, metadata: str) -> None:
        self._metadata = metadata
        self._keys: dict[str, JSON] = {}
        self._ask_at = self._ask_for_new_at = float("-inf")
        self._asking = asyncio.Lock()

    async def find(self, kid: str) -> JSON | None:
        """Raises NoKeys."""
        async with self._asking:
            if time.monotonic() > (self._ask_at if kid in self._keys else self._ask_for_new_at):
                await self._ask()
            if not self._keys:
                raise NoKeys
            return self._keys.get(kid)

    async def _ask(self) -> None:
        """Without an answer, the keys that are known stay, and it is asked again soon."""
        now = time.monotonic()
        self._ask_at = self._ask_for_new_at = now + AGAIN_SECONDS
        try:
            async with outbound.exchange(SLOW) as client:
                document = await _read(client, self._metadata)
                found = (await _read(client, str(document["jwks_uri"])))["keys"]
            self._keys = {str(one["kid"]): one for one in found}
            self._ask_at, self._ask_for_new_at = now + KEPT_SECONDS, now + ASKED_SECONDS
        except (OutboundError, LookupError, TypeError) as error:
            log.warning("the keys of the Bot Framework cannot be read: %s", error)


async def _read(client: outbound.Exchange, url: str) -> JSON:
    async with client.send("GET", url, {"Accept": "application/json"}) as answer:
        return parsed(await answer.read()) if answer.status == 200 else {}


def token_in(header: str) -> str:
    """The token of an `Authorization` header that may be one; or ""."""
    kind, _, token = header.partition(" ")
    is_one = kind.lower() == "bearer" and token.count(".") == 2 and len(token) <= LONGEST_TOKEN
    return token.strip() if is_one else ""


async def is_genuine(keys: Keys, token: str, app: str, activity: JSON, now: float) -> bool:
    """Is the token for this bot, of now, and for the service address and the channel of the activity? Raises NoKeys."""
    try:
        kid = str(jws.extract_compact(token.encode()).headers().get("kid", ""))
        key = await keys.find(kid)
        if key is None or not _is_endorsed(key, activity):
            return False
        claims = jwt.decode(token, RSAKey.import_key(key), algorithms=ALGORITHMS).claims
        return _are_right(claims, app, str(activity.get("serviceUrl", "")), now)
    except (JoseError, ValueError, TypeError, KeyError):
        return False


def _is_endorsed(key: JSON, activity: JSON) -> bool:
    endorsements = key.get("endorsements")
    is_for_channel = isinstance(endorsements, Iterable) and CHANNEL in endorsements
    return is_for_channel and activity.get("channelId") == CHANNEL


def _are_right(claims: JSON, app: str, service: str, now: float) -> bool:
    is_now = float(claims["nbf"]) - SKEW_SECONDS <= now <= float(claims["exp"]) + SKEW_SECONDS
    named = claims.get("serviceurl", claims.get("serviceUrl"))
    return bool(is_now and app and claims["iss"] == ISSUER and claims["aud"] == app and service and named == service)
