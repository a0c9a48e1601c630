"""OAuth clients that nobody registered by hand: by dynamic registration (RFC 7591), or by their metadata's address.

A client's id may be the HTTPS address of a document about it (OAuth Client ID Metadata Document). Both kinds act only
for people who allow it, never by themselves.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from allauth.idp.oidc.models import Client
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from apps.accounts import audit
from apps.accounts.audit import Subject
from apps.accounts.audit_models import AuditAction
from apps.accounts.clients import oauth
from apps.accounts.principals import TASK_SCOPES
from parley import outbound
from parley.db.sql import write_transaction
from parley.outbound import Limits, OutboundError

LIMITS = Limits(seconds=5.0, bytes=16 * 1024, header_bytes=32 * 1024, connections=1)
FRESH_SECONDS, STALE_SECONDS = 3600, 24 * 3600
"""How long a document is not read again, and how long it counts while it cannot be read."""
UNUSED = datetime.timedelta(days=30)
"""How long a client is kept that has no tokens."""
SPARED = datetime.timedelta(hours=1)
"""How long it is kept even where there are too many."""
LONGEST_ID = 100
DOCUMENT = re.compile(r"https://[a-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~-]+)+/?", re.ASCII)
OWN_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.ASCII)
UNSAFE_SCHEMES = (
    "http:", "https:", "javascript:", "data:", "vbscript:", "blob:", "file:", "about:", "intent:", "view-source:",
    "chrome:", "filesystem:", "jar:", "ftp:", "ws:", "wss:", "search:", "search-ms:", "tel:", "sms:", "mailto:",
)  # fmt: skip
GRANTS = (Client.GrantType.AUTHORIZATION_CODE, Client.GrantType.REFRESH_TOKEN)


class InvalidMetadata(Exception):
    """A client says something of itself that is not accepted. The text says what.

    Attributes:
        code: of RFC 7591 §3.2.2.
    """

    def __init__(self, words: str, code: str = "invalid_client_metadata") -> None:
        super().__init__(words)
        self.code = code


class TooManyClients(Exception):
    """Too many programs registered themselves. Try again in an hour, or ask an operator to register yours."""


def _redirect_address(address: str) -> str:
    if not is_redirect_address(address):
        raise ValueError("write full https:// addresses; http:// only for this machine")
    return address


def is_redirect_address(address: str) -> bool:
    """With HTTPS, of this machine, or with an app's own scheme, such as cursor:// (RFC 8252 §7)."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    if not address.isprintable() or any(sign in address for sign in "#*\\ ") or "@" in parts.netloc:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1"))
    return has_own_scheme(address) and ("://" in address or "." in parts.scheme)


def has_own_scheme(address: str) -> bool:
    """Whether an app, and no browser, opens the address."""
    scheme = OWN_SCHEME.match(address)
    return scheme is not None and scheme[0] not in UNSAFE_SCHEMES and not scheme[0].startswith("ms-")


Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=100, pattern=r"^[^<>\x00-\x1f]*$")]
RedirectAddress = Annotated[str, StringConstraints(max_length=500), AfterValidator(_redirect_address)]


class Metadata(BaseModel):
    """What is read of a client's metadata (RFC 7591 §2); the rest is ignored."""

    client_id: str = ""
    client_name: Text = ""
    redirect_uris: list[RedirectAddress] = Field(min_length=1, max_length=20)
    token_endpoint_auth_method: str = "client_secret_basic"  # noqa: S105
    response_types: list[str] = Field(["code"], max_length=20)
    grant_types: list[str] = Field([str(Client.GrantType.AUTHORIZATION_CODE)], max_length=20)

    @classmethod
    def read(cls, said: object) -> Metadata:
        """Raises InvalidMetadata."""
        try:
            metadata = cls.model_validate(said)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
            field = str(first["loc"][0]) if first["loc"] else ""
            code = "invalid_redirect_uri" if field == "redirect_uris" else "invalid_client_metadata"
            raise InvalidMetadata(f"{field or 'The metadata'}: {first['msg']}", code) from None
        if "code" not in metadata.response_types or Client.GrantType.AUTHORIZATION_CODE not in metadata.grant_types:
            raise InvalidMetadata("Only the response type code and the grant authorization_code are given here.")
        return metadata

    def client(self, client_id: str, kind: Client.Type, origin: Literal["dcr", "cimd"]) -> Client:
        shown = "".join(sign for sign in self.client_name if sign.isprintable()).strip()
        name = shown or urlsplit(self.redirect_uris[0]).hostname or "A program"
        client = Client(id=client_id, name=name[:100], type=kind, secret="")
        client.set_redirect_uris(self.redirect_uris)
        client.set_grant_types(list(map(str, GRANTS)))
        client.set_scopes([*oauth.IDENTITY_SCOPES, *TASK_SCOPES])
        client.set_default_scopes(list(TASK_SCOPES))
        client.data = {"registered_by": origin, "read_at": int(time.time())}
        return client


def self_registered() -> QuerySet[Client]:
    found: QuerySet[Client] = Client.objects.filter(owner=None, data__has_key="registered_by")
    return found


