"""Connecting people to OAuth2 services: discovery, the authorization code flow with PKCE, renewal, and revocation.

Authlib speaks the protocol; its calls go through `outbound`. No text of a service is shown or logged, except an error's
code.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError
from authlib.oauth2.rfc8414 import get_well_known_url
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import READ, Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.credentials.models import Credential, OAuthService
from apps.credentials.requests import GivenCredential
from parley import db, outbound
from parley.db.sql import write_transaction
from parley.outbound import Limits
from parley.outbound.transports import Transport, client

log_lines = logging.getLogger("parley.audit")

LIMITS = Limits(seconds=15.0, bytes=256 * 1024, header_bytes=32 * 1024, connections=1)
TOKEN_TEXT = re.compile(r"[\x21-\x7e]{1,16384}")  # a token goes into a header
ERROR_CODE = re.compile(r"[a-z_]{1,40}")
LONGEST_LIFETIME = 10 * 365 * 24 * 3600.0  # seconds
EXPIRY_MARGIN = 30.0  # seconds before its end when a token is renewed; at most a tenth of its lifetime
RENEWAL_SECONDS = 60.0  # for which one run alone may renew: longer than LIMITS let three calls take
LOOK_AGAIN_SECONDS = 0.2  # for the tokens that another run is renewing
METADATA_FIELDS = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "revocation_endpoint",
    "token_endpoint_auth_methods_supported",
    "authorization_response_iss_parameter_supported",
)

_renewals: set[asyncio.Future[None]] = set()  # the loop itself keeps no reference


class OAuthProblem(Exception):
    """An OAuth service gave no tokens. The text is for people and says what to do."""


class GrantEnded(OAuthProblem):
    """The service renews the tokens no more: their owner has to connect again."""


def redirect_uri() -> str:
    """Where services send people back to; operators register it at each service."""
    return f"{settings.PUBLIC_BASE_URL}/settings/credentials/oauth/callback"


async def discover(issuer: str) -> dict[str, Any]:
    """An issuer's metadata, without what is not used (RFC 8414 §3, OpenID Connect Discovery §4).

    Raises OAuthProblem.
    """
    openid = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    with _explained(issuer):
        async with client(outbound.exchange(LIMITS)) as http:
            for address in (get_well_known_url(issuer.rstrip("/"), external=True), openid):
                answer = await http.get(address, headers={"Accept": "application/json"})
                if answer.status_code == httpx2.codes.OK and isinstance(said := answer.json(), dict):
                    return _checked_metadata(issuer, said)
    raise OAuthProblem(f"{issuer} has no metadata of OAuth2 or OpenID Connect. Fill in its URLs instead.")


def _checked_metadata(issuer: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Raises OAuthProblem if it is another issuer's (RFC 8414 §3.3), or names addresses that may not be called."""
    if str(said.get("issuer")).rstrip("/") != issuer.rstrip("/"):
        raise OAuthProblem(f"The metadata at {issuer} is of another issuer. Give the address that it names as its own.")
    for name in ("authorization_endpoint", "token_endpoint", "revocation_endpoint"):
        url = said.get(name, "")
        if not url and name == "revocation_endpoint":
            continue
        if not url or not isinstance(url, str) or (issuer.startswith("https:") and not url.startswith("https:")):
            raise OAuthProblem(f"The metadata at {issuer} has no {name} that can be used. Fill in the URLs instead.")
        outbound.guard().check(url)
    return {name: said[name] for name in METADATA_FIELDS if name in said}


