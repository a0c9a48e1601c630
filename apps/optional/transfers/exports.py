"""Makes archives of accounts: a person starts one, a job writes it, and the file stays until it expires.

`start` writes a row. `make` claims one and extends its lease while it writes. If its process dies, the lease ends
and the sweep begins the archive again. The fence is in the file's name.
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
from django.db.models import Count, F, Sum
from django.http import FileResponse, HttpRequest
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User, Workspace
from apps.accounts.permissions import Permission
from apps.accounts.principals import AGENTS, SCOPES, Principal
from apps.accounts.resources import Act, Resource
from apps.conversations.public_links.downloads import resumable_response
from apps.optional.transfers.archive import sessions_of, write_archive
from apps.optional.transfers.models import Export, ExportNotFound
from apps.record.errors import Kind, Refusal, UnsupportedOperation
from parley.db import sql
from parley.work import WorkList

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
    scopes = SCOPES.keys() - {AGENTS}  # which reads no data
    is_limited = principal.agents is not None or not all(map(principal.may, scopes))
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
    return resumable_response(response, f"{export.pk}-{export.fence}", request)


def delete(export: Export, principal: Principal | None = None) -> Export:
    """Delete the file, and stop a job that writes it. The row stays for a day, because `start` counts it."""
    values = {"state": State.DELETED, "lease_until": None, "expires_at": export.created_at + DAY}
    Export.objects.filter(pk=export.pk).update(**values, file="", size=0)
    if export.file:
        default_storage.delete(export.file)
    return export


DELETE = Act[Export](
    "delete",
    "Delete",
    delete,
    "Delete an export, or stop it",
    "Its file is deleted at once. It still counts among those of the day.",
    lambda export: "The export was deleted.",
    permission=Permission.READ,
)
EXPORTS = Resource("exports", "export", Export, acts=(DELETE,), permission=Permission.READ)


def make(key: uuid.UUID) -> bool:
    """Writes the archive of an account. False if it does not wait, or others are written already."""
    export = _claim(key)
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
        if export.fence >= MOST_ATTEMPTS:
            _fail(export)
    path.unlink(missing_ok=True)
    return True


EXPORTS_TO_MAKE = WorkList("exports", "transfers.make_export", make, Export)


def _claim(key: uuid.UUID) -> Export | None:
    with sql.write_transaction():
        if Export.objects.filter(state=State.WORKING, lease_until__gte=sql.database_time()).count() >= AT_ONCE:
            return None
        for export in Export.objects.filter(fence__gte=MOST_ATTEMPTS).due():
            _fail(export)
        rows = Export.objects.select_related("owner").filter(pk=key)
        return next(iter(rows.claim(LEASE, state=State.WORKING, sessions_done=0)), None)


def _name_of(export: Export) -> str:
    return f"{FOLDER}/{export.pk.hex}-{export.fence}.zip"


class _Lost(Exception):
    """The job's lease ended, or the export was deleted."""


def _write(export: Export, path: Path) -> None:
    """Raises _Lost, and what the archive raises."""
    extended = time.monotonic()

    def watch(done: int) -> None:
        nonlocal extended
        if time.monotonic() - extended >= EXTEND_SECONDS:
            extended = time.monotonic()
            if not export.extend(LEASE, sessions_done=done):
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
    if not export.release(state=State.DONE, expires_at=expires_at, **values):
        raise _Lost
    for earlier in Export.objects.filter(owner=export.owner_id, state=State.DONE).exclude(pk=export.pk):
        delete(earlier)


def _fail(export: Export) -> None:
    expires_at = timezone.now() + datetime.timedelta(days=settings.EXPORT_DAYS)
    export.release(state=State.FAILED, finished_at=timezone.now(), problem=FAILED, expires_at=expires_at)


def delete_expired() -> int:
    """Deletes expired archives of accounts, and files that no row names."""
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
    """For `storage_meters`: name, bytes and number of archives of accounts."""
    found = Export.objects.filter(state=State.DONE).aggregate(rows=Count("pk"), bytes=Sum("size"))
    return "exports", found["bytes"] or 0, found["rows"]
