"""Remote agents: their cards, credentials and health, and work that may still run there."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterable
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from apps.accounts.models import User, Workspace
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.models import Agent, AgentVersion
from apps.record.models import UNFINISHED_STATES, Task
from parley.work import Retried, RetriedQuerySet

JITTER = (0.8, 1.2)  # of the time between refreshes


class SignatureStatus(models.TextChoices):
    """Of a card. A signature that proves nothing is worse than none: somebody may pretend to be the agent."""

    UNSIGNED = "unsigned", "unsigned"
    VERIFIED = "verified", "verified"
    UNVERIFIED = "unverified", "not trusted"


class RemoteAgentQuerySet(models.QuerySet["RemoteAgent"]):
    def due(self, at: datetime.datetime) -> RemoteAgentQuerySet:
        """Agents whose card must be refreshed, the longest overdue first."""
        return self.filter(refresh_at__lte=at, agent__is_enabled=True).exclude(card_url="").order_by("refresh_at")


class RemoteAgent(models.Model):
    """The additional data of a remote agent. Its approved card is the content of the agent's current version."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, related_name="remote")
    card_url = models.CharField("card URL", max_length=2048, blank=True, help_text="Empty: the card was pasted.")
    etag = models.CharField(max_length=200, blank=True, editable=False)
    last_modified = models.CharField(max_length=200, blank=True, editable=False)
    refreshed_at = models.DateTimeField(null=True, editable=False)
    refresh_at = models.DateTimeField(default=timezone.now, db_index=True, editable=False)
    card_error = models.TextField(blank=True, editable=False, help_text="Why the card could not be loaded again.")
    card_notes = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        editable=False,
        help_text="What was assumed or left out when the card was last read.",
    )
    spoken_version = models.CharField(
        max_length=10,
        blank=True,
        db_default="",
        editable=False,
        help_text="Of A2A, if it answers in another than its card says.",
    )
    origin = models.CharField(
        max_length=300, editable=False, help_text="Where it is called; credentials go nowhere else."
    )
    signature = models.CharField(
        max_length=10, choices=SignatureStatus, default=SignatureStatus.UNSIGNED, editable=False
    )
    pinned_keys = models.JSONField(default=list, blank=True, editable=False, help_text="JSON Web Keys, as first seen.")
    proposed = models.ForeignKey(
        AgentVersion,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
        help_text="What waits for an operator's approval.",
    )
    declined = models.ForeignKey(
        AgentVersion,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
        help_text="What an operator did not want; it is not proposed again.",
    )
    history_messages = models.PositiveSmallIntegerField(
        default=10, help_text="How many messages of a session the agent is sent that it does not know."
    )
    signs_requests = models.BooleanField(
        "sign requests", default=False, help_text="By the installation's key (RFC 9421)."
    )
    registered_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    peer = models.ForeignKey(
        "Peer",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="agents",
        editable=False,
        help_text="The paired installation whose agent it is.",
    )

    objects = RemoteAgentQuerySet.as_manager()

    class Meta:
        ordering = ["agent__name"]
        verbose_name = "remote agent"

    def __str__(self) -> str:
        return str(self.agent)

    @property
    def card(self) -> dict[str, Any]:
        version = self.agent.current_version
        return version.content["card"] if version else {}

    def note_fetched(self, etag: str, last_modified: str, notes: Iterable[str] | None = None) -> None:
        """Note that the card was fetched now, with `notes` unless it is unchanged; the caller saves."""
        self.etag, self.last_modified, self.card_error = etag, last_modified, ""
        self.card_notes = self.card_notes if notes is None else list(notes)
        self.refreshed_at = timezone.now()
        self.refresh_at = next_refresh()

    @property
    def has_proposal(self) -> bool:
        return self.proposed_id is not None


def next_refresh() -> datetime.datetime:
    seconds = settings.REMOTE_REFRESH_SECONDS * random.uniform(*JITTER)  # noqa: S311 nothing secret
    return timezone.now() + datetime.timedelta(seconds=seconds)


