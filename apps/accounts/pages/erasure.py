"""Deleting an account: access ends at once, and a job deletes the sessions.

The row of the person stays without name and address, because tombstones and the audit log refer to it. Agents that
others use stay too, and so does what belongs to a conversation with others: sessions that the person shared with a
workspace that has other members, and what they wrote in sessions of others. There they are "A former member".
"""

from __future__ import annotations

from copy import copy

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import CASCADE, ManyToOneRel, Q
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Kind, Refusal
from apps.accounts.models import User, Workspace
from apps.agents.models import OF_MEMBERS, Agent
from apps.conversations.public_links.models import Share
from apps.conversations.sessions import holds
from apps.conversations.sessions.deletion import publish_deleted_account
from apps.conversations.uploads import resumable
from apps.conversations.uploads.models import Upload
from apps.remote.models import RemoteCredential
from parley.db.sql import write_transaction
from parley.registry import added

NAMELESS = "Deleted account"


class LastOperator(Refusal):
    """You are the last operator. Give somebody else the rights of an operator first, in Admin."""

    kind = Kind.CONFLICT


def erase_account(person: User) -> User:
    """Delete the person's account and data; returns who it was. Raises LastOperator, UnderLegalHold."""
    with write_transaction():
        person = _locked(person)
        holds.check_person(person)
        home, before = person.personal_workspace, copy(person)
        _delete_rows_of(person)
        Share.objects.filter(context__owner=person, revoked_at=None).update(revoked_at=timezone.now())
        _switch_off_own_agents(home)
        _forget(person)
        Workspace.objects.filter(pk=home.pk).update(name=NAMELESS)
        _forget_in_admin(person, home)
        transaction.on_commit(publish_deleted_account, robust=True)
        audit.record(AuditAction.USER_DELETED, actor=before, object=before)
    for upload in Upload.objects.filter(owner=person):
        resumable.discard_upload(upload)
    for forget in added["after_account_erased"]:
        forget()
    return before


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


STAYS = frozenset(
    {
        *("record.context", "record.task", "queue.queuedmessage", "search.searchentry"),  # a job deletes the sessions
        *("accounts.workspace", "uploads.upload"),  # the caller sees to them
        "accounts.accesschange",  # it ends their open connections, and goes within the hour
        "admin.logentry",  # what an operator did, which names them no more
    }
)
"""Tables of a person's rows that are not simply deleted. Those of new features are, unless they stand here."""


def _delete_rows_of(person: User) -> None:
    """Keys, credentials, memberships, second factors, marks and whatever else would go with the person's row."""
    for relation in User._meta.get_fields(include_hidden=True):
        if not isinstance(relation, ManyToOneRel) or relation.on_delete is not CASCADE:
            continue
        model = relation.related_model
        if model._meta.label_lower not in STAYS:
            model._base_manager.filter(**{relation.field.name: person}).delete()


def _switch_off_own_agents(home: Workspace) -> None:
    """Agents that only this person could use."""
    own = Agent.objects.filter(workspace=home, access__in=OF_MEMBERS)
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
