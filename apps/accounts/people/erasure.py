"""Erasing a person: access ends at once, nothing names them any more, and a job deletes their sessions.

The row of the person stays without name and address, because tombstones and the audit refer to it: it is their
pseudonym. What apps keep, they say with `account_remains`, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db.models import CASCADE, Exists, ManyToOneRel, Model, OuterRef, Q, QuerySet
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.errors import Kind, Refusal
from apps.accounts.models import ApiKey, Invitation, Membership, User, Workspace, person_of
from apps.accounts.permissions import Role
from apps.accounts.principals import Principal
from apps.accounts.refusals import refusals
from apps.accounts.resources import Act, Resource
from parley.db.sql import write_transaction
from parley.registry import added

NAMELESS = "Deleted account"
HEIRS = [Role.OWNER, Role.MANAGER, Role.MEMBER]  # who takes over first; viewers take nothing over


class LastOperator(Refusal):
    """This is the last operator. Give somebody else the rights of an operator first, in Admin."""

    kind = Kind.CONFLICT


class ErasedAlready(Refusal):
    """This account is erased already."""

    kind = Kind.CONFLICT


class NotByThem(Refusal):
    """Only a superuser can erase a superuser, and your own account is deleted in Settings."""

    kind = Kind.FORBIDDEN


class Remains(NamedTuple):
    """What stays of an erased person. `why` is a sentence, which also says until when."""

    what: str
    number: int | None
    why: str

    def __str__(self) -> str:
        number = "" if self.number is None else f", {self.number:,}"
        return f"{self.what}{number}: {self.why}"


@dataclass(frozen=True)
class Person:
    """Whom the apps forget (`account_erasers`), before their rows go.

    Attributes:
        addresses: all e-mail addresses that they had, in lower case.
        pseudonym: takes the place of the address in texts.
        workspaces: keys of those that end with the account.
    """

    row: User
    addresses: frozenset[str]
    pseudonym: str
    workspaces: frozenset[int]

    def heir_in(self, workspace: int) -> User | None:
        """Who takes over what the person shared with a workspace; None: nobody is left there, or it ends, too."""
        if workspace in self.workspaces:
            return None
        others = Membership.objects.filter(workspace=workspace, user__is_active=True, role__in=HEIRS)
        found = others.exclude(user=self.row).select_related("user")
        first = min(found, key=lambda one: (HEIRS.index(Role(one.role)), one.created_at), default=None)
        return first.user if first else None

    def rename_in(self, rows: QuerySet[Any], *fields: str) -> None:
        """Put the pseudonym in the place of the address in these texts."""
        named = audit.pattern_of(self.addresses)
        for name in fields:
            longest = rows.model._meta.get_field(name).max_length
            for address in self.addresses:
                for row in rows.filter(**{f"{name}__icontains": address}):
                    setattr(row, name, named.sub(self.pseudonym, getattr(row, name))[:longest])
                    row.save(update_fields=[name])


def erase(person: User, by: Principal | None = None) -> User:
    """Erase the person's account and data; returns the row that stays.

    `by`: the person or an operator; None: the command line.
    Raises LastOperator, ErasedAlready, and what apps refuse.
    """
    refusals.flush_now()
    with write_transaction():
        whom = _as_known(person)
        forgetting = _forgetting(whom)
        forgetting.run()  # before anything is locked
        row = _locked(person)
        for forget in added["account_erasers"]:
            forget(whom)
        _delete_rows_of(row)
        _forget_in_rows_of_others(whom)
        erased = _forget(row, whom.pseudonym)
        _record(erased, _close(whom.workspaces), by, forgetting)
    for forget in added["after_account_erased"]:
        forget()
    return erased


def remains_of(person: User) -> list[Remains]:
    """What stays of a person, or would stay."""
    return [one for say in (_remains_here, *added["account_remains"]) for one in say(person)]


def pseudonym_of(person: User) -> str:
    return f"deleted-{person.pk}@deleted.invalid"


def _as_known(person: User) -> Person:
    addresses = {person.email, *EmailAddress.objects.filter(user=person).values_list("email", flat=True)}
    moves = AuditEntry.objects.filter(action=AuditAction.EMAIL_CHANGED, object_key=str(person.pk))
    addresses.update(details.get("before", person.email) for details in moves.values_list("details", flat=True))
    addresses = {one.lower() for one in addresses if one} - _of_others(person, addresses - {person.email})
    others = Membership.objects.filter(workspace=OuterRef("pk")).exclude(user=person)
    own = Workspace.objects.filter(memberships__user=person, deleted_at=None)
    ended = own.filter(Q(personal_of=person) | ~Exists(others)).values_list("pk", flat=True)
    return Person(person, frozenset(addresses), pseudonym_of(person), frozenset(ended))


def _of_others(person: User, addresses: Collection[str]) -> set[str]:
    """Those of these addresses that are somebody else's now."""
    found: set[str] = set()
    for one in addresses:
        taken = User.objects.filter(email__iexact=one).exclude(pk=person.pk).exists()
        if taken or EmailAddress.objects.filter(email__iexact=one).exclude(user=person).exists():
            found.add(one.lower())
    return found