LONGEST_SCHEME_NAME = 200  # characters


class RemoteCredentialQuerySet(VisibleQuerySet["RemoteCredential"]):
    def of(self, agent: Agent | int, owner_id: int | None) -> RemoteCredentialQuerySet:
        """The shared credentials and the owner's own."""
        whose = models.Q(user=None) if owner_id is None else models.Q(user=None) | models.Q(user_id=owner_id)
        return self.filter(whose, agent=agent)

    def visible_to(self, principal: Principal) -> RemoteCredentialQuerySet:
        return self.filter(user_id=principal.user_id) if principal.user_id is not None else self.none()

    def untold(self) -> RemoteCredentialQuerySet:
        """Without loading the secrets."""
        return self.defer("secret", "token")


class RemoteCredential(models.Model):
    """A secret for a security scheme of a remote agent's card, sent only to the origin it was given for.

    The shared row (without a user) also says whether each person brings their own. Then its secret, if any, is only for
    health checks.
    """

    class Kind(models.TextChoices):
        API_KEY = "api_key", "API key"
        BEARER = "bearer", "access token"
        BASIC = "basic", "name and password"
        CLIENT_CREDENTIALS = "client", "OAuth2 client"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="remote_credentials")
    user = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="remote_credentials",
        help_text="Empty: for everybody who may use the agent.",
    )
    scheme = models.CharField(max_length=LONGEST_SCHEME_NAME, help_text="Its name in the card's securitySchemes.")
    is_personal = models.BooleanField("each person brings their own", default=False)
    kind = models.CharField(max_length=10, choices=Kind, blank=True)
    secret = EncryptedTextField(blank=True, help_text="JSON: the fields of the kind.")
    origin = models.CharField(max_length=300, blank=True, help_text="Where it is sent, and nowhere else.")
    issuer = models.CharField(max_length=300, blank=True, help_text="Where an OAuth2 client's secret is sent instead.")
    token = EncryptedTextField(blank=True, help_text="JSON: what the issuer gave last.")
    token_until = models.DateTimeField(null=True, blank=True, editable=False)
    given_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now, editable=False, help_text="When the secret was given.")
    last_used_at = models.DateTimeField("last used", null=True, blank=True, editable=False)
    expires_at = models.DateTimeField("expires", null=True, blank=True)

    objects = RemoteCredentialQuerySet.as_manager()

    class Meta:
        verbose_name = "credential of a remote agent"
        verbose_name_plural = "credentials of remote agents"
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "scheme"],
                condition=models.Q(user=None),
                name="one_remote_credential_of_everybody_per_scheme",
            ),
            models.UniqueConstraint(
                fields=["agent", "user", "scheme"],
                condition=models.Q(user__isnull=False),
                name="one_remote_credential_of_a_person_per_scheme",
            ),
            models.CheckConstraint(
                condition=models.Q(user=None) | models.Q(is_personal=False),
                name="the_row_of_everybody_says_who_brings_it",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scheme} for {self.agent_id}"

    @property
    def values(self) -> dict[str, str]:
        """The secret's fields, such as `key`; {} without a secret."""
        fields: dict[str, str] = json.loads(self.secret) if self.secret else {}
        return fields

    def is_expired(self, now: datetime.datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class OpenWorkQuerySet(RetriedQuerySet["OpenWork"]):
    def unfinished(self) -> OpenWorkQuerySet:
        return self.unwanted()

    def unwanted(self) -> OpenWorkQuerySet:
        """Work of tasks that have ended or were deleted here, and work that was given up."""
        goes_on = Exists(Task.objects.filter(pk=OuterRef("task"), state__in=UNFINISHED_STATES))
        return self.filter(Q(is_unwanted=True) | ~goes_on)


class OpenWork(Retried):
    """A remote task that may still be running. Execution state, not part of replay."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    # Not foreign keys: the row must outlive our task, so that the remote task can be canceled.
    task = models.UUIDField(help_text="The task here that it is for.")
    run = models.UUIDField()
    remote_task = models.TextField()
    machine = models.CharField(
        max_length=255,
        blank=True,
        default="",
        db_default="",
        help_text="The machine whose process has it. Empty: it can be called from all.",
    )
    is_unwanted = models.BooleanField("unwanted", default=False, help_text="Given up, though our task may go on.")
    began_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OpenWorkQuerySet] = OpenWorkQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "open work"
        indexes = [
            models.Index(fields=["task"], name="open_work_of_a_task"),
            models.Index(fields=["next_try_at"], name="open_work_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.task} at {self.agent}"


class AgentState(models.Model):
    """What a remote agent keeps of a task and its conversation (`docs/extensions/state-v1.md`). Not part of replay.

    Of a conversation, only the newest row has the agent's state.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    conversation = models.JSONField(null=True)
    kept = models.JSONField(null=True, help_text="Of the task, while it waits for an answer.")
    steps = models.JSONField(default=dict, help_text="What the newest turn did.")
    ended_turn = models.PositiveIntegerField(default=0, help_text="The turn after which the state is this one.")
    seen = models.TextField(blank=True, help_text="The id of that turn's message.")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "agent"], name="one_state_of_a_task")]

    def __str__(self) -> str:
        return f"state of {self.agent_id} in {self.task_id}"


