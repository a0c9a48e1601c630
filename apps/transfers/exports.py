"""Makes archives of accounts: a person starts one, a job writes it, and the file stays until it expires.

`start` writes a row. `make_next` claims one by compare-and-swap and holds it by a lease, which it extends while it
writes. If its process dies, the lease ends and the sweep begins the archive again. `attempt` is the fence: it is in the
file's name, and a job whose attempt is not the newest one changes nothing.
"""

from __future__ import annotations

import datetime
import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import IntegrityError
from django.db.models import Count, F, Q, Sum
from django.http import FileResponse, HttpRequest
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User, Workspace
from apps.accounts.principals import SCOPES, Principal
from apps.features.sharing.downloads import resumable_response
from apps.record.errors import Kind, Refusal, UnsupportedOperation
from apps.transfers.archive import sessions_of, write_archive
from apps.transfers.models import Export, ExportNotFound
from db import sql

log = logging.getLogger("parley.exports")

FOLDER = "exports"  # of the file storage
AT_ONCE = 2  # archives that are written at the same time, so that other jobs have workers
LEASE = datetime.timedelta(minutes=3)
EXTEND_SECONDS = 5.0
MOST_ATTEMPTS = 3
DAY = datetime.timedelta(days=1)
MOST_IN_A_DAY = 10  # of one person
FAILED = "Your data could not be exported. Try again later, or ask an operator: the server's log has the cause."

State = Export.State


class NotReady(UnsupportedOperation):
    """The export has no file yet. Wait until its state is done."""


class ExportRunning(UnsupportedOperation):
    """An export of your data is being made already. Wait for it, or delete it."""


class TooManyExports(Refusal):
    """You started as many exports as a person may in a day. Download the newest one, or try again tomorrow."""

    kind = Kind.TOO_MANY


class NotWholeAccount(Refusal):
    """An export has all your data. Use a key of your personal workspace with all scopes and for all agents."""

    kind = Kind.FORBIDDEN


def check_whole_account(principal: Principal) -> None:
    """Whether the credential reaches all that an archive has. Raises NotWholeAccount."""
    is_limited = principal.agents is not None or not all(map(principal.may, SCOPES))
    homes = Workspace.objects.filter(personal_of=principal.user_id).values_list("pk", flat=True)
    if is_limited or (principal.key and principal.workspace_id not in homes):
        raise NotWholeAccount


def start(principal: Principal) -> Export:
    """Begin an export of a known caller's account.

    Raises NotWholeAccount, ExportRunning, TooManyExports.
    """
    check_whole_account(principal)
    person = User.objects.get(pk=cast("int", principal.user_id))
    if Export.objects.filter(owner=person, created_at__gt=timezone.now() - DAY).count() >= MOST_IN_A_DAY:
        raise TooManyExports
    try:
        with sql.write_transaction():
            made = Export.objects.create(owner=person, sessions=sessions_of(person).count())
            audit.record(AuditAction.DATA_EXPORTED, actor=principal, object=person)
    except IntegrityError:
        raise ExportRunning from None
    return made


def find(principal: Principal, key: uuid.UUID) -> Export:
    """Raises ExportNotFound, NotWholeAccount."""
    check_whole_account(principal)
    return Export.objects.find(principal, key)


def download(principal: Principal, export: Export, request: HttpRequest) -> FileResponse:
    """The file as a download that can be resumed. Raises NotReady, ExportNotFound."""
    if not export.is_finished:
        raise NotReady
    try:
        file = cast(BinaryIO, default_storage.open(export.file)) if export.file else None
    except FileNotFoundError:
        file = None
    if file is None:
        raise ExportNotFound
    audit.record(AuditAction.DATA_EXPORTED, actor=principal, object=export.owner, request=request)
    name = f"parley-{timezone.localdate(export.created_at):%Y-%m-%d}.zip"
    response = FileResponse(file, as_attachment=True, filename=name, content_type="application/zip")
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return resumable_response(response, f"{export.pk}-{export.attempt}", request)


def delete(export: Export) -> None:
    """Delete the file, and stop a job that writes it. The row stays for a day, because `start` counts it."""
    values = {"state": State.DELETED, "lease_until": None, "expires_at": export.created_at + DAY}
    Export.objects.filter(pk=export.pk).update(**values, file="", size=0)
    if export.file:
        default_storage.delete(export.file)


