"""Programs that act for people by OAuth: those that a person registered, and those that they allowed."""

from __future__ import annotations

from collections.abc import Iterable

from allauth.idp.oidc.models import Client, Token

from apps.accounts import audit
from apps.accounts.audit import Subject
from apps.accounts.audit_models import AuditAction
from apps.accounts.clients.oauth import new_secret
from apps.accounts.errors import Kind, Refusal
from apps.accounts.principals import KEYS, Principal
from apps.accounts.requests import quotas
from apps.accounts.resources import Act, Resource
from apps.accounts.visibility import VisibleQuerySet
from parley.db.sql import write_transaction

MOST_PROGRAMS = 50  # of one person
GRANT = Client.GrantType
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "site": ("A web site with a server", Client.Type.CONFIDENTIAL, (GRANT.AUTHORIZATION_CODE, GRANT.REFRESH_TOKEN)),
    "app": ("An app or a page without a server", Client.Type.PUBLIC, (GRANT.AUTHORIZATION_CODE, GRANT.REFRESH_TOKEN)),
    "device": ("A device or a command line", Client.Type.PUBLIC, (GRANT.DEVICE_CODE, GRANT.REFRESH_TOKEN)),
    "service": ("A service that acts as you, without asking", Client.Type.CONFIDENTIAL, (GRANT.CLIENT_CREDENTIALS,)),
}
"""What people choose, the client's type, and its grants."""


class TooManyPrograms(Refusal):
    """You have as many programs as one person may have. Delete one that you no longer use."""

    kind = Kind.CONFLICT


class OwnPrograms(VisibleQuerySet[Client]):
    def visible_to(self, principal: Principal) -> OwnPrograms:
        """Those that the caller registered."""
        return self.filter(owner=principal.user_id) if principal.user_id is not None else self.none()


class AllowedPrograms(VisibleQuerySet[Client]):
    def visible_to(self, principal: Principal) -> AllowedPrograms:
        """Those that the caller let in."""
        allowed = Token.objects.filter(user=principal.user_id).values("client")
        return self.filter(pk__in=allowed) if principal.user_id is not None else self.none()


def register(
    principal: Principal, name: str, kind: str, scopes: Iterable[str], agents: Iterable[str], addresses: list[str]
) -> tuple[Client, str]:
    """A program of the caller's, and its secret, "" for one without: only its hash is stored.

    Args:
        kind: of `KINDS`.
        agents: scopes of the agents that it may ask for.
        addresses: where people return after they sign in.

    Raises TooManyPrograms, QuotaExceeded.
    """
    quotas.count_key_change(principal)
    if OwnPrograms(Client).visible_to(principal).count() >= MOST_PROGRAMS:
        raise TooManyPrograms
    _, client_type, grants = KINDS[kind]
    client = Client(name=name, type=client_type, owner_id=principal.user_id, secret="")
    client.set_scopes([*scopes, *agents])
    client.set_grant_types(list(grants))
    client.set_redirect_uris(addresses)
    secret = new_secret(client)
    with write_transaction():
        client.save(force_insert=True)
        details = {"scopes": list(scopes)}
        audit.record(AuditAction.PROGRAM_CREATED, actor=principal, object=subject_of(client), details=details)
    return client, secret if client_type == Client.Type.CONFIDENTIAL else ""


def _delete(client: Client, principal: Principal) -> Client:
    with write_transaction():
        subject = subject_of(client)
        client.delete()
        audit.record(AuditAction.PROGRAM_DELETED, actor=principal, object=subject)
    return client


def _end(client: Client, principal: Principal) -> Client:
    with write_transaction():
        Token.objects.filter(client=client, user=principal.user_id).delete()
        audit.record(AuditAction.PROGRAM_ENDED, actor=principal, object=subject_of(client))
    return client


def subject_of(client: Client) -> Subject:
    return Subject("allauth_idp_oidc.client", client.pk, client.name)


DELETE = Act[Client](
    "delete",
    "Delete",
    _delete,
    "Delete a program",
    "The program loses access to all accounts at once.",
    lambda client: f"“{client.name}” is deleted. Its tokens are refused from now on.",
    scope=KEYS,
    is_grave=True,
    records=True,
)
END = Act[Client](
    "end",
    "End access",
    _end,
    "End the access of a program",
    "Its tokens for you are refused, also those that could be renewed.",
    lambda client: f"“{client.name}” no longer acts for you.",
    scope=KEYS,
    records=True,
)
OWN = Resource("programs", "program", Client, acts=(DELETE,), rows=lambda: OwnPrograms(Client))
ALLOWED = Resource("allowed-programs", "allowed-program", Client, acts=(END,), rows=lambda: AllowedPrograms(Client))
