"""Who lost access: rows that all processes read while somebody is connected, so that open connections end in seconds.

`announce` writes a row in the transaction that takes the access. A process asks for new rows every POLL_SECONDS while
it has streams or sockets, and then those of the named people check their access. What they may do is decided there, by
the same code as for a request; a row only says when to look. So a row too many does no harm, and one that was lost is
made up for by the slow checks (`wire.RECHECK_SECONDS`).
"""

from __future__ import annotations

import asyncio
import datetime
import weakref
from typing import Any

from allauth.idp.oidc.models import Token
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import InterfaceError, OperationalError
from django.db.models.functions import Now
from django.db.models.signals import post_delete, post_save, pre_delete
from django.utils import timezone

from apps.accounts.models import AccessChange, ApiKey, Membership, User
from parley import db

POLL_SECONDS = 2.0
LOOK_BACK = datetime.timedelta(seconds=30)  # longer than a transaction: rows appear when it commits
KEPT = datetime.timedelta(hours=1)
DECIDING = frozenset({"is_active", "is_staff", "is_superuser", "password", "sign_outs"})
"""The fields of a person that sessions and rights depend on."""


def announce(user_id: int | None) -> None:
    """Say that the person, or one of their keys or sessions, may have lost access. Call it in the same transaction."""
    if user_id is None:
        return
    AccessChange.objects.filter(at__lt=Now() - KEPT).delete()
    AccessChange.objects.create(user_id=user_id, at=Now())


def disable(person: User) -> None:
    """End all access of the person: keys, sessions, streams and sockets. Their work goes on, nothing is deleted."""
    person.is_active, person.sign_outs = False, person.sign_outs + 1
    person.save(update_fields=["is_active", "sign_outs"])


def enable(person: User) -> None:
    """Give the person's access back. Keys work again; in browsers they sign in anew."""
    person.is_active = True
    person.save(update_fields=["is_active"])


def _recent() -> dict[int, int]:
    """The newest rows, and whom each is about."""
    return dict(AccessChange.objects.filter(at__gt=Now() - LOOK_BACK).values_list("pk", "user_id"))


class Watch:
    """The changes that one event loop waits for, by `Principal.sender`."""

    def __init__(self) -> None:
        self._waited_for: weakref.WeakValueDictionary[str, asyncio.Future[None]] = weakref.WeakValueDictionary()
        self._reading: asyncio.Task[None] | None = None

    def next_change(self, sender: str) -> asyncio.Future[None]:
        """Is done at the next change. All who wait for one person get the same; keep it while you wait."""
        future = self._waited_for.get(sender)
        if future is None or future.done():
            future = self._waited_for[sender] = asyncio.get_running_loop().create_future()
        if sender and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read())
        return future

    async def _read(self) -> None:
        """Read while anybody waits. Changes of the last seconds count too: somebody may just have connected."""
        seen: set[int] = set()
        while any(self._waited_for):
            try:
                rows = await db.run_for_stream(_recent)
            except (OperationalError, InterfaceError):
                rows = {}
            for number in rows.keys() - seen:
                future = self._waited_for.get(f"user:{rows[number]}")
                if future is not None and not future.done():
                    future.set_result(None)
            seen = set(rows) or seen
            await asyncio.sleep(POLL_SECONDS)


_watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = weakref.WeakKeyDictionary()


def next_change(sender: str) -> asyncio.Future[None]:
    """As `Watch.next_change`, in the running loop."""
    return _watches.setdefault(asyncio.get_running_loop(), Watch()).next_change(sender)


def connect() -> None:
    """Announce what any door changes: pages, the API, admin, commands, and signing out."""
    post_save.connect(_person_saved, User, dispatch_uid="revocation")
    post_save.connect(_key_saved, ApiKey, dispatch_uid="revocation")
    post_save.connect(_member_saved, Membership, dispatch_uid="revocation")
    post_delete.connect(_member_deleted, Membership, dispatch_uid="revocation")
    post_delete.connect(_key_deleted, ApiKey, dispatch_uid="revocation")
    pre_delete.connect(_token_deleted, Token, dispatch_uid="revocation")
    pre_delete.connect(_session_deleted, Session, dispatch_uid="revocation")


def _person_saved(instance: User, created: bool, update_fields: frozenset[str] | None, **_: Any) -> None:
    if not created and (update_fields is None or update_fields & DECIDING):
        announce(instance.pk)


def _key_saved(instance: ApiKey, created: bool, **_: Any) -> None:
    if not created:
        announce(instance.user_id)


def _key_deleted(instance: ApiKey, **about: Any) -> None:
    _announce_unless_gone(instance.user_id, **about)


def _member_saved(instance: Membership, created: bool, **_: Any) -> None:
    if not created:
        announce(instance.user_id)


def _member_deleted(instance: Membership, **about: Any) -> None:
    _announce_unless_gone(instance.user_id, **about)


def _announce_unless_gone(user_id: int, origin: Any = None, **_: Any) -> None:
    """While a person is deleted, no row can name them. The slow checks find that they are gone."""
    if not (isinstance(origin, User) or getattr(origin, "model", None) is User):
        announce(user_id)


def _token_deleted(instance: Token, **_: Any) -> None:
    """Revoked, or gone with its program. One without a user stands for the program's owner."""
    if instance.type == Token.Type.ACCESS_TOKEN:
        announce(instance.user_id or (instance.client.owner_id if instance.client else None))


def _session_deleted(instance: Session, **_: Any) -> None:
    """Signing out, here or from another browser."""
    if instance.expire_date > timezone.now():
        person = str(instance.get_decoded().get(SESSION_KEY, ""))
        announce(int(person) if person.isdecimal() else None)