async def discovered(service: OAuthService) -> OAuthService:
    """The service with its addresses, which are looked up once. Raises OAuthProblem."""
    if not service.is_discovered and service.issuer:
        service.metadata = await discover(service.issuer)
        same = OAuthService.objects.filter(pk=service.pk, issuer=service.issuer)
        await db.run(lambda: same.update(metadata=service.metadata))
    return service


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a flow: where the person goes, and what only their session knows."""

    url: str = field(repr=False)
    state: str = field(repr=False)
    verifier: str = field(repr=False)


async def begin(service: OAuthService) -> Start:
    """Raises OAuthProblem."""
    service = await discovered(service)
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    async with _client(service) as http:
        url, _ = http.create_authorization_url(
            service.endpoint("authorization"),
            state=state,
            code_verifier=verifier,
            scope=service.scopes or None,
            **service.authorization_parameters,
        )
    return Start(url, state, verifier)


def code_from(service: OAuthService, answer: Mapping[str, str]) -> str:
    """The code in the parameters with which a service sent a person back.

    Raises OAuthProblem for an error, or for the answer of another issuer (RFC 9207 §2.4).
    """
    issuer, told = service.metadata.get("issuer"), answer.get("iss")
    wants_it = service.metadata.get("authorization_response_iss_parameter_supported") is True
    if issuer and (told != issuer if told is not None else wants_it):
        raise OAuthProblem(f"The answer was not from {service}. Nothing was stored. Connect again.")
    error = answer.get("error", "")
    if error == "access_denied":
        raise OAuthProblem(f"You did not allow it at {service}, so nothing was stored. You can connect again.")
    if error or not answer.get("code"):
        raise OAuthProblem(f"{service} did not connect you{_reason(error)}. Nothing was stored. Try again later.")
    return answer["code"]


async def exchange(service: OAuthService, code: str, verifier: str) -> GivenCredential:
    """The tokens for a code. Raises OAuthProblem."""
    with _explained(service):
        async with _client(service) as http:
            said = await http.fetch_token(
                service.endpoint("token"),
                grant_type="authorization_code",
                code=code,
                code_verifier=verifier,
                **_resource(service),
            )
            return _tokens(service, said)


async def renew(credential: Credential) -> None:
    """Renew an expired access token, once for all who want it at the same time.

    Read the row again afterwards: without a valid grant it has lapsed. Raises OAuthProblem if the service cannot be
    asked now.
    """
    while (claimed := await db.run(_claim, credential.pk)) is None:
        if not await db.run(_expired(credential.pk).exists):
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    renewal = asyncio.ensure_future(_renew(claimed))
    _renewals.add(renewal)
    renewal.add_done_callback(_forget_renewal)
    await asyncio.shield(renewal)  # a canceled run must not lose tokens that the service has replaced


def _forget_renewal(renewal: asyncio.Future[None]) -> None:
    _renewals.discard(renewal)
    if not renewal.cancelled():
        renewal.exception()  # nobody may be waiting for it any more


def _expired(pk: int) -> QuerySet[Credential]:
    rows = Credential.objects.usable().filter(pk=pk, lapsed_at=None, expires_at__lte=timezone.now())
    return rows.exclude(oauth_service=None)


def _claim(pk: int) -> Credential | None:
    """The credential, if this caller alone may renew it for RENEWAL_SECONDS."""
    now = timezone.now()
    until = now + datetime.timedelta(seconds=RENEWAL_SECONDS)
    free = _expired(pk).filter(Q(renewing_until=None) | Q(renewing_until__lte=now))
    if not free.update(renewing_until=until):
        return None
    return _expired(pk).filter(renewing_until=until).select_related("oauth_service", "agent").first()


async def _renew(claimed: Credential) -> None:
    service = claimed.oauth_service
    assert service is not None
    still_mine = Credential.objects.filter(pk=claimed.pk, renewing_until=claimed.renewing_until)
    try:
        tokens = await _renewed(await discovered(service), claimed.refresh_token)
    except GrantEnded:
        await db.persist(_lapse, claimed, still_mine)
        return
    except BaseException:
        await db.run(lambda: still_mine.update(renewing_until=None))
        raise
    fields = {
        "secret": tokens.secret,
        "refresh_token": tokens.refresh_token or claimed.refresh_token,
        "expires_at": tokens.expires_at,
        "renewing_until": None,
    }
    if not await db.persist(lambda: still_mine.update(**fields)):
        await _revoke(service, tokens.refresh_token, tokens.secret)  # it was disconnected or replaced meanwhile


async def _renewed(service: OAuthService, refresh_token: str) -> GivenCredential:
    if not refresh_token:
        raise GrantEnded(f"{service} gave no way to renew the access.")
    with _explained(service):
        async with _client(service) as http:
            url = service.endpoint("token")
            http.token = {"refresh_token": refresh_token}
            return _tokens(service, await http.refresh_token(url, refresh_token=refresh_token, **_resource(service)))


def _lapse(claimed: Credential, still_mine: QuerySet[Credential]) -> None:
    with write_transaction():
        row = still_mine.select_for_update().first()
        if row is None:
            return
        row.erase(lapsed_at=timezone.now())
        subject = audit.Subject("credentials.credential", str(row.pk), row.service)
        details = {"agent": claimed.agent.slug, "owner": row.user_id, "change": "the service renews it no more"}
        audit.record(AuditAction.CREDENTIAL_REMOVED, object=subject, details=details)
    log_lines.info("credential %s lapsed: agent %s, owner %s", row.pk, claimed.agent.slug, row.user_id)


async def disconnect(credential: Credential, by: Principal) -> Credential:
    """Erase a credential, and revoke its tokens at its service (RFC 7009). Its `is_told` says whether that was told.

    Raises NotNeeded.
    """
    held = await db.run(_erase, credential.pk, by)
    if held is None:
        raise NotNeeded("It is revoked already.")
    if held.oauth_service is not None and (held.secret or held.refresh_token):
        credential.is_told = await _revoke(held.oauth_service, held.refresh_token, held.secret)
    return credential


def _disconnected(row: Credential) -> str:
    told = "" if row.is_told else f" {row.oauth_service} could not be told: end Parley's access in the account there."
    return f"It is erased here.{told}"


REVOKE = Act[Credential](
    "revoke",
    "Revoke",
    lambda row, principal: asyncio.run(disconnect(row, principal)),
    "Revoke a credential",
    "It is erased here, and its service is told to end it. Agents ask again when they need one.",
    _disconnected,
    lambda row: row.revoked_at is None,
    scope=READ,  # it takes nothing but what was given
    is_grave=True,
    records=True,
    icon="block",
)
CREDENTIALS_OF_PEOPLE = Resource("credentials", "credential", Credential, acts=(REVOKE,), order=("-given_at", "-id"))


def _erase(pk: int, by: Principal) -> Credential | None:
    """What was erased."""
    with write_transaction():
        rows = Credential.objects.usable().select_for_update(of=("self",))
        held = rows.select_related("oauth_service").filter(pk=pk).first()
        if held is not None:
            Credential.objects.select_related("agent").defer("secret", "username", "refresh_token").get(pk=pk).revoke(
                by
            )
    return held


async def _revoke(service: OAuthService, refresh_token: str, access_token: str) -> bool:
    """A refresh token's revocation ends its access tokens, too (RFC 7009 §2.1)."""
    url = service.endpoint("revocation")
    if not url:
        return False
    kind, token = ("refresh_token", refresh_token) if refresh_token else ("access_token", access_token)
    try:
        with _explained(service):
            async with _client(service) as http:
                answer = await http.revoke_token(url, token=token, token_type_hint=kind)
                answer.raise_for_status()
    except OAuthProblem:
        return False
    return True


