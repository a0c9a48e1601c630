"""Deleting an account: access ends at once, and a job deletes the sessions.

The row of the person stays without name and address, because tombstones and the audit log refer to it. Agents that
others use stay too.
"""

from __future__ import annotations

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import ApiKey, AuditAct, User, Workspace, write_audit_line
from apps.agents.models import Agent
from apps.features.credentials.models import Credential
from apps.features.sessions.jobs import publish_deleted_account
from apps.features.sharing.models import Share
from apps.features.uploads import resumable
from apps.features.uploads.models import Upload
from apps.remote.models import RemoteCredential
from db.sql import write_transaction

NAMELESS = "Deleted account"


class LastOperator(Exception):
    """You are the last operator. Give somebody else the rights of an operator first, in Admin."""

    def __str__(self) -> str:
        return self.__doc__ or ""


def erase_account(person: User) -> None:
    """Delete the person's account and data. Raises LastOperator."""
    with write_transaction():
        person = _locked(person)
        principal, home = person.principal, person.personal_workspace
        write_audit_line(AuditAct.ACCOUNT_DELETED, principal.sender, principal)
        ApiKey.objects.visible_to(principal).delete()
        Credential.objects.visible_to(principal).delete()
        RemoteCredential.objects.visible_to(principal).delete()
        Share.objects.filter(context__owner=person, revoked_at=None).update(revoked_at=timezone.now())
        _switch_off_own_agents(home)
        _forget(person)
        Workspace.objects.filter(pk=home.pk).update(name=NAMELESS)
        _forget_in_admin(person, home)
        transaction.on_commit(publish_deleted_account, robust=True)
    for upload in Upload.objects.filter(owner=person):
        resumable.discard_upload(upload)


def _locked(person: User) -> User:
    """The person's row, with those of all operators: two that leave at once must not leave none. Raises LastOperator.

    All are locked in one order, so that the two do not wait for each other.
    """
    wanted = Q(pk=person.pk) | Q(is_active=True, is_staff=True)
    rows = {one.pk: one for one in User.objects.select_for_update().filter(wanted).order_by("pk")}
    found = rows.pop(person.pk)
    others = [one for one in rows.values() if one.is_superuser or not found.is_superuser]
    if found.is_staff and not others:
        raise LastOperator
    return found


def _switch_off_own_agents(home: Workspace) -> None:
    """Agents that only this person could use."""
    own = Agent.objects.filter(workspace=home, access=Agent.Access.WORKSPACE)
    RemoteCredential.objects.filter(agent__in=own).delete()
    own.update(is_enabled=False)


def _forget(person: User) -> None:
    """Nobody can sign in as this person any more, and nothing says who it was. All their sessions in browsers end."""
    fresh = User(pk=person.pk, date_joined=person.date_joined, erased_at=timezone.now(), is_active=False)
    fresh.email = f"deleted-{person.pk}@deleted.invalid"
    fresh.set_unusable_password()
    fresh.save(force_update=True)
    fresh.groups.clear()
    fresh.user_permissions.clear()


def _forget_in_admin(*rows: User | Workspace) -> None:
    """Admin's history names what was changed by its text: a person by the address."""
    for row in rows:
        of_row = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(row), object_id=str(row.pk))
        of_row.update(object_repr=NAMELESS)