def _forgetting(whom: Person) -> audit.Forgetting:
    keys = map(str, ApiKey.objects.filter(user=whom.row))
    return audit.Forgetting(
        whom.row.pk,
        whom.pseudonym,
        addresses=whom.addresses,
        claims={*whom.addresses, *keys},
        workspaces=whom.workspaces,
        owned={model._meta.label_lower: _named_in_audit(model, field, whom.row) for model, field in _rows_of(User)},
    )


def _named_in_audit(model: type[Model], field: str, person: User) -> set[str]:
    """The keys of the person's rows that entries name by their text."""
    is_named = model._meta.label_lower in audit.NAMED
    return {str(key) for key in _own(model, field, person).values_list("pk", flat=True)} if is_named else set()


def _locked(person: User) -> User:
    """The person's row, with those of all operators: two that leave at once must not leave none. Raises LastOperator.

    All are locked in one order, so that the two do not wait for each other.
    """
    wanted = Q(pk=person.pk) | Q(is_active=True, is_staff=True)
    rows = {one.pk: one for one in User.objects.select_for_update().filter(wanted).order_by("pk")}
    found = rows.pop(person.pk)
    if found.erased_at is not None:
        raise ErasedAlready
    others = [one for one in rows.values() if one.is_superuser or not found.is_superuser]
    if found.is_staff and not others:
        raise LastOperator
    return found


STAYS = frozenset(
    {
        *("record.context", "record.task", "queue.queuedmessage", "search.searchentry"),  # a job deletes the sessions
        "record.blob",  # and counts their files
        "accounts.workspace",  # `_forget` sees to it
        "accounts.accesschange",  # it ends their open connections, and goes within the hour
        "admin.logentry",  # what an operator did, which names them no more
    }
)
"""Tables of a person's rows, and of their workspace's, that are not simply deleted.

Those of new features are, unless they stand here.
"""


def _rows_of(owner: type[User | Workspace]) -> Iterator[tuple[type[Model], str]]:
    """The models whose rows go with their person or workspace, and the fields that name it."""
    for relation in owner._meta.get_fields(include_hidden=True):
        if isinstance(relation, ManyToOneRel) and relation.on_delete is CASCADE:
            model: type[Model] = relation.related_model
            if model._meta.label_lower not in STAYS:
                yield model, relation.field.name


def _delete_rows_of(person: User) -> None:
    """Keys, credentials, memberships, second factors, marks and whatever else would go with the person's row."""
    browsers = UserSession.objects.filter(user=person)
    Session.objects.filter(session_key__in=browsers.values("session_key")).delete()
    for model, field in _rows_of(User):
        _own(model, field, person).delete()


def _close(workspaces: Collection[int]) -> list[Workspace]:
    """Delete what is in those of these workspaces that have no other member. Returns which were closed."""
    empty = list(Workspace.objects.filter(pk__in=workspaces, memberships=None))
    for workspace in empty:
        for model, field in _rows_of(Workspace):
            _own(model, field, workspace).delete()
    closed = [one for one in empty if one.personal_of_id is None]
    for workspace in closed:
        workspace.close()
    return closed


