"""Channels, the people who are linked to them, threads, and what comes in and goes out.

What people wrote is in the record; a row of this app has it only until it is done.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.visibility import OwnedQuerySet, VisibleQuerySet
from apps.agents.models import Agent
from apps.optional.channels.platforms import Platform, platforms
from apps.record.models import Context, Task
from parley.work import Retried, RetriedQuerySet

LONGEST_THREAD = 300  # characters


def bounded(key: str, longest: int) -> str:
    """A platform's id; of one with more characters, a digest."""
    return key if len(key) <= longest else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def every_platform() -> list[tuple[str, str]]:
    """Choices: a function, so that a new platform needs no migration."""
    return [(one.name, one.label) for one in platforms().values()]


class ChatChannelQuerySet(OwnedQuerySet["ChatChannel"]):
    agent = "agent"


class ChatChannel(models.Model):
    """An agent at a platform, such as a Slack app or a Telegram bot."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chat_channels", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="chat_channels", editable=False)
    name = models.CharField(max_length=200)
    platform = models.CharField(max_length=20, choices=every_platform)
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="chat_channels")
    takes_guests = models.BooleanField(
        "people without an account may write", default=False,
        help_text="They act as you: what they ask counts as yours, and stands in your sessions. They approve nothing.",
    )  # fmt: skip
    secrets = EncryptedTextField(blank=True, help_text="JSON: the platform's settings by name.")
    identity = models.CharField(max_length=200, blank=True, editable=False, help_text="Who the agent is there.")
    problem = models.CharField(max_length=300, blank=True, editable=False, help_text="Why the last call failed.")
    last_event_at = models.DateTimeField("last message", null=True, editable=False)
    paused_at = models.DateTimeField("paused", null=True, editable=False)
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ChatChannelQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["owner", "workspace", "-created_at"], name="chat_channels_of_a_person")]

    def __str__(self) -> str:
        return self.name

    @property
    def credentials(self) -> dict[str, str]:
        """The platform's settings, secrets too."""
        found: dict[str, str] = json.loads(self.secrets) if self.secrets else {}
        return found

    @credentials.setter
    def credentials(self, given: dict[str, str]) -> None:
        """Take these. A blank secret stays as it is, unless it would go to another address; other blank ones go."""
        before, settings = self.credentials, self.at.settings if self.at else ()
        secret = {one.name for one in settings if one.is_secret}
        taken = {name: value.strip() for name, value in given.items() if value.strip() or name not in secret}
        after = {name: value for name, value in {**before, **taken}.items() if value}
        for one in settings:
            if one.gets and after.get(one.name) != before.get(one.name) and one.gets not in taken:
                after.pop(one.gets, None)
        self.secrets = json.dumps(after)

    @property
    def at(self) -> Platform | None:
        """Its platform; None if that app is left out."""
        return platforms().get(self.platform)


class ChatAccountQuerySet(VisibleQuerySet["ChatAccount"]):
    def visible_to(self, principal: Principal) -> ChatAccountQuerySet:
        """A person's own, whatever their workspace; to a key, none."""
        if not principal.is_known or principal.key_id is not None or principal.agents is not None:
            return self.none()
        return self.filter(user=principal.user_id)


