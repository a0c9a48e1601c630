"""kill -9 while a session goes into cold storage or comes back, at each step: it is whole, here or there."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests import stack
from tests.stack import Stack

SEED = """
from apps.accounts.models import User
from apps.agents.models import Agent
from tests.conversations.archiving import had_a_long_talk, put_away

def said(text, **fields):
    return {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **fields}

ada = User.objects.get(email="demo@parley.local")
print(put_away(had_a_long_talk(ada, Agent.objects.get(slug="echo"), said)).pk)
"""
FOLLOW = """
import hashlib, json
from apps.conversations.archives.cooling import cool
from apps.conversations.archives.warming import warm
from apps.conversations.models import Context
from tests.conversations.archiving import cold_files, everything, rows_left

def look():
    context = Context.objects.get(pk="{session}")
    rows = hashlib.sha256(json.dumps(everything(context), default=str, sort_keys=True).encode()).hexdigest()
    print(bool(context.cold_file), rows_left(context) > 0, context.cold_file in cold_files(), rows)
    return context

found = look()
if not found.cold_file:
    cool(found.pk)
warm(look())
look()
if {and_again}:
    cool(found.pk)
"""
DIE = """
import os, pkgutil, signal
from unittest import mock
from apps.conversations.archives.cooling import cool
from apps.conversations.archives.warming import warm
from apps.conversations.models import Context

def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def kill_after(*args, **kwargs):
    original(*args, **kwargs)
    kill()

context = Context.objects.get(pk="{session}")
original = pkgutil.resolve_name("{step}")
with mock.patch("{step}", {kill}):
    {act}
"""
SWEPT = """
from django.conf import settings
from apps.conversations import unused
from tests.conversations.archiving import cold_files
settings.UNUSED_FILE_SECONDS = 0
unused.sweep()
print(cold_files())
"""
GOING = [
    ("apps.conversations.archives.files.default_storage.save", "kill"),
    ("apps.conversations.archives.files.default_storage.save", "kill_after"),
    ("apps.conversations.archives.files._settle", "kill_after"),
    ("apps.conversations.archives.files.verify", "kill_after"),
    ("apps.conversations.archives.cooling._leave_keys", "kill_after"),
    ("django.db.models.query.QuerySet._raw_delete", "kill_after"),
]
COMING = [
    ("apps.conversations.archives.restoring._insert", "kill"),
    ("apps.conversations.archives.restoring._write", "kill_after"),
    ("apps.conversations.archives.restoring._insert", "kill_after"),
    ("apps.conversations.archives.restoring.default_storage.delete", "kill"),
    ("apps.conversations.archives.restoring.default_storage.delete", "kill_after"),
]


@pytest.fixture(scope="module")
def installed() -> Iterator[Stack]:
    """A database with the showcase in it; nobody serves it."""
    with stack.prepared() as prepared:
        prepared.prepare()
        yield prepared


@pytest.fixture(scope="module")
def session(installed: Stack) -> str:
    return shell(installed, SEED).strip().splitlines()[-1]


def shell(installed: Stack, script: str) -> str:
    return installed.manage("shell", "-v0", "-c", script).stdout


def killed(installed: Stack, session: str, step: str, kill: str, act: str) -> None:
    """Do something with the session, and die at a step of it."""
    script = DIE.format(session=session, step=step, kill=kill, act=act)
    done = installed.manage("shell", "-v0", "-c", script, check=False)
    assert done.returncode == -signal.SIGKILL, f"{step}: {done.stdout}{done.stderr}"


def followed(installed: Stack, session: str, *, and_again: bool = False) -> list[list[str]]:
    """How the session is found, how it is in cold storage then, and how it is when it is back.

    Each tells whether it is in cold storage, whether it has rows, whether its file is there, and a digest of all rows.
    """
    told = shell(installed, FOLLOW.format(session=session, and_again=and_again))
    return [line.split() for line in told.splitlines() if line]


IN_TABLES, IN_FILE = ["False", "True", "False"], ["True", "False", "True"]


def test_a_session_that_goes_is_whole_wherever_the_process_dies(installed: Stack, session: str) -> None:
    whole = followed(installed, session)[0]
    assert whole[:3] == IN_TABLES
    for step, kill in GOING:
        killed(installed, session, step, kill, "cool(context.pk)")
        found, gone, back = followed(installed, session)
        assert (found == whole) or (found[:3] == IN_FILE), step
        assert gone[:3] == IN_FILE, step
        assert back == whole, step


def test_a_session_that_comes_back_is_whole_wherever_the_process_dies(installed: Stack, session: str) -> None:
    whole = followed(installed, session, and_again=True)[-1]
    for step, kill in COMING:
        killed(installed, session, step, kill, "warm(context)")
        found, gone, back = followed(installed, session, and_again=True)
        assert (found == whole) or (found[:3] == IN_FILE), step
        assert gone[:3] == IN_FILE, step
        assert back == whole, step
    installed.manage("restore_session", session)
    installed.manage("replay", session)
    assert shell(installed, SWEPT).strip().splitlines()[-1] == "[]"