RoundResult = int | None  # milliseconds; None if it failed


class Checkup(models.Model):
    """The health checks of an agent, and their newest results. The process that moves `next_check_at` has the round."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="checkup")
    probe = models.TextField(
        blank=True,
        help_text="A message that the agent is sent now and then, to see that it answers; empty: none. "
        "The agent may charge for each.",
    )
    next_check_at = models.DateTimeField(default=timezone.now, editable=False)
    next_probe_at = models.DateTimeField(default=timezone.now, editable=False)
    checked_at = models.DateTimeField(null=True, editable=False)
    newest: models.JSONField[list[RoundResult], list[RoundResult]] = models.JSONField(
        default=list, editable=False, help_text="Milliseconds of the newest rounds, the newest last; null: it failed."
    )
    answers = models.BooleanField(
        default=True, editable=False, help_text="Did it answer at all, the last time that a check failed?"
    )
    last_error = models.TextField(blank=True, editable=False)
    last_error_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = "checkup"
        indexes = [models.Index(fields=["next_check_at"], name="due_checkups")]

    def __str__(self) -> str:
        return f"checkup of {self.agent_id}"


class CheckQuerySet(models.QuerySet["Check"]):
    def of(self, agent: Agent) -> CheckQuerySet:
        return self.filter(agent=agent).order_by("-at")


class Check(models.Model):
    class Kind(models.TextChoices):
        CARD = "card", "fetched its card"
        ADDRESS = "address", "called its address"
        PROBE = "probe", "sent it a message"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="checks")
    at = models.DateTimeField()
    kind = models.CharField(max_length=10, choices=Kind)
    ok = models.BooleanField()
    milliseconds = models.PositiveIntegerField(help_text="Until it was answered, or given up.")
    error = models.TextField(blank=True)

    objects = CheckQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["agent", "-at"], name="checks_of_an_agent")]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%Y-%m-%d %H:%M:%S}"


class CheckedHour(models.Model):
    """The rounds of checks of an agent in one hour. Uptime is computed from these."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="checked_hours")
    hour = models.DateTimeField()
    rounds = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "hour"], name="an_hour_of_an_agent_is_one_row")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}:00"


