"""Finds slow work within transactions. On SQLite a transaction has the only write lock; elsewhere it has its rows'.

Slow are: hashing a password, rendering a template, opening a socket, starting a program, and changing files.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import connection
from django.test import override_settings
from django.test.signals import template_rendered

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SLOW_EVENTS = {
    "socket.connect", "socket.getaddrinfo", "subprocess.Popen",
    "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.truncate", "shutil.copyfile",
}  # fmt: skip
ROOT = str(Path(__file__).parent.parent)
_watchers: list[list[str]] = []
_is_hooked = False


def note(what: str) -> None:
    """Slow work begins."""
    if _watchers and connection.in_atomic_block:
        called = [(os.path.relpath(one.filename, ROOT), one.lineno) for one in traceback.extract_stack()]
        own = [f"{file}:{line}" for file, line in called if file.startswith(("apps", "platform", "examples"))]
        for found in _watchers:
            found.append(f"{what}, at {' < '.join(reversed(own[-4:]))}")


class SlowHasher(MD5PasswordHasher):
    """Stands for the hasher of passwords, which takes a tenth of a second."""

    def encode(self, password: str, salt: str) -> str:
        note("a password is hashed")
        return super().encode(password, salt)


@contextmanager
def watched() -> Iterator[list[str]]:
    """What slow work was done within transactions, and where. Needs a test without a transaction of its own."""
    global _is_hooked
    if not _is_hooked:  # an audit hook cannot be removed
        sys.addaudithook(_audited)
        _is_hooked = True
    found: list[str] = []
    hashers = [f"{__name__}.SlowHasher", "apps.accounts.clients.oauth.RandomSecretHasher"]
    template_rendered.connect(_rendered, dispatch_uid="slow work")
    _watchers.append(found)
    try:
        with override_settings(PASSWORD_HASHERS=hashers):
            yield found
    finally:
        _watchers.remove(found)
        template_rendered.disconnect(dispatch_uid="slow work")


def _rendered(template: Any, **_: Any) -> None:
    note(f"the template {template.name} is rendered")


def _audited(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watchers:
        return
    if event in SLOW_EVENTS:
        note(f"{event} {arguments[0] if event.startswith('os.') else ''}".strip())
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING:
        note(f"the file {Path(str(arguments[0])).name} is written")