def make_next() -> bool:
    """Write the archive that waits longest. False if none waits, or others are written already."""
    export = _claim()
    if export is None:
        return False
    path = Path(default_storage.path(_name_of(export)))
    try:
        _write(export, path)
        return True
    except _Lost:
        log.info("export %s is another job's, or was deleted", export.pk)
    except Exception:
        log.exception("export %s could not be made", export.pk)
        if export.attempt >= MOST_ATTEMPTS:
            _fail(export)
    path.unlink(missing_ok=True)
    return True


def _claim() -> Export | None:
    now = sql.database_time()
    with sql.write_transaction():
        if Export.objects.filter(state=State.WORKING, lease_until__gte=now).count() >= AT_ONCE:
            return None
        free = Q(state=State.WAITING) | Q(state=State.WORKING, lease_until__lt=now)
        for export in Export.objects.filter(free, owner__is_active=True).select_related("owner").order_by("created_at"):
            if export.attempt >= MOST_ATTEMPTS:
                _fail(export)
                continue
            values = {"state": State.WORKING, "lease_until": now + LEASE, "sessions_done": 0}
            same = Export.objects.filter(free, pk=export.pk, attempt=export.attempt)
            if same.update(attempt=F("attempt") + 1, **values):
                export.attempt += 1
                return export
    return None


def _name_of(export: Export) -> str:
    return f"{FOLDER}/{export.pk.hex}-{export.attempt}.zip"


class _Lost(Exception):
    """The job's lease ended, or the export was deleted."""


def _own(export: Export) -> Q:
    return Q(pk=export.pk, state=State.WORKING, attempt=export.attempt)


def _write(export: Export, path: Path) -> None:
    """Raises _Lost, and what the archive raises."""
    extended = time.monotonic()

    def watch(done: int) -> None:
        nonlocal extended
        if time.monotonic() - extended >= EXTEND_SECONDS:
            extended = time.monotonic()
            values = {"sessions_done": done, "lease_until": sql.database_time() + LEASE}
            if not Export.objects.filter(_own(export)).update(**values):
                raise _Lost

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        write_archive(export.owner, file, watch)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    _finish(export, size)


def _finish(export: Export, size: int) -> None:
    """The new archive takes the place of the person's earlier ones. Raises _Lost."""
    now = timezone.now()
    values = {"file": _name_of(export), "size": size, "sessions_done": F("sessions"), "finished_at": now}
    expires_at = now + datetime.timedelta(days=settings.EXPORT_DAYS)
    if not Export.objects.filter(_own(export)).update(
        state=State.DONE, lease_until=None, expires_at=expires_at, **values
    ):
        raise _Lost
    for earlier in Export.objects.filter(owner=export.owner_id, state=State.DONE).exclude(pk=export.pk):
        delete(earlier)


def _fail(export: Export) -> None:
    values = {"state": State.FAILED, "lease_until": None, "finished_at": timezone.now(), "problem": FAILED}
    expires_at = timezone.now() + datetime.timedelta(days=settings.EXPORT_DAYS)
    Export.objects.filter(_own(export)).update(expires_at=expires_at, **values)


def delete_expired() -> int:
    """Delete expired exports, and files that no row names. Returns the number of exports."""
    due = Export.objects.exclude(state__in=Export.UNFINISHED).filter(expires_at__lte=timezone.now())
    for name in due.exclude(file="").values_list("file", flat=True):
        default_storage.delete(name)
    deleted, _ = due.delete()
    for name in _files():
        default_storage.delete(name)
    return deleted


def _files() -> Iterator[str]:
    """Files that a killed job or a deleted account left."""
    with suppress(FileNotFoundError):
        listed = {f"{FOLDER}/{name}" for name in default_storage.listdir(FOLDER)[1]}
        rows = Export.objects.exclude(state__in=(State.FAILED, State.DELETED)).iterator()
        yield from listed - {_name_of(row) for row in rows}


def stored_size() -> tuple[str, int, int]:
    """For `STORAGE_METERS`: name, bytes and number of archives of accounts."""
    found = Export.objects.filter(state=State.DONE).aggregate(rows=Count("pk"), bytes=Sum("size"))
    return "exports", found["bytes"] or 0, found["rows"]