class Breaker(models.Model):
    """The circuit breaker of an agent that failed."""

    class State(models.TextChoices):
        CLOSED = "closed", "closed: calls go through"
        OPEN = "open", "open: no call goes through"
        HALF_OPEN = "half-open", "half-open: one call may try"

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="breaker")
    failures = models.PositiveIntegerField(default=0, help_text="Calls in a row that failed.")
    failing_since = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(null=True)
    openings = models.PositiveIntegerField(default=0, help_text="How often it was opened with no success in between.")
    retry_at = models.DateTimeField(
        null=True, help_text="When the next call may try. Whoever moves it on is that call."
    )
    trial_at = models.DateTimeField(null=True, help_text="When the newest trial began.")
    error = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"breaker of {self.agent_id}"

    @property
    def state(self) -> State:
        if self.opened_at is None or self.retry_at is None:
            return Breaker.State.CLOSED
        is_closed_to_trials = timezone.now() < self.retry_at and self.trial_at is None
        return Breaker.State.OPEN if is_closed_to_trials else Breaker.State.HALF_OPEN


class PeerQuerySet(models.QuerySet["Peer"]):
    def paired(self) -> PeerQuerySet:
        return self.filter(state=Peer.State.PAIRED)


class Peer(models.Model):
    """Another installation that this one trusts by its identity (DID), or a code for one."""

    class State(models.TextChoices):
        INVITED = "invited", "Waits for the other side"
        PAIRED = "paired", "Paired"
        REVOKED = "revoked", "Revoked here"
        ENDED = "ended", "Revoked by the other side"

    name = models.CharField(max_length=120, blank=True)
    did = models.CharField("identity (DID)", max_length=1000, blank=True, editable=False)
    base_url = models.CharField("address", max_length=2000, blank=True, editable=False)
    keys = models.JSONField(default=list, editable=False, help_text="Its pinned public keys (JWK), each with its kid.")
    state = models.CharField(max_length=10, choices=State, default=State.INVITED, editable=False)
    passes_names = models.BooleanField(
        "tell it names", default=False, help_text="Tell it the names of the people who use its agents."
    )
    code = EncryptedTextField(blank=True, editable=False, help_text="The secret of an unused code.")
    code_until = models.DateTimeField("code expires", null=True, editable=False)
    salt = models.CharField(max_length=64, blank=True, editable=False, help_text="For pseudonyms of our people.")
    workspace = models.ForeignKey(Workspace, null=True, on_delete=models.PROTECT, related_name="+", editable=False)
    made_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    paired_at = models.DateTimeField("paired", null=True, editable=False)
    ended_at = models.DateTimeField("ended", null=True, editable=False)
    seen_at = models.DateTimeField("last seen", null=True, editable=False)
    error = models.TextField(blank=True, editable=False, help_text="Why it could not be reached the last time.")

    objects = PeerQuerySet.as_manager()

    class Meta:
        verbose_name = "paired installation"
        constraints = [
            models.UniqueConstraint(fields=["did"], condition=~models.Q(did=""), name="one_peer_of_each_identity")
        ]

    def __str__(self) -> str:
        return self.name or self.base_url or f"Code {self.pk}"

    @property
    def is_paired(self) -> bool:
        return self.state == Peer.State.PAIRED

    def key(self, kid: str) -> dict[str, Any] | None:
        return next((key for key in self.keys if key.get("kid") == kid), None)


class PeerUser(models.Model):
    """A person of a paired installation, by the pseudonym that it gives them, as a user here who cannot sign in."""

    peer = models.ForeignKey(Peer, on_delete=models.CASCADE, related_name="people")
    subject = models.CharField(max_length=64)
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="peer_user")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["peer", "subject"], name="one_user_of_each_peers_person")]

    def __str__(self) -> str:
        return f"{self.subject} of {self.peer_id}"


class SharedAgent(models.Model):
    """An agent of this installation that people of paired installations may use."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="shared_with_peers")
    shared_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name = "agent for paired installations"
        verbose_name_plural = "agents for paired installations"

    def __str__(self) -> str:
        return str(self.agent)