class ChatAccount(models.Model):
    """A person's account at a platform, from which messages act as them."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(ChatChannel, on_delete=models.CASCADE, related_name="accounts")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="chat_accounts")
    external_id = models.CharField(max_length=200, help_text="The platform's id of the person.")
    name = models.CharField(max_length=200, blank=True, help_text="What they are called there.")
    created_at = models.DateTimeField("linked", default=timezone.now)

    objects = ChatAccountQuerySet.as_manager()

    class Meta:
        verbose_name = "linked chat account"
        constraints = [models.UniqueConstraint(fields=["channel", "external_id"], name="a_chat_account_is_one_person")]

    def __str__(self) -> str:
        return f"{self.name or self.external_id} in {self.channel}"


class LinkCode(models.Model):
    """What a person sends from another account to link it. One code a person; it counts once, and for minutes."""

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="chat_code")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the code.")
    expires_at = models.DateTimeField(help_text="Or when it was used.")
    account = models.ForeignKey(
        ChatAccount, null=True, on_delete=models.CASCADE, related_name="+", help_text="What it linked."
    )

    def __str__(self) -> str:
        return f"of {self.user}"


class ChatThread(models.Model):
    """A thread at the platform, and the session that it is."""

    channel = models.ForeignKey(ChatChannel, on_delete=models.CASCADE, related_name="threads")
    place = models.CharField(max_length=300)
    thread = models.CharField(max_length=LONGEST_THREAD, help_text="The platform's; of long ones, a digest.")
    long_thread = models.TextField(blank=True, help_text="The platform's, if it is that long.")
    server = models.CharField(max_length=300, blank=True, help_text="Of the platform, as it told last.")
    session = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="chat_threads")
    of_guests = models.BooleanField(default=False, help_text="Begun by somebody without an account.")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["channel", "place", "thread"], name="a_chat_thread_is_one_session")
        ]

    def __str__(self) -> str:
        return f"{self.place} {self.thread}"

    @property
    def external_id(self) -> str:
        """What the platform calls it."""
        return self.long_thread or self.thread


class ChatFeedQuerySet(RetriedQuerySet["ChatFeed"]):
    def unfinished(self) -> Self:
        return self.filter(is_on=True)


class ChatFeed(Retried):
    """What one worker at a time reads for a channel whose platform does not post everything, such as a mailbox."""

    channel = models.OneToOneField(ChatChannel, on_delete=models.CASCADE, related_name="feed")
    is_on = models.BooleanField(default=True)
    state = models.JSONField(default=dict, help_text="From where to go on; only the platform reads it.")

    objects = ChatFeedQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["next_try_at"], condition=Q(is_on=True), name="chat_feeds_to_read")]

    def __str__(self) -> str:
        return f"of {self.channel}"


class ChatEventQuerySet(RetriedQuerySet["ChatEvent"]):
    def unfinished(self) -> Self:
        return self.filter(done_at=None)


class ChatEvent(Retried):
    """Something that came in. Its row waits until it is done, and stays to recognize a repeat."""

    channel = models.ForeignKey(ChatChannel, on_delete=models.CASCADE, related_name="events")
    event_id = models.CharField(max_length=200, help_text="The platform's; of long ones, a digest.")
    body = models.JSONField(default=dict, help_text="A `platforms.Inbound`; empty once it is done.")
    problem = models.CharField(max_length=300, blank=True, help_text="Why it was given up, or is not done yet.")
    received_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True, blank=True)

    objects = ChatEventQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["channel", "event_id"], name="a_chat_event_comes_once")]
        indexes = [
            models.Index(fields=["next_try_at"], condition=Q(done_at=None), name="chat_events_that_wait"),
            models.Index(fields=["received_at"], name="chat_events_by_age"),
        ]

    def __str__(self) -> str:
        return self.event_id


class ChatAnswerQuerySet(RetriedQuerySet["ChatAnswer"]):
    def unfinished(self) -> Self:
        return self.filter(seen__lt=F("news"))


class ChatAnswer(Retried):
    """A task that a thread began, or a direct answer, and how much of it was posted."""

    thread = models.ForeignKey(ChatThread, on_delete=models.CASCADE, related_name="answers")
    session = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="chat_answers")
    # A plain id: a session in cold storage has no tasks.
    task = models.UUIDField(null=True, help_text="Null: the agent answered without a task.")
    first = models.PositiveBigIntegerField(help_text="The event of the question.")
    seen = models.PositiveBigIntegerField(help_text="Up to this event, all is posted.")
    news = models.PositiveBigIntegerField(help_text="Up to this event, there is something to post.")
    problem = models.CharField(max_length=300, blank=True, help_text="Why it was given up, or is not posted yet.")
    queued_at = models.DateTimeField(default=timezone.now, help_text="Since when it is tried.")

    objects = ChatAnswerQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "session", "first"], name="a_chat_answer_for_each_message"),
            models.UniqueConstraint(
                fields=["thread", "task"], condition=Q(task__isnull=False), name="a_chat_answer_for_each_task"
            ),
        ]
        indexes = [
            models.Index(fields=["task"], name="chat_answers_by_task"),
            models.Index(fields=["next_try_at"], condition=Q(seen__lt=F("news")), name="chat_answers_to_post"),
        ]

    def __str__(self) -> str:
        return f"{self.task or self.first}"

    @property
    def is_open_to_guests(self) -> bool:
        """Did guests begin its session? The thread may have gone on to theirs."""
        return self.thread.of_guests and self.session_id == self.thread.session_id

    def find_task(self) -> Task | None:
        return Task.objects.select_related("agent").filter(pk=self.task).first() if self.task else None


class ChatPost(models.Model):
    """A message of the agent at the platform. Its row is written before it is posted."""

    answer = models.ForeignKey(ChatAnswer, on_delete=models.CASCADE, related_name="posts")
    turn = models.PositiveBigIntegerField(help_text="The event after which the turn began.")
    name = models.CharField(max_length=100, help_text="What of the turn it is, such as text:0.")
    external_id = models.CharField(max_length=300, blank=True, db_index=True, help_text="The platform's id.")
    digest = models.CharField(max_length=64, blank=True, help_text="Of what it shows.")
    # Of a question
    task = models.UUIDField(null=True, help_text="The task that asks.")
    asked = models.PositiveBigIntegerField(default=0, help_text="The event that asked.")
    text = models.TextField(blank=True)
    choices = models.JSONField(default=list, help_text="What each button answers.")
    is_open = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["answer", "turn", "name"], name="a_chat_post_is_made_once")]

    def __str__(self) -> str:
        return self.name

    def find_asking(self) -> Task | None:
        """The task that asks, with its agent."""
        return Task.objects.select_related("agent").filter(pk=self.task).first() if self.task else None

    def choice(self, number: str) -> dict[str, Any] | None:
        """The answer of a button."""
        return self.choices[int(number)] if number in map(str, range(len(self.choices))) else None