def _own(model: type[Model], field: str, owner: User | Workspace) -> QuerySet[Any]:
    return model._base_manager.filter(**{field: owner})


def _forget_in_rows_of_others(whom: Person) -> None:
    """Invitations that others made, and admin's history, which names what was changed by its text."""
    invitations = Invitation.objects.filter(Q(used_by=whom.row) | Q(email__in=whom.addresses))
    invitations.filter(used_at=None, revoked_at=None).update(revoked_at=timezone.now())
    invitations.update(email="")
    for row in (whom.row, whom.row.personal_workspace):
        of_row = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(row), object_id=str(row.pk))
        of_row.update(object_repr=NAMELESS)
    whom.rename_in(LogEntry.objects.all(), "object_repr", "change_message")


def _forget(person: User, pseudonym: str) -> User:
    """Nobody can sign in as this person any more, and nothing says who it was. All their sessions in browsers end."""
    fresh = User(pk=person.pk, date_joined=person.date_joined, erased_at=timezone.now(), is_active=False)
    fresh.email = pseudonym
    fresh.set_unusable_password()
    fresh.save(force_update=True)
    fresh.groups.clear()
    fresh.user_permissions.clear()
    Workspace.objects.filter(personal_of=person).update(name=NAMELESS)
    return fresh


def _record(erased: User, closed: list[Workspace], by: Principal | None, forgetting: audit.Forgetting) -> None:
    stays = {one.what: one.number for one in remains_of(erased) if one.number}
    entries = [audit.entry_of(AuditAction.WORKSPACE_DELETED, actor=by, object=one, workspace=one.pk) for one in closed]
    details = {**forgetting.finish(), "stays": stays}
    entries.append(audit.entry_of(AuditAction.USER_DELETED, actor=by, object=erased, details=details))
    if by is not None and by.user_id == erased.pk:
        for entry in entries:
            entry.address = entry.user_agent = entry.request_id = ""
    audit.append(entries)


def _remains_here(person: User) -> Iterable[Remains]:
    key, alias = str(person.pk), pseudonym_of(person)
    entries = AuditEntry.objects.filter(Q(actor_key=key) | Q(object_type="accounts.user", object_key=key)).count()
    yield Remains("Audit entries", entries, f"under {alias}, without IP address and browser. They prove who did what.")
    if history := LogEntry.objects.filter(user=person).count():
        yield Remains("Changes in admin's history", history, f"under {alias}. They say what an operator did.")
    yield Remains("Counts of sign-ins by IP address", None, "until they expire, within an hour. They limit guessing.")
    again = f"After restoring an older backup, run `./manage.py erase_user {person.pk}` again."
    yield Remains("Backups, exports and logs", None, f"as they were made, until you delete them. {again}")


def _erase_by_operator(person: User, principal: Principal) -> User:
    operator = person_of(principal)
    if operator == person or (person.is_superuser and not operator.is_superuser):
        raise NotByThem
    erased = erase(copy(person), principal)
    person.refresh_from_db()  # what admin notes of the act has the pseudonym
    return erased


def _what_stays(erased: User) -> str:
    """In a line. The command gives the reasons."""
    stays = ", ".join(f"{one.what.lower()} ({one.number:,})" for one in remains_of(erased) if one.number)
    return f"What stays: {stays}. `./manage.py erase_user {erased.pk} --dry-run` says why."


ERASE = Act[User](
    "erase",
    "Erase",
    _erase_by_operator,
    "Erase a person",
    "Their access ends at once. Sessions, files, keys and credentials are deleted. The audit keeps a pseudonym.",
    lambda erased: f"Account {erased.pk} is erased. {_what_stays(erased)}",
    lambda person: person.erased_at is None,
    is_grave=True,
    records=True,
    icon="person_remove",
    operator_permission="accounts.delete_user",
)
PEOPLE = Resource("people", "person", User, acts=(ERASE,))
"""As operators act on them."""