def _client(service: OAuthService) -> AsyncOAuth2Client:
    return AsyncOAuth2Client(
        service.client_id,
        service.client_secret,
        token_endpoint_auth_method=service.client_authentication,
        revocation_endpoint_auth_method=service.client_authentication,
        redirect_uri=redirect_uri(),
        code_challenge_method="S256",
        transport=Transport(outbound.exchange(LIMITS)),
    )


def _resource(service: OAuthService) -> dict[str, str]:
    """A resource that the authorization names is named for each token, too (RFC 8707 §2.2)."""
    named = service.authorization_parameters
    return {"resource": named["resource"]} if "resource" in named else {}


@contextmanager
def _explained(service: object) -> Iterator[None]:
    """Errors of Authlib and of calls as OAuthProblem."""
    try:
        yield
    except OAuthError as refused:
        if refused.error == "invalid_grant":
            raise GrantEnded(f"{service} does not accept this connection any more. Connect again.") from None
        raise OAuthProblem(f"{service} gave no access{_reason(refused.error)}. Tell an operator.") from None
    except httpx2.HTTPStatusError as error:
        status = error.response.status_code
        raise OAuthProblem(f"{service} answered with an error ({status}). Try again later.") from None
    except (httpx2.HTTPError, outbound.OutboundError) as error:
        raise OAuthProblem(f"{service} could not be asked. {error}") from None
    except (ValueError, TypeError, RecursionError):
        raise OAuthProblem(f"{service} answered with what is no token of OAuth2. Tell an operator.") from None


def _reason(code: object) -> str:
    return f" ({code})" if isinstance(code, str) and ERROR_CODE.fullmatch(code) else ""


def _tokens(service: OAuthService, said: Mapping[str, Any]) -> GivenCredential:
    """Raises ValueError for an answer that has no tokens of the kind Bearer."""
    access, refresh = said.get("access_token"), said.get("refresh_token") or ""
    if not isinstance(access, str) or not TOKEN_TEXT.fullmatch(access):
        raise ValueError("no access token")
    if str(said.get("token_type", "bearer")).lower() != "bearer":
        raise ValueError("no bearer token")
    if not isinstance(refresh, str) or (refresh and not TOKEN_TEXT.fullmatch(refresh)):
        raise ValueError("no refresh token")
    seconds, until = lifetime(said.get("expires_in")), None
    if seconds is not None:
        until = timezone.now() + datetime.timedelta(seconds=seconds - min(EXPIRY_MARGIN, seconds / 10))
    return GivenCredential(access, oauth_service=service, refresh_token=refresh, expires_at=until)


def lifetime(expires_in: object) -> float | None:
    """A token's lifetime in seconds; None if the service does not say it."""
    if not isinstance(expires_in, int | float | str) or isinstance(expires_in, bool):
        return None
    try:
        seconds = float(expires_in)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_LIFETIME)
