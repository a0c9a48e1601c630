"""The audit: who did what to what, when, and from where.

`append` is the only writer. An entry is written in the transaction of its act where the act is one transaction, so
that neither exists without the other; docs/running/audit.md names the other acts. Each entry has the hash of the one
before, and the database refuses changes and deletion. Write entries last in a transaction: only one transaction at a
time can write them.
"""

from __future__ import annotations

import datetime
import getpass
import hashlib
import re
import secrets
import unicodedata
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import batched
from typing import Any, NamedTuple, TypedDict, Unpack

import rfc8785
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db import connection
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.decorators import sync_only_middleware
from structlog.contextvars import get_contextvars

from apps.accounts.audit_models import ActorKind, AuditAction, AuditEntry, AuditHead
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import Principal
from parley.db import sql, triggers
from parley.db.sql import Update, write_transaction
from parley.faces.commands import running_command

type Details = Mapping[str, Any]

LONGEST_TEXT = 200  # characters of one text of the details
MOST_ITEMS = 50  # of one list or mapping of the details
HEAD_LOCK = 0x41554449  # PostgreSQL's advisory lock of the chain's head
ERASURES_LOCK = HEAD_LOCK + 1
ROWS_AT_ONCE, UPDATES_AT_ONCE = 2_000, 200
CLAIMED = "account"  # the type of the object of a refusal: the name that the caller claimed
USERS, WORKSPACES = "accounts.user", "accounts.workspace"
PEOPLE = (ActorKind.USER, ActorKind.KEY)

_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


class Actor(NamedTuple):
    """Who acted. `key` is a person's id, or the name of a command or rule; `name` stays when the person has gone."""

    kind: ActorKind
    key: str = ""
    name: str = ""


class Subject(NamedTuple):
    """What was acted on, where there is no row at hand: `type` as in `agents.agent`."""

    type: str
    key: str = ""
    label: str = ""


def session_subject(key: object) -> Subject:
    """A session, by its id alone: its title is content."""
    return Subject("record.context", str(key), str(key))


class Given(TypedDict, total=False):
    """What an entry says.

    Attributes:
        actor: a caller, or the name of a rule. None: who sent the request, or the running command, or Parley itself.
        workspace: its id; by default that of the object.
        details: small JSON, without secrets and content. Long texts and lists are shortened.
        request: by default the one that is being answered (`during`).
    """

    actor: Actor | User | Principal | str | None
    object: Model | Subject | None
    workspace: int | None
    details: Details | None
    request: HttpRequest | None


def record(action: AuditAction, **given: Unpack[Given]) -> AuditEntry:
    """Write an entry, in the open transaction if there is one."""
    return append([entry_of(action, **given)])


def entry_of(action: AuditAction, **given: Unpack[Given]) -> AuditEntry:
    """An entry for `append`."""
    request, subject, workspace = given.get("request") or _request.get(), given.get("object"), given.get("workspace")
    who, what = _actor(given.get("actor"), request), _subject(subject)
    return AuditEntry(
        group=action.group,
        action=action,
        actor_kind=who.kind,
        actor_key=_text(who.key, 60),
        actor_name=_text(who.name, 320),
        object_type=_text(what.type, 60),
        object_key=_text(what.key, 120),
        object_label=_text(what.label, 200),
        workspace=getattr(subject, "workspace_id", None) if workspace is None else workspace,
        details=plain(dict(given.get("details") or {})),
        **_origin(request),
    )


def append(entries: Sequence[AuditEntry]) -> AuditEntry:
    """Give the entries their numbers and hashes, and store them; returns the last.

    In the open transaction if there is one. Nobody else appends until the transaction ends.
    """
    with nullcontext() if connection.in_atomic_block else write_transaction():
        _lock(HEAD_LOCK)
        head = AuditHead.objects.first() or AuditHead(number=0, hash="")
        at = sql.database_time()
        for entry in entries:
            entry.number, entry.previous, entry.at = head.number + 1, head.hash, at
            entry.salt = secrets.token_hex(16)
            entry.hash = hash_of(entry)
            head.number, head.hash = entry.number, entry.hash
        AuditEntry.objects.bulk_create(entries)
        head.save()
        return entries[-1]


