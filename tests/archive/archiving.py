"""Old archived sessions, and all rows of a session."""

from __future__ import annotations

import datetime
from typing import Any
from unittest.mock import patch

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from agentkit import Artifact, Completed, InputRequired
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept, cancel
from apps.optional.archive import file_format
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Accepted
from apps.record.models import Context
from tests.working import begin, chunk, end, say

LONG_AGO = timezone.now() - datetime.timedelta(days=100)


def had_a_long_talk(ada: User, echo: Agent, said: Any, context_id: str = "talk") -> Context:
    """A conversation of two tasks, one of two turns, with streamed, signed and large content."""
    sent = accept.accept(ada.principal, echo, said(f"first of {context_id}", contextId=context_id))
    held = begin(sent.run)
    say(held, chunk("lines", "1\n", last=False), chunk("lines", "2\n", append=True))
    end(held, InputRequired("Which?", slot="word"))
    answer = accept.accept(ada.principal, echo, said("this", taskId=str(sent.task)))
    large = Artifact.text("large", "\N{SNOWMAN} line \u2028\n" * 24_000)
    end(begin(answer.run), Completed("done", [Artifact.json("data", {"large": 2**60, "small": 0.1}), large]))
    again = accept.accept(ada.principal, echo, said("more", contextId=context_id))
    cancel.cancel_by_id(ada.principal, echo, str(again.task))
    return Context.objects.get(pk=sent.context)


def put_away(context: Context, at: datetime.datetime = LONG_AGO) -> Context:
    with patch("apps.record.ledger.corrected_time", lambda: at), ledger.writing(context) as log:
        log.add(EventType.SESSION_ARCHIVED, {})
    return Context.objects.get(pk=context.pk)


def everything(context: Context) -> dict[str, list[Any]]:
    """Each row of the session by column, and its idempotency keys."""
    found = {
        section.name: [file_format.serialize_row(row) for row in section.rows(context)]
        for section in file_format.all_sections()
    }
    led_here = Accepted.objects.order_by("pk").values()
    return {**found, "accepted": [row for row in led_here if leads_to(row, found)]}


def leads_to(accepted: dict[str, Any], found: dict[str, list[Any]]) -> bool:
    return str(accepted["task_id"]) in {row["id"] for row in found["record.task"]}


def rows_left(context: Context) -> int:
    return sum(section.rows(context).count() for section in file_format.all_sections())


def replace(name: str, content: bytes) -> None:
    default_storage.delete(name)
    default_storage.save(name, ContentFile(content))


def cold_files() -> list[str]:
    try:
        folders = default_storage.listdir("cold")[0]
    except FileNotFoundError:
        return []
    return [f"cold/{folder}/{name}" for folder in folders for name in default_storage.listdir(f"cold/{folder}")[1]]