def is_self_registered(client: Client) -> bool:
    return bool((client.data or {}).get("registered_by"))


def register(said: object) -> dict[str, Any]:
    """Register a client, and answer what RFC 7591 §3.2.1 says. Raises InvalidMetadata, TooManyClients."""
    metadata, adapter = Metadata.read(said), oauth.Adapter()
    methods = {"none": Client.Type.PUBLIC} | dict.fromkeys(
        ("client_secret_basic", "client_secret_post"), Client.Type.CONFIDENTIAL
    )
    kind = methods.get(metadata.token_endpoint_auth_method)
    if kind is None:
        raise InvalidMetadata(f"token_endpoint_auth_method must be one of {', '.join(methods)}.")
    client = metadata.client(adapter.generate_client_id(), kind, "dcr")
    secret = oauth.new_secret(client) if kind == Client.Type.CONFIDENTIAL else ""
    _keep(client)
    return {
        "client_id": client.pk,
        "client_id_issued_at": int(client.created_at.timestamp()),
        **({"client_secret": secret, "client_secret_expires_at": 0} if secret else {}),
        "client_name": client.name,
        "redirect_uris": client.get_redirect_uris(),
        "token_endpoint_auth_method": metadata.token_endpoint_auth_method,
        "grant_types": client.get_grant_types(),
        "response_types": client.get_response_types(),
        "scope": " ".join(client.get_scopes()),
    }


def _keep(client: Client) -> None:
    """Save a new client. Unused ones make room. Raises TooManyClients."""
    now, unused = timezone.now(), self_registered().filter(token=None)
    with write_transaction():
        unused.filter(created_at__lt=now - UNUSED).delete()
        over = self_registered().count() - settings.OAUTH_MOST_OPEN_CLIENTS + 1
        if over > 0:
            oldest = unused.filter(created_at__lt=now - SPARED).order_by("created_at").values_list("pk", flat=True)
            Client.objects.filter(pk__in=list(oldest[:over])).delete()
            if self_registered().count() >= settings.OAUTH_MOST_OPEN_CLIENTS:
                raise TooManyClients(TooManyClients.__doc__)
        client.save(force_insert=True)
        subject = Subject(Client._meta.label_lower, client.pk, client.name)
        audit.record(AuditAction.PROGRAM_CREATED, object=subject, details={"by": "itself"})


def is_document(client_id: str) -> bool:
    """Whether the id is the address of a metadata document."""
    return len(client_id) <= LONGEST_ID and bool(DOCUMENT.fullmatch(client_id)) and not re.search(r"/\.\.?/", client_id)


def _age(client: Client | None) -> float:
    """Seconds since the client's document was read."""
    return time.time() - (client.data or {}).get("read_at", 0) if client else float("inf")


def is_fresh(address: str) -> bool:
    """Whether the document at this address was read within the hour."""
    return _age(Client.objects.filter(pk=address).first()) < FRESH_SECONDS


def read_document(address: str) -> None:
    """Make or renew the client whose id is this address, by its document.

    Raises InvalidMetadata, TooManyClients.
    """
    known = Client.objects.filter(pk=address).first()
    try:
        said = async_to_sync(_fetch)(address)
    except OutboundError as error:
        if _age(known) < STALE_SECONDS:
            return
        raise InvalidMetadata(f"The program's metadata at {address} cannot be read: {error}") from None
    metadata = Metadata.read(said)
    if metadata.client_id != address:
        raise InvalidMetadata(f"The metadata at {address} is of another program.")
    if metadata.token_endpoint_auth_method.startswith("client_secret") and "token_endpoint_auth_method" in said:
        raise InvalidMetadata(f"The metadata at {address} asks for a secret, which a document cannot have.")
    client = metadata.client(address, Client.Type.PUBLIC, "cimd")
    if known is None:
        with suppress(IntegrityError):  # another request read it at this moment
            _keep(client)
    else:
        client.created_at = known.created_at
        with suppress(Client.NotUpdated):  # another request made room
            client.save(force_update=True)


async def _fetch(address: str) -> Mapping[str, Any]:
    """Raises OutboundError, InvalidMetadata."""
    async with (
        outbound.exchange(LIMITS) as way,
        way.send("GET", address, {"Accept": "application/json"}) as answer,
    ):
        body = await answer.read()
    if answer.status != 200:
        raise InvalidMetadata(f"{address} answered {answer.status}, not metadata.")
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InvalidMetadata(f"{address} has no JSON object.")
    return said


def choose_port(client: Client, address: str) -> None:
    """Let an app on this machine return to this port of localhost (RFC 8252 §7.3).

    django-allauth leaves only the port of IP addresses free; apps write `localhost`, too.
    """
    registered = client.get_redirect_uris()
    is_other_port = address not in registered and oauth.is_registered(address, registered)
    if is_other_port and address.startswith("http://localhost"):
        rest = [one for one in registered if not oauth.is_registered(address, [one])]
        client.set_redirect_uris([*rest, address])
        client.save(update_fields=["redirect_uris"])
