"""Archives or restores a session, or starts a schedule, in processes that are killed at each step.

`python -m tests.faults.dying schedules` prints what is left of a due time after each kill and the next tick.
`python -m tests.faults.dying going` prints JSON: the session's state before, and for each step after the kill,
archived, and restored (archived or not, rows, file, digest of all rows); then replay problems, and files that a
sweep leaves.
"""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from django.conf import settings
from django.db import connection

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.automation import schedules
from apps.automation.models import Schedule
from apps.optional.archive.archiving import move_to_cold_storage
from apps.record.content import blobs
from apps.record.models import Context, Task
from apps.record.projection import differences
from apps.record.reading.lookup import restored
from parley.db import sql
from tests.archive.archiving import cold_files, everything, had_a_long_talk, put_away, rows_left

GOING = [
    ("apps.optional.archive.file_format.default_storage.save", "before"),
    ("apps.optional.archive.file_format.default_storage.save", "after"),
    ("apps.optional.archive.file_format._sync_to_disk", "after"),
    ("apps.optional.archive.file_format.verify_archive", "after"),
    ("apps.optional.archive.archiving._keep_keys", "after"),
    ("django.db.models.query.QuerySet.delete", "after"),
]
COMING = [
    ("apps.optional.archive.restoring._insert_rows", "before"),
    ("django.db.models.query.QuerySet.bulk_create", "after"),
    ("apps.optional.archive.restoring._insert_rows", "after"),
    ("apps.optional.archive.restoring.default_storage.delete", "before"),
    ("apps.optional.archive.restoring.default_storage.delete", "after"),
]
STARTING = [
    ("apps.automation.schedules._claim", "after"),
    ("apps.automation.targets.accept_and_publish", "before"),
    ("apps.automation.targets.accept_and_publish", "after"),
    ("apps.automation.schedules._start", "after"),
]


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"messageId": f"{text}, {sys.argv[1]}", "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def look(session: Any) -> list[Any]:
    context = Context.objects.get(pk=session)
    rows = json.dumps(everything(context), default=str, sort_keys=True).encode()
    in_file = context.cold_file in cold_files()
    return [bool(context.cold_file), rows_left(context) > 0, in_file, hashlib.sha256(rows).hexdigest()]


def move(session: Any, *, goes: bool) -> list[Any]:
    """Archive or restore it, and return its state."""
    move_to_cold_storage(session) if goes else restored(Context.objects.get(pk=session))
    return look(session)


def die_at(step: str, when: str, act: Callable[[], object]) -> None:
    """Run in a process that is killed before or after that step."""
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    if (child := os.fork()) == 0:
        original = pkgutil.resolve_name(step)

        def dies(*args: Any, **kwargs: Any) -> None:
            if when == "after":
                original(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        with mock.patch(step, dies):
            act()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{step} was not taken"


def tick() -> None:
    schedules.claim_due()
    for key in list(schedules.due_schedules()):
        schedules.start_runs_of(key)


def scheduled() -> list[Any]:
    ada, echo = User.objects.get(email="demo@parley.local"), Agent.objects.get(slug="echo")
    told = []
    for step, when in STARTING:
        about = {"agent": echo, "name": step, "text": f"{step} {when}", "kind": "interval", "every_seconds": 86400}
        schedule = schedules.save(ada.principal, Schedule(**about))
        Schedule.objects.filter(pk=schedule.pk).update(next_at=sql.database_time())
        die_at(step, when, tick)
        states = list(schedule.runs.values_list("state", flat=True))
        Schedule.objects.exclude(lease_until=None).update(lease_until=sql.database_time())  # its lease has ended
        [tick() for _ in range(2)]
        after = list(schedule.runs.values_list("state", "task"))
        sent = Task.objects.filter(context__owner=ada, messages__parts=[{"text": schedule.text}]).values_list("pk")
        told.append({"killed": states, "after": after, "tasks": [str(pk) for (pk,) in sent]})
    return told


def archived(way: str) -> None:
    ada, echo = User.objects.get(email="demo@parley.local"), Agent.objects.get(slug="echo")
    session = put_away(had_a_long_talk(ada, echo, said, way)).pk
    whole, told = look(session), []
    for step, when in GOING if way == "going" else COMING:
        if way == "coming":
            move_to_cold_storage(session)
        die_at(step, when, lambda: move(session, goes=way == "going"))
        found = look(session)
        gone = found if found[0] else move(session, goes=True)
        told.append([found, gone, move(session, goes=False)])
    settings.UNUSED_FILE_SECONDS = 0
    blobs.sweep_unused()
    left = {"differences": differences(session), "files": cold_files()}
    print(json.dumps({"whole": whole, "steps": told, "left": left}))


if __name__ == "__main__":
    if sys.argv[1] == "schedules":
        print(json.dumps(scheduled(), default=str))
    else:
        archived(sys.argv[1])