def _lock(number: int) -> None:
    """Until the transaction ends."""
    if connection.vendor == "postgresql":  # SQLite has one writer anyway
        sql.execute("SELECT pg_advisory_xact_lock(%s)", [number])


HASHED = tuple(field.attname for field in AuditEntry._meta.concrete_fields if field.attname not in ("hash", "erasures"))


def hash_of(entry: AuditEntry) -> str:
    """The hash of the entry's fields (`HASHED`): SHA-256 of their canonical JSON (RFC 8785), in hexadecimal.

    The time is text in UTC with microseconds, as in `2026-01-31T09:30:00.000000+00:00`. An empty salt is left out.
    """
    values = {name: getattr(entry, name) for name in HASHED if name != "salt" or entry.salt}
    texts = {name: str(value) if isinstance(value, str) else value for name, value in values.items()}
    at = entry.at.astimezone(datetime.UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(rfc8785.dumps({**texts, "at": at})).hexdigest()


def _text(value: object, length: int) -> str:
    """One line without characters that PostgreSQL or JSON refuse."""
    text = "".join(letter if unicodedata.category(letter) not in ("Cc", "Cs") else " " for letter in str(value))
    return text if len(text) <= length else text[: length - 1] + "…"


def plain(value: Any) -> Any:
    """As JSON that reads back the same from every database."""
    match value:
        case None | bool():
            return value
        case int() if abs(value) < 2**53:
            return value
        case Mapping():
            return {_text(name, 60): plain(one) for name, one in list(value.items())[:MOST_ITEMS]}
        case list() | tuple() | set() | frozenset():
            return [plain(one) for one in list(value)[:MOST_ITEMS]]
    return _text(value, LONGEST_TEXT)


def _subject(given: Model | Subject | None) -> Subject:
    if isinstance(given, Model):
        return Subject(given._meta.label_lower, str(given.pk), str(given))
    return given or Subject("")


def _actor(given: Actor | User | Principal | str | None, request: HttpRequest | None) -> Actor:
    """On the command line always the command: it acts for whoever may run it."""
    if isinstance(given, Actor):
        return given
    if request is None and (command := running_command.get()):
        return Actor(ActorKind.COMMAND, command, f"{command}, run by {_system_user()}")
    match given:
        case User():
            used = _credential(request) if getattr(request, "user", None) == given else ""
            return _person(given.pk, given.email, used)
        case Principal(user_id=int() as user_id):
            email = User.objects.filter(pk=user_id).values_list("email", flat=True).first()
            return _person(user_id, email or f"user:{user_id}", given.key)
        case Principal():
            return Actor(ActorKind.ANONYMOUS)
        case str():
            return Actor(ActorKind.SYSTEM, given, given)
    return _sender(request) if request else Actor(ActorKind.SYSTEM, "parley", "Parley")


def _sender(request: HttpRequest) -> Actor:
    user = getattr(request, "user", None)
    if not isinstance(user, AbstractBaseUser):
        return Actor(ActorKind.ANONYMOUS)
    return _person(user.pk, str(user), _credential(request))


def _credential(request: HttpRequest | None) -> str:
    """The API key or the OAuth client that the request used; "" for a browser."""
    used = getattr(request, "auth", None)
    if isinstance(used, Principal):
        return used.key
    return str(used) if isinstance(used, ApiKey) else ""


def _person(user_id: int, email: str, key: str) -> Actor:
    """Somebody, or with `key` a program with their API key."""
    return Actor(ActorKind.KEY if key else ActorKind.USER, str(user_id), f"{email} by {key}" if key else email)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user without a name
        return "an unnamed user"


def _origin(request: HttpRequest | None) -> dict[str, str]:
    if request is None:
        return {}
    known = get_contextvars().get("request") or request.headers.get("X-Request-ID", "")
    return {
        "address": _text(request.META.get("REMOTE_ADDR") or "", 60),
        "user_agent": _text(request.headers.get("User-Agent", ""), 200),
        "request_id": _text(known, 100),
    }


def current_request() -> HttpRequest | None:
    """The request that is being answered, if it is known here."""
    return _request.get()


@contextmanager
def during(request: HttpRequest) -> Iterator[None]:
    """Entries of this block come from this request."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


def for_request[**P, T](request: HttpRequest, function: Callable[P, T]) -> Callable[P, T]:
    """The function, as a part of answering this request: for threads, which do not know it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with during(request):
            return function(*args, **kwargs)

    return call


@sync_only_middleware
def remember_request[R](get_response: Callable[[HttpRequest], R]) -> Callable[[HttpRequest], R]:
    """Middleware of pages and admin."""

    def respond(request: HttpRequest) -> R:
        with during(request):
            return get_response(request)

    return respond


ADMIN_ACTIONS: dict[str, dict[str, AuditAction]] = {
    "accounts.user": {
        "created": AuditAction.USER_CREATED,
        "changed": AuditAction.USER_CHANGED,
        "deleted": AuditAction.USER_DELETED,
    },
    "auth.group": {
        "created": AuditAction.GROUP_CREATED,
        "changed": AuditAction.GROUP_CHANGED,
        "deleted": AuditAction.GROUP_DELETED,
    },
    "accounts.apikey": {
        "created": AuditAction.KEY_CREATED,
        "changed": AuditAction.KEY_CHANGED,
        "deleted": AuditAction.KEY_DELETED,
    },
    "agents.agent": {"changed": AuditAction.AGENT_CHANGED, "deleted": AuditAction.AGENT_DELETED},
    "plans.plan": {"changed": AuditAction.AGENT_CHANGED, "deleted": AuditAction.AGENT_DELETED},
    "installation.networkallowance": {
        "created": AuditAction.ALLOWANCE_CREATED,
        "changed": AuditAction.ALLOWANCE_CHANGED,
        "deleted": AuditAction.ALLOWANCE_DELETED,
    },
}
"""What a change in admin is recorded as, by model; the actions of the group `admin` are for all others."""


def admin_entry(
    request: HttpRequest, row: Model, verb: str, message: object, action: str | None = None
) -> Callable[[], object]:
    """What admin's own history notes (`admin_recorder`): names of changed fields, no values.

    `verb` is "created", "changed" or "deleted". `action` is the code of a more exact action. Returns a function that
    records it, and needs the row no more.
    """
    known = ADMIN_ACTIONS.get(row._meta.label_lower, {})
    chosen = AuditAction(action) if action else known.get(verb, AuditAction(f"admin.{verb}"))
    workspace, details = getattr(row, "workspace_id", None), _changes(message)
    return partial(record, chosen, object=row_subject(row), workspace=workspace, details=details, request=request)


def row_subject(row: Model) -> Subject:
    """A row, by its text only if that is no content."""
    name = row._meta.label_lower
    return Subject(name, str(row.pk), str(row) if name in NAMED else str(row.pk))


NAMED = frozenset(
    {
        *("accounts.apikey", "accounts.user", "accounts.workspace", "auth.group"),
        *("agents.agent", "agents.agentversion", "agents.signingkey", "plans.plan"),
        *("budgets.budget", "credentials.credential", "credentials.credentialrequest", "evaluations.evaluation"),
        *("housekeeping.periodicjob", "operators.bulkaction", "remote.remoteagent", "remote.remotecredential"),
        *("session_marks.legalhold", "payments.paymentbudget"),
        *("installation.modelconnection", "installation.networkallowance", "installation.operation"),
    }
)
"""Rows that entries name by their text. The text of others may be content, so entries have only their ids."""


def _changes(message: object) -> Details:
    if isinstance(message, str):
        return {"note": message} if message else {}
    found: dict[str, list[str]] = {"fields": [], "given": [], "taken": []}
    for part in message if isinstance(message, list) else ():
        for verb, about in part.items():
            for name in found:
                found[name] += map(str, about.get(name, []))
            if "name" in about:
                found["fields"].append(f"{about['name']} {verb}")
    return {name: values for name, values in found.items() if values}


def connect_sign_ins() -> None:
    """Record what Django announces: these signals come from every door."""
    user_logged_in.connect(_signed_in, dispatch_uid="audit")
    user_logged_out.connect(_signed_out, dispatch_uid="audit")


def _signed_in(request: HttpRequest | None, user: User, **_: object) -> None:
    record(AuditAction.SIGNED_IN, actor=user, object=user, request=request)


def _signed_out(request: HttpRequest | None, user: User | None, **_: object) -> None:
    if user is not None:
        record(AuditAction.SIGNED_OUT, actor=user, object=user, request=request)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`. `problem` is "" if the chain is complete; `broken_at` is the number of the first entry
    that is missing or wrong.
    """

    entries: int
    head: str
    problem: str = ""
    broken_at: int | None = None


def verify(expected: str = "") -> Verification:
    """Recompute the chain in order, with few rows in memory.

    `expected`: the hash of an entry that somebody kept; it must still be there.
    """
    if missing := missing_guards():
        return Verification(0, "", f"The database does not protect the audit: {', '.join(missing)} is missing.")
    head, erased = AuditHead.objects.first(), Erasures()
    number, previous, has_expected, at_head = 0, "", not expected, ""
    for entry in _all_entries():
        number += 1
        if entry.number != number:
            return Verification(number - 1, previous, "The entry is missing.", number)
        if entry.previous != previous:
            return Verification(number - 1, previous, "It does not follow the entry before it.", number)
        previous = entry.hash
        if not erased.fits(entry):
            return Verification(number - 1, entry.previous, "The entry was changed.", number)
        has_expected = has_expected or previous == expected
        if head and number == head.number:
            at_head = previous
    if head and head.number > number:
        return Verification(number, previous, f"The newest entries are missing: there were {head.number}.", number + 1)
    if (number and head is None) or (head and head.hash != at_head):
        return Verification(number, previous, "The newest entry is not the one that was written last.", number)
    if erased.unknown:
        first = min(seals.first for seals in erased.unknown.values())
        return Verification(number, previous, "The entry was changed, by no erasure that the audit knows.", first)
    if not has_expected:
        return Verification(number, previous, "No entry has the expected hash: the audit was rewritten or cut.")
    return Verification(number, previous)


def _all_entries(entries: QuerySet[AuditEntry] | None = None, after: int = -1) -> Iterator[AuditEntry]:
    found = AuditEntry.objects.all() if entries is None else entries
    while rows := list(found.filter(number__gt=after).order_by("number")[:ROWS_AT_ONCE]):
        yield from rows
        after = rows[-1].number


@dataclass
class Seals:
    """The numbers and hashes of entries that one erasure changed, in order."""

    first: int = 0
    count: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, number: int, seal: str) -> None:
        self.first, self.count = self.first or number, self.count + 1
        self.digest.update(f"{number} {seal}\n".encode())

    def details(self, erasure: str) -> Details:
        return {"id": erasure, "entries": self.count, "seal": self.digest.hexdigest()}


class Erasures:
    """Compares entries, which are given in order, with their hashes.

    An erased entry has lost what its hash was of. Its last seal is the hash of what is left, and the entry that records
    the erasure, which comes later, has the digest of all its seals.

    Attributes:
        unknown: seals of erasures that no entry has recorded so far.
    """

    def __init__(self) -> None:
        self.unknown: defaultdict[str, Seals] = defaultdict(Seals)

    def fits(self, entry: AuditEntry) -> bool:
        seal = entry.hash
        for one in entry.erasures or ():
            match one:
                case [str(erasure), str(seal)]:
                    self.unknown[erasure].add(entry.number, seal)
                case _:
                    return False
        if hash_of(entry) != seal:
            return False
        erasure = entry.details.get(ERASURE)
        return erasure is None or self.unknown.pop(erasure["id"], Seals()).details(erasure["id"]) == erasure


ERASURE = "erasure"  # in the details of the entry that records it


def pattern_of(addresses: Collection[str]) -> re.Pattern[str]:
    """Finds any of these e-mail addresses in a text, but no longer ones that contain them."""
    any_of = "|".join(map(re.escape, addresses))
    return re.compile(rf"(?<![\w.+-])(?:{any_of})(?!\.?[\w-])", re.IGNORECASE)


class Forgetting:
    """Takes a person out of all entries: what they did stays, done by `pseudonym`, without where they were.

    What others typed or noted of them goes, too. In the transaction that erases the person, call `run` first, and at
    the end append an entry with what `finish` returns.

    Args:
        key: of the person.
        addresses: all e-mail addresses that they had, in lower case.
        claims: by which others would have come as them: the addresses, and their API keys.
        workspaces: the keys of those that were theirs alone.
        owned: of the types of objects that are theirs alone, the keys of theirs.
    """

    CHANGED = ("actor_name", "object_label", "address", "user_agent", "request_id", "details", "salt", "erasures")
    THEIRS = ("address", "name", "workspace")  # in the details of what they did, or others did to what is theirs

    def __init__(
        self,
        key: int,
        pseudonym: str,
        *,
        addresses: Collection[str],
        claims: Collection[str],
        workspaces: Collection[int],
        owned: Mapping[str, Collection[str]],
    ) -> None:
        self._key, self._pseudonym = str(key), pseudonym
        self._addresses, self._claims, self._owned = addresses, claims, owned
        self._are_they = {(USERS, self._key), *((WORKSPACES, str(one)) for one in workspaces)}
        self._named = pattern_of(addresses)
        self._id, self._seen, self._seals = uuid.uuid4().hex, 0, Seals()

    def finish(self) -> Details:
        """Go on with the entries that were written since, and keep others from writing more. Returns details."""
        _lock(HEAD_LOCK)
        self.run()
        return {ERASURE: self._seals.details(self._id)}

    def run(self) -> None:
        """Go through the entries that were written since the last run. One erasure at a time, until the commit."""
        _lock(ERASURES_LOCK)
        head = AuditHead.objects.first()
        newest = head.number if head else 0
        concerned = AuditEntry.objects.filter(self._concerned(), number__lte=newest)
        for entries in batched(_all_entries(concerned, self._seen), UPDATES_AT_ONCE):
            sql.write(updates=[self._update(entry) for entry in entries if self._erase(entry)])
        self._seen = newest

    def _concerned(self) -> Q:
        theirs = Q(actor_key=self._key, actor_kind__in=PEOPLE) | Q(object_type=CLAIMED, object_label__in=self._claims)
        for kind, key in self._are_they:
            theirs |= Q(object_type=kind, object_key=key)
        for kind, keys in self._owned.items():
            theirs |= Q(object_type=kind, object_key__in=keys)
        for address in self._addresses:
            for name in ("actor_name", "object_label", "details"):
                theirs |= Q(**{f"{name}__icontains": address})
        return theirs

    def _erase(self, entry: AuditEntry) -> bool:
        """Did that change the entry?"""
        before = hash_of(entry)
        did_it = entry.actor_key == self._key and entry.actor_kind in PEOPLE
        is_claimed = entry.object_type == CLAIMED and entry.object_label in self._claims
        if did_it or is_claimed:
            entry.address = entry.user_agent = entry.request_id = ""
        if did_it or is_claimed or entry.object_key in self._owned.get(entry.object_type, ()):
            entry.details = {name: one for name, one in entry.details.items() if name not in self.THEIRS}
        if did_it:
            entry.actor_name = self._pseudonym
            entry.object_label = "" if entry.object_type in self._owned else entry.object_label
        if (entry.object_type, entry.object_key) in self._are_they:
            entry.object_label = self._pseudonym
        for name in ("actor_name", "object_label", "details"):
            setattr(entry, name, self._renamed(getattr(entry, name)))
        return hash_of(entry) != before

    def _update(self, entry: AuditEntry) -> Update:
        entry.salt = ""
        seal = hash_of(entry)
        entry.erasures = [*(entry.erasures or ()), [self._id, seal]]
        self._seals.add(entry.number, seal)
        return Update(AuditEntry, {"number": entry.number}, {name: getattr(entry, name) for name in self.CHANGED})

    def _renamed(self, value: Any) -> Any:
        match value:
            case str():
                return self._named.sub(self._pseudonym, value)
            case dict():
                return {name: self._renamed(one) for name, one in value.items()}
            case list():
                return [self._renamed(one) for one in value]
        return value


GUARDS = {
    "sqlite": {
        *("audit_no_update", "audit_no_delete", "audit_no_replace"),
        *("audit_head_no_delete", "audit_head_no_return", "audit_head_no_replace"),
    },
    "postgresql": {
        *("audit_no_change", "audit_no_delete", "audit_no_truncate"),
        *("audit_head_no_return", "audit_head_no_delete", "audit_head_no_truncate"),
    },
}


def missing_guards() -> list[str]:
    """The triggers that should protect the audit, and are missing or switched off."""
    return triggers.missing(GUARDS)
