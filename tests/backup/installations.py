"""An installation with something in most tables, and what it holds."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.files.storage import default_storage
from django.db import DEFAULT_DB_ALIAS, models

from agentkit import Artifact, Completed
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.conversations.forks.forking import fork
from apps.conversations.search import jobs
from apps.conversations.uploads import resumable
from apps.conversations.uploads.models import Upload
from apps.credentials.models import AuthType, Credential
from apps.engine import accept
from apps.optional.archive.archiving import move_to_cold_storage
from apps.record.execution import Run
from apps.record.models import Context
from tests import emptying
from tests.archive.archiving import had_a_long_talk, put_away
from tests.working import begin, end

SECRET = "the secret of a mailbox"
LEFT_OUT = {"sessions.Session", "search.SearchWords", "knowledge.PassageWords", "housekeeping.Backup"}


def fill(ada: User, echo: Agent, said: Any) -> str:
    """Conversations, a fork, a cold session, a running turn, secrets, a group; returns an API key."""
    talk = had_a_long_talk(ada, echo, said)
    fork(ada.principal, talk, talk.last_event - 1, reason="manual")
    cold = had_a_long_talk(ada, echo, said, "of long ago")
    begin(accept.accept(ada.principal, echo, said("at work")).run)
    Credential.objects.create(
        agent=echo, user=ada, service="mail", auth_type=AuthType.API_KEY, secret=SECRET, given_by=ada
    )
    group = Group.objects.create(name="writers")
    group.permissions.set(Permission.objects.filter(codename__in=("view_context", "change_agent")))
    ada.groups.add(group)
    jobs.index_new()
    move_to_cold_storage(put_away(cold).pk)
    return ApiKey.issue(ada, "from before")[1]


def send(ada: User, echo: Agent, said: Any, text: str, context_id: str) -> Context:
    """A whole task with an artifact that is a stored file."""
    sent = accept.accept(ada.principal, echo, said(text, contextId=context_id))
    end(begin(sent.run), Completed("done", [Artifact.text("large", f"{text}\n" * 60_000)]))
    return Context.objects.get(pk=sent.context)


def make_files_old() -> None:
    """So that a deletion need not spare them."""
    long_ago = time.time() - 100 * 24 * 3600
    for path in stored_files():
        os.utime(Path(default_storage.path("")) / path, (long_ago, long_ago))


def stored_files() -> dict[str, bytes]:
    root = Path(default_storage.path(""))
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def rows(using: str = DEFAULT_DB_ALIAS) -> dict[str, list[dict[str, Any]]]:
    """All rows as Django reads them, secrets decrypted. The lease of a run at work is its worker's own."""
    found = {}
    for model in apps.get_models(include_auto_created=True):
        if model._meta.label in LEFT_OUT or model._meta.proxy:
            continue
        hidden = {"words"} | ({"lease_until", "published_at"} if model is Run else set())
        names = [field.attname for field in model._meta.concrete_fields if field.attname not in hidden]
        ordered: models.QuerySet[Any] = model._base_manager.using(using).order_by("pk")
        whole = ordered.exclude(sha256="") if model is Upload else ordered
        found[model._meta.label] = list(whole.values(*names))
    return found


def lose_everything() -> None:
    """Another machine: an empty database and no files."""
    emptying.empty()
    shutil.rmtree(default_storage.path(""))


def uploads_under_way(ada: User) -> tuple[Upload, Upload]:
    """One that is complete, but whose file was not moved yet, and one that is not complete."""
    content = b"content of an upload"
    complete = resumable.begin_upload(ada.principal, "whole.txt", len(content))
    resumable.path_of(complete.pk).write_bytes(content)
    resumable._mark_whole(complete, resumable.hash_upload(complete))
    return complete, resumable.begin_upload(ada.principal, "part.txt", 10)
