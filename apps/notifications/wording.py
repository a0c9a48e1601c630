"""What people read, and programs get: letters, browser notifications and webhook bodies.

Titles and texts are those of people and agents: data, escaped for each channel.
"""

from __future__ import annotations

import datetime
import email.policy
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from email.policy import EmailPolicy
from email.utils import formataddr, parseaddr
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from apps.notifications.models import Channel, Kind
from apps.record.content.parts import words_of
from apps.record.events import JSON
from apps.record.models import Event, Task, TaskState

UNSUBSCRIBE = "List-Unsubscribe"
STOP_SALT = "notifications.stop"
ALL = "all"
TEST = "test"
LONGEST_TITLE, LONGEST_TEXT, LONGEST_PUSH = 100, 2_000, 180  # characters
WORDS: dict[str, str] = {
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "was not accepted",
    TaskState.INPUT_REQUIRED: "has a question",
    TaskState.AUTH_REQUIRED: "needs a credential",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened, ready to be told. `kind` and `state` are "test" for a test."""

    kind: str
    state: str
    title: str
    agent: str
    agent_name: str
    text: str
    session: uuid.UUID | None
    task: uuid.UUID | None
    at: datetime.datetime

    @property
    def headline(self) -> str:
        if self.kind == TEST:
            return "A test from Parley"
        return f"“{self.title}” {WORDS[self.state]}"

    @property
    def url(self) -> str:
        """Where it can be read and answered, after signing in."""
        path = reverse("web:session", args=[self.session]) if self.session else reverse("web:settings-notifications")
        return f"{settings.PUBLIC_BASE_URL}{path}"

    @property
    def call(self) -> str:
        """The words of the link."""
        return "Answer" if self.kind == Kind.ASKS else "Open"


def notice_of(task: Task, kind: str, event: Event) -> Notice:
    """Of the event that brought the task's state, with the task's context and agent loaded."""
    message = event.payload.get("message") or {"parts": []}
    text = shortened(words_of(message["parts"]).strip(), LONGEST_TEXT)
    title = one_line(task.context.title or "New session", LONGEST_TITLE)
    names = task.agent.slug, one_line(task.agent.name, LONGEST_TITLE)
    return Notice(kind, event.payload["state"], title, *names, text, task.context_id, task.pk, event.at)


def test_notice(at: datetime.datetime) -> Notice:
    return Notice(TEST, TEST, "", "", "Parley", "This is how Parley will tell you. Nothing to do.", None, None, at)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """Without line breaks and control characters, which a header of a letter must not have."""
    return shortened(" ".join("".join(one if one.isprintable() else " " for one in text).split()), most)


def stop_link(channel: Channel, kind: str) -> str:
    """Switches a kind of notification off, or with ALL the whole channel, without signing in."""
    token = signing.dumps([str(channel.pk), kind], salt=STOP_SALT)
    return f"{settings.PUBLIC_BASE_URL}{reverse('web:stop-notifications', args=[token])}"


def stopped_by(token: str) -> tuple[uuid.UUID, str] | None:
    """The channel and the kind of a stop link; None if it was not made here."""
    try:
        channel, kind = signing.loads(token, salt=STOP_SALT)
        return uuid.UUID(channel), kind
    except (signing.BadSignature, ValueError):
        return None


class WholeLinks(EmailPolicy):
    """Leaves the link of `List-Unsubscribe` whole: mail programs do not read it in encoded words (RFC 2047 §5)."""

    def fold(self, name: str, value: str) -> str:
        return f"{name}: {value}{self.linesep}" if name == UNSUBSCRIBE else super().fold(name, value)

    def fold_binary(self, name: str, value: str) -> bytes:
        return self.fold(name, value).encode() if name == UNSUBSCRIBE else super().fold_binary(name, value)


class Letter(EmailMultiAlternatives):
    def message(self, *, policy: Any = email.policy.default) -> Any:
        return super().message(policy=WholeLinks(linesep=policy.linesep, utf8=policy.utf8))


def letter(channel: Channel, notices: Sequence[Notice], key: str) -> Letter:
    """One letter for all notices. `key` makes its Message-ID, so that mail programs recognize a repeated one."""
    kinds = {one.kind for one in notices}
    stop = stop_link(channel, kinds.pop() if len(kinds) == 1 and TEST not in kinds else ALL)
    first = notices[0]
    subject = first.headline if len(notices) == 1 else f"{first.headline}, and {len(notices) - 1} more"
    choices = f"{settings.PUBLIC_BASE_URL}{reverse('web:settings-notifications')}"
    about = {"notices": notices, "stop": stop, "choices": choices}
    sender = formataddr(("Parley", parseaddr(settings.DEFAULT_FROM_EMAIL)[1]))
    host = urlsplit(settings.PUBLIC_BASE_URL).hostname or "localhost"
    headers = {
        "Message-ID": f"<{key}@{host}>",
        "Auto-Submitted": "auto-generated",  # RFC 3834: nobody's holiday note answers it
        UNSUBSCRIBE: f"<{stop}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",  # RFC 8058
    }
    text = render_to_string("notifications/letter.txt", about)
    made = Letter(one_line(subject, 200), text, sender, [channel.user.email], headers=headers)
    made.attach_alternative(render_to_string("notifications/letter.html", about), "text/html")
    return made


def push_text(notice: Notice) -> bytes:
    """What the service worker shows. A later notification of a session replaces an earlier one."""
    about = {
        "title": shortened(notice.headline, LONGEST_TITLE + 40),
        "body": one_line(notice.text, LONGEST_PUSH),
        "tag": str(notice.session or TEST),
        "href": urlsplit(notice.url).path,
    }
    return json.dumps(about, ensure_ascii=False).encode()


def webhook_body(notice: Notice) -> bytes:
    """`type`, `timestamp` and `data`, as Standard Webhooks recommends."""
    data: JSON = {
        "sessionId": str(notice.session) if notice.session else None,
        "taskId": str(notice.task) if notice.task else None,
        "agent": notice.agent or None,
        "state": notice.state,
        "title": notice.title,
        "text": notice.text,
        "url": notice.url,
    }
    named: dict[str, str] = {Kind.ENDED: "task.completed", Kind.FAILED: "task.failed", Kind.ASKS: "task.asks"}
    at = notice.at.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    body = {"type": named.get(notice.kind, TEST), "timestamp": at, "data": data}
    return json.dumps(body, ensure_ascii=False).encode()
