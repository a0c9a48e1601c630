"""Archives or restores a session in processes that are killed at each step.

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
from apps.features.archive.archiving import move_to_cold_storage
from apps.record.content import blobs
from apps.record.lookup import restored
from apps.record.models import Context
from apps.record.projection import differences
from tests.record.archiving import cold_files, everything, had_a_long_talk, put_away, rows_left

GOING = [
    ("apps.features.archive.file_format.default_storage.save", "before"),
    ("apps.features.archive.file_format.default_storage.save", "after"),
    ("apps.features.archive.file_format._sync_to_disk", "after"),
    ("apps.features.archive.file_format.verify_archive", "after"),
    ("apps.features.archive.archiving._keep_keys", "after"),
    ("django.db.models.query.QuerySet.delete", "after"),
]
COMING = [
    ("apps.features.archive.restoring._insert_rows", "before"),
    ("django.db.models.query.QuerySet.bulk_create", "after"),
    ("apps.features.archive.restoring._insert_rows", "after"),
    ("apps.features.archive.restoring.default_storage.delete", "before"),
    ("apps.features.archive.restoring.default_storage.delete", "after"),
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


def main(way: str) -> None:
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
    main(sys.argv[1])
