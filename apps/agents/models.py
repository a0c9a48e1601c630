"""The registry of agents: versions, stats, tool secrets and signing keys."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.models import User, Workspace, may_operate
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import EncryptedTextField
from apps.accounts.visibility import VisibleQuerySet
from apps.agents.rollouts import models as rollouts  # noqa: F401  # Django looks for models in this module
from apps.agents.validators import check_capabilities, check_extended_card, check_names
from apps.installation import current
from apps.installation.models import Activity

OFFERS_MODELS = "offersModels"
"""In an agent's capabilities, not on its card: people may choose the model of a conversation."""
USUAL_SECONDS = "usualSeconds"
TAKES_MEMORY = "takesMemory"
"""In an agent's capabilities: people may let it read their memory."""
STEERABLE = "steerable"
"""In an agent's capabilities: its turns read messages that come meanwhile, and can end after a step."""
MAX_FALLBACKS = 5  # of one agent
MAX_CATEGORY_LENGTH = 40  # characters
HOUSE_SLUGS = frozenset({"person"})
"""Slugs that only hosted agents may have, because people's answers go to them."""
DECIDED_APART = frozenset({"session_versions", "rollout", "withdrawn_versions"})
"""Fields of an agent that acts set (`apps.agents.rollouts`), and no form."""
DRAFT_PREFIX = "draft--"
"""Of the slugs of agents that hold what somebody tries before they save it."""
RESERVED_SLUGS = frozenset({"negotiation", "tasks", "v1", "extendedAgentCard", ".well-known"})


def refuse_reserved_slug(slug: str) -> None:
    if slug in RESERVED_SLUGS:
        raise ValidationError(f"A2A addresses use the name {slug!r}. Choose another.")


class AgentNotFound(NotFound):
    """There is no such agent, or you may not use it."""


class AgentQuerySet(VisibleQuerySet["Agent"]):
    key, not_found = "slug", AgentNotFound

    def enabled(self) -> AgentQuerySet:
        return self.filter(is_enabled=True)

    def visible_to(self, principal: Principal) -> AgentQuerySet:
        """Agents that `principal` may use."""
        allowed = models.Q(access=Agent.Access.PUBLIC)
        if principal.is_known:
            allowed |= models.Q(access=Agent.Access.AUTHENTICATED)
            allowed |= models.Q(access=Agent.Access.WORKSPACE, workspace=principal.workspace_id)
            own = {"owner": principal.user_id, "workspace": principal.workspace_id}
            allowed |= models.Q(access=Agent.Access.OWNER, **own)
            in_group = Group.objects.filter(agents=models.OuterRef("pk"), user=principal.user_id)
            allowed |= models.Q(models.Exists(in_group), access=Agent.Access.GROUPS)
        usable = self.enabled().filter(allowed)
        return usable if principal.agents is None else usable.filter(slug__in=principal.agents)

    def editable_by(self, user: User) -> AgentQuerySet:
        """Agents without code that the person may change in the app: operators all, makers their own, managers those
        that members of their workspace made.
        """
        here = user.principal
        made = self.filter(kind=Agent.Kind.MODEL).exclude(slug__startswith=DRAFT_PREFIX)
        if not here.can(Permission.BUILD):
            return made.none()
        if user.has_perm("agents.change_agent"):
            return made
        of_people = made.filter(workspace=here.workspace_id, owner__isnull=False)
        return of_people if here.can(Permission.SETTINGS) else of_people.filter(owner=user)

    def with_versions_for(self, principal: Principal) -> AgentQuerySet:
        """Agents whose versions the caller may see: operators all, who builds in a workspace those there."""
        if may_operate(principal, SEE_VERSIONS):
            return self if principal.agents is None else self.filter(slug__in=principal.agents)
        if not principal.can(Permission.BUILD):
            return self.none()
        return self.visible_to(principal).filter(workspace=principal.workspace_id)

    def listed(self) -> AgentQuerySet:
        """Agents that people and the router choose from. Others are called by their slug."""
        return self.filter(listed=True)

    def with_open_card(self) -> AgentQuerySet:
        """Agents whose card everybody may see, not only groups or a workspace."""
        return self.enabled().exclude(access__in=CLOSED)


def text_modes() -> list[str]:
    return ["text/plain"]


SLUG_VALIDATORS: list[Callable[[Any], None]] = [
    RegexValidator(r"^[a-z0-9][a-z0-9-]*\Z", "Use lower-case letters, digits and hyphens."),
    refuse_reserved_slug,
]
DEPLOYMENT = "deployment"
SEE_VERSIONS = "agents.view_agentversion"
"""In the content of a version whose agent has a folder: the folder's digest."""


class Agent(models.Model):
    """An agent: its card, how it runs, and who may use it."""

    class Kind(models.TextChoices):
        HOSTED = "hosted"
        REMOTE = "remote"
        MODEL = "model", "Without code"
        PLAN = "plan", "Plan"

    class Access(models.TextChoices):
        PUBLIC = "public", "everybody, without signing in"
        AUTHENTICATED = "authenticated", "everybody who is signed in or has a key"
        GROUPS = "groups", "members of chosen groups"
        WORKSPACE = "workspace", "members of its workspace"
        OWNER = "owner", "only who made it"

    class OnBusy(models.TextChoices):
        ENQUEUE = "enqueue", "run the message after the current turn"
        REJECT = "reject", "refuse the message"
        INTERRUPT = "interrupt", "stop the current turn and run the message"

    class McpTools(models.TextChoices):
        OFF = "off", "no tool"
        AGENT = "agent", "one tool"
        SKILLS = "skills", "a tool for each skill"

    class SessionVersions(models.TextChoices):
        NEWEST = "newest", "move to the newest version"
        KEPT = "kept", "continue on the version that began them"

    class Health(models.TextChoices):
        OK = "ok", "Healthy"
        DEGRADED = "degraded", "Degraded"
        UNAVAILABLE = "unavailable", "Unavailable"

    slug = models.CharField(
        max_length=63,
        unique=True,
        validators=SLUG_VALIDATORS,
    )
    name = models.CharField(max_length=120)
    description = models.TextField()
    version = models.CharField(max_length=40, default="1.0.0")
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.HOSTED)
    listed = models.BooleanField(
        default=True, help_text="Show it where people choose an agent. If off, only other agents and plans use it."
    )
    mcp_tools = models.CharField(
        "MCP tools",
        max_length=10,
        choices=McpTools,
        default=McpTools.OFF,
        help_text="What MCP clients of those who may use it are offered at /mcp.",
    )
    category = models.CharField(
        max_length=MAX_CATEGORY_LENGTH,
        blank=True,
        help_text="The heading in lists, such as Writing.",
    )
    pinned = models.PositiveSmallIntegerField(
        "position",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Agents with a position come first, 1 before 2. Leave it empty to sort the agent by its use.",
    )
    handler = models.CharField(
        max_length=250, blank=True, help_text="The Python class of a hosted agent: package.module:Name."
    )
    skills = models.JSONField(default=list, blank=True, help_text="A2A skills: id, name, description, tags.")
    input_modes = models.JSONField(default=text_modes, help_text="Media types that the agent accepts.")
    output_modes = models.JSONField(default=text_modes, help_text="Media types that the agent produces.")
    capabilities = models.JSONField(
        default=dict, blank=True, validators=[check_capabilities], help_text='A2A capabilities: {"streaming": true}.'
    )
    extended_card = models.JSONField(
        default=dict,
        blank=True,
        validators=[check_extended_card],
        help_text="Details for callers with an API key, as JSON: skills, description, documentationUrl.",
    )
    access = models.CharField(max_length=20, choices=Access, default=Access.AUTHENTICATED)
    groups = models.ManyToManyField(Group, blank=True, related_name="agents")
    on_busy = models.CharField(max_length=10, choices=OnBusy, default=OnBusy.ENQUEUE)
    time_limit = models.FloatField(
        null=True,
        blank=True,
        default=600.0,
        validators=[MinValueValidator(0.1)],
        help_text="The longest time for one turn, in seconds. Empty: no limit, as for new remote agents.",
    )
    attempts = models.PositiveSmallIntegerField(
        default=3, validators=[MinValueValidator(1)], help_text="How many times a turn may start after crashes."
    )
    retry_safe = models.BooleanField(default=False, help_text="Run a turn again after a crash.")
    keep_thoughts = models.BooleanField(default=False, help_text="Record the agent's thoughts.")
    sign_artifacts = models.BooleanField(default=False, help_text="Sign the files that the agent produces.")
    card_for_old_clients = models.BooleanField(
        default=False, help_text="Clients of A2A 0.3 can read the card at agent-card.json, too."
    )
    cost = models.FloatField(
        default=0.0,
        validators=[MinValueValidator(0.0)],
        help_text="The cost of a task, in this installation's currency. 0 if it is free.",
    )
    tools = models.JSONField(
        default=list, blank=True, validators=[check_names], help_text="Names of the tools that the agent uses."
    )
    fallbacks = models.JSONField(
        default=list,
        blank=True,
        help_text="Slugs of agents that take over when this one cannot be reached, in order.",
    )
    retention_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Delete sessions with this agent after so many days without activity. Leave it empty to keep them. A"
        " shorter time of the session's workspace wins.",
    )
    health = models.CharField(max_length=12, choices=Health, default=Health.OK, editable=False)
    ailment = models.TextField(blank=True, editable=False, help_text="Why it is not healthy, for operators.")
    is_enabled = models.BooleanField("enabled", default=True)
    activity = models.CharField(
        max_length=10,
        choices=Activity,
        default=Activity.ACTIVE,
        editable=False,
        help_text="Paused: messages wait. Draining: new tasks are refused.",
    )
    alone_until = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Until then each turn has a process of its own, because one ended with a turn of this agent.",
    )
    current_version = models.ForeignKey(
        "AgentVersion", null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    session_versions = models.CharField(
        "sessions",
        max_length=6,
        choices=SessionVersions,
        default=SessionVersions.NEWEST,
        db_default=SessionVersions.NEWEST,
        editable=False,
        help_text="What sessions do when there is a new version.",
    )
    rollout = models.ForeignKey(
        "Rollout",
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        editable=False,
        help_text="The rollout that is under way.",
    )
    withdrawn_versions = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        editable=False,
        help_text="Numbers of versions that no session continues on.",
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="agents")
    owner = models.ForeignKey(
        User,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        editable=False,
        help_text="Who made it in the app.",
    )
    picture = models.CharField(
        max_length=16, default="", db_default="", editable=False, help_text="The start of its picture's SHA-256."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=~models.Q(kind="hosted") | ~models.Q(handler=""),
                name="hosted_agent_has_a_handler",
                violation_error_message="A hosted agent needs a handler (dotted.path:Name).",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, **options: Any) -> None:
        """What is decided apart from the agent's own fields stays as it is in the database."""
        if not self._state.adding and options.get("update_fields") is None:
            fields = (field for field in self._meta.concrete_fields if not field.primary_key)
            options["update_fields"] = [one.name for one in fields if one.name not in DECIDED_APART]
        super().save(**options)

    def clean(self) -> None:
        """Raises ValidationError for an invalid fallback, slug or access."""
        if problem := self._fallback_problem():
            raise ValidationError({"fallbacks": problem})
        if self.slug in HOUSE_SLUGS and self.kind != Agent.Kind.HOSTED:
            raise ValidationError({"slug": f"The platform uses the slug {self.slug}. Choose another."})
        if self.access == Agent.Access.WORKSPACE and self.workspace_id and self.workspace.is_house:
            raise ValidationError({"access": "The installation's own workspace has no members. Choose another."})
        if self.access == Agent.Access.OWNER and self.owner_id is None:
            raise ValidationError({"access": "Nobody made this agent in the app. Choose another."})

    def _fallback_problem(self) -> str:
        """Why the fallbacks are invalid; "" if they are valid."""
        slugs: Any = self.fallbacks
        if not isinstance(slugs, list) or not all(isinstance(slug, str) and slug for slug in slugs):
            return 'Write a list of slugs, such as ["report"].'
        if len(slugs) > MAX_FALLBACKS or len(set(slugs)) < len(slugs):
            return f"Name at most {MAX_FALLBACKS} agents, each once."
        if self.slug in slugs:
            return "An agent cannot be its own fallback."
        existing = set(Agent.objects.filter(slug__in=slugs).values_list("slug", flat=True)) if slugs else set()
        missing = [slug for slug in slugs if slug not in existing]
        return f"There is no agent {', '.join(missing)}. Register it first." if missing else ""

    @property
    def streams(self) -> bool:
        return bool(self.capabilities.get("streaming", True))

    @property
    def offers_models(self) -> bool:
        """Whether people may choose the language model of a conversation."""
        return self.kind == Agent.Kind.MODEL or bool(self.capabilities.get(OFFERS_MODELS))

    @property
    def usual_seconds(self) -> float | None:
        """How long a turn usually takes, as the agent declares it; None if it does not say."""
        declared = self.capabilities.get(USUAL_SECONDS)
        return declared if isinstance(declared, int | float) and declared > 0 else None

    @property
    def folder(self) -> str:
        """The digest of its folder, if its code runs here in a process of its own; or "". Loads `current_version`."""
        return self.current_version.folder if self.kind == Agent.Kind.REMOTE and self.current_version else ""

    @property
    def nature(self) -> str:
        """What people call it: a kind, or that it has a process of its own. See `NATURES`."""
        return PROCESS if self.folder else self.kind

    @property
    def is_steerable(self) -> bool:
        """Whether a turn of it reads messages that come meanwhile, and can end after a step."""
        return self.kind == Agent.Kind.MODEL or bool(self.capabilities.get(STEERABLE))

    @property
    def reads_while_it_works(self) -> bool:
        """Whether a message to its task at work neither interrupts the turn nor is refused, and may be read in it."""
        return self.is_steerable and self.on_busy == Agent.OnBusy.ENQUEUE

    @property
    def is_public(self) -> bool:
        return self.access == Agent.Access.PUBLIC

    @property
    def has_open_card(self) -> bool:
        """The rule of `with_open_card`, for an enabled agent."""
        return self.access not in CLOSED

    @property
    def calls_webhooks(self) -> bool:
        return bool(self.capabilities.get("pushNotifications", self.kind != Agent.Kind.REMOTE))

    @property
    def has_extended_card(self) -> bool:
        """Whether the card declares an extended one; by default, if there is one."""
        return bool(self.capabilities.get("extendedAgentCard", self.extended_card))

    @property
    def is_available(self) -> bool:
        return self.health != Agent.Health.UNAVAILABLE and self.activity == Activity.ACTIVE

    @property
    def current_activity(self) -> Activity:
        """Its own or the whole installation's, at most a second old."""
        both = (self.activity, current.snapshot().activity)
        return next((one for one in (Activity.PAUSED, Activity.DRAINING) if one in both), Activity.ACTIVE)

    def is_open_to(self, principal: Principal) -> bool:
        """The rule of `visible_to`; only groups need a query."""
        if not principal.may_use(self.slug):
            return False
        match self.access:
            case Agent.Access.PUBLIC:
                return self.is_enabled
            case Agent.Access.AUTHENTICATED:
                return self.is_enabled and principal.is_known
            case Agent.Access.WORKSPACE:
                return self.is_enabled and principal.is_known and principal.workspace_id == self.workspace_id
            case Agent.Access.OWNER:
                return self.is_enabled and principal.owns(self.owner_id, self.workspace_id) and principal.is_known
            case _:
                return Agent.objects.visible_to(principal).filter(pk=self.pk).exists()

    def takes(self, media_type: str) -> bool:
        """Whether the agent or a skill accepts this media type; `text/*` is allowed."""
        family = media_type.partition("/")[0]
        modes = {*self.input_modes, *(mode for skill in self.skills for mode in skill.get("inputModes", []))}
        return not modes.isdisjoint((media_type, f"{family}/*", "*/*"))

    def refused_part(self, parts: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
        """The first of these A2A parts whose stated media type the agent does not take."""
        stated = ((part, part.get("mediaType", "").partition(";")[0].strip().lower()) for part in parts)
        return next((part for part, media_type in stated if media_type and not self.takes(media_type)), None)

    def makes_any_of(self, accepted: Iterable[str]) -> bool:
        """Whether the agent or a skill has one of these output modes; both sides may say `text/*`."""
        modes = {*self.output_modes, *(mode for skill in self.skills for mode in skill.get("outputModes", []))}
        return any(_overlap(one, mode) for one in accepted for mode in modes)


CLOSED = (Agent.Access.GROUPS, Agent.Access.WORKSPACE, Agent.Access.OWNER)
OF_MEMBERS = (Agent.Access.WORKSPACE, Agent.Access.OWNER)
"""Nobody may use such an agent whose workspace has no members any more."""


def _overlap(one: str, other: str) -> bool:
    """Whether two media ranges share a type."""
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return all(a == b or "*" in (a, b) for a, b in pairs)


class AgentPicture(models.Model):
    """The picture of an agent: a small PNG that Parley drew itself from what was uploaded."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="drawn")
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"picture of {self.agent_id}"


PROCESS = "process"
NATURES = {
    str(Agent.Kind.HOSTED): "Hosted here",
    PROCESS: "Own process",
    str(Agent.Kind.REMOTE): "Remote agent",
    str(Agent.Kind.MODEL): "Language model",
    str(Agent.Kind.PLAN): "Plan",
}
"""What each agent is, in plain words, by `Agent.nature`."""


class AgentVersionQuerySet(VisibleQuerySet["AgentVersion"]):
    key = "number"

    def visible_to(self, principal: Principal) -> AgentVersionQuerySet:
        return self.filter(agent__in=Agent.objects.with_versions_for(principal))


class AgentVersion(models.Model):
    """An immutable version of an agent."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(help_text="Counts from 1, for each agent.")
    content = models.JSONField(help_text="See `apps.agents.versions`.")
    sha256 = models.CharField("SHA-256", max_length=64, help_text="Of the content's canonical form (RFC 8785).")
    author = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    note = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = AgentVersionQuerySet.as_manager()

    class Meta:
        ordering = ["agent", "-number"]
        verbose_name = "version"
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="one_version_of_each_number")]

    def __str__(self) -> str:
        return f"{self.agent}, version {self.number}"

    @property
    def folder(self) -> str:
        """The digest of the agent's folder; "" if it has none."""
        return str(self.content.get(DEPLOYMENT, ""))

    @property
    def reference(self) -> dict[str, Any]:
        """The reference that runs store."""
        return {"version": str(self.pk), "number": self.number, "sha256": self.sha256}

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError("A version is never changed: make a new one.")
        super().save(*args, **kwargs)


class ToolSecret(models.Model):
    """An agent's credential for a tool server (MCP), sent only to its URL."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tool_secrets")
    url = models.CharField(max_length=2000)
    secret = EncryptedTextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "url"], name="one_secret_of_an_agent_per_url")]

    def __str__(self) -> str:
        return self.url


class SigningKeyQuerySet(models.QuerySet["SigningKey"]):
    def of(self, agent: Agent | None) -> SigningKeyQuerySet:
        """Keys of an agent, or with None of the platform."""
        return self.filter(agent=agent)

    def trusted(self) -> SigningKeyQuerySet:
        """Not revoked."""
        return self.filter(revoked_at=None)

    def current(self) -> SigningKeyQuerySet:
        """Keys that sign: at most one for each agent."""
        return self.filter(retired_at=None, revoked_at=None)


class SigningKey(models.Model):
    """A key of an agent or the platform. It signs until it is retired and is trusted until it is revoked."""

    class Algorithm(models.TextChoices):
        EDDSA = "EdDSA", "Ed25519 (EdDSA)"
        ES256 = "ES256", "ECDSA on P-256 (ES256)"

    kid = models.CharField(
        "key id", max_length=43, unique=True, editable=False, help_text="SHA-256 thumbprint of the public key."
    )
    algorithm = models.CharField(max_length=10, choices=Algorithm, default=Algorithm.EDDSA, editable=False)
    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="signing_keys",
        editable=False,
        help_text="Empty for the platform's own key.",
    )
    public = models.JSONField("public key", editable=False, help_text="As a JSON Web Key.")
    private = EncryptedTextField(blank=True, help_text="The JSON Web Key; erased when the key stops signing.")
    endorsement = models.TextField(
        blank=True, editable=False, help_text="The signature of the key before on this one, for those who trust that."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = SigningKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                Coalesce("agent", 0),
                condition=models.Q(retired_at=None, revoked_at=None),
                name="one_key_signs_at_a_time",
            )
        ]

    def __str__(self) -> str:
        return self.kid

    @property
    def is_current(self) -> bool:
        """Whether it signs."""
        return self.retired_at is None and self.revoked_at is None

    @property
    def owner_name(self) -> str:
        return self.agent.name if self.agent else "the platform"

    @property
    def published(self) -> dict[str, str]:
        """The public key in a JSON Web Key Set (RFC 7517)."""
        return {**self.public, "kid": self.kid, "alg": self.algorithm, "use": "sig"}


class ToolPolicy(models.Model):
    """What happens when an agent's language model calls a tool (see `apps.agents.tool_policies`)."""

    class Policy(models.TextChoices):
        RUN = "run", "run it"
        ASK = "ask", "ask a person"
        ASK_EACH = "ask_each", "ask a person each time"
        ASK_TWO = "ask_two", "ask two people"
        NEVER = "never", "never run it"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tool_policies")
    tool = models.CharField(
        max_length=100,
        validators=[RegexValidator(r"^[\w.:*?-]+\Z", "Write a tool's name, or a pattern such as mcp:* or send_*.")],
        help_text="A name, or a pattern with * and ?. Tools are named function:NAME, agent:ask_SLUG and mcp:NAME; "
        "without the kind, all kinds are meant. The most exact one counts.",
    )
    policy = models.CharField(max_length=10, choices=Policy, default=Policy.ASK)

    class Meta:
        verbose_name_plural = "tool policies"
        constraints = [models.UniqueConstraint(fields=["agent", "tool"], name="a_tool_has_one_policy")]

    def __str__(self) -> str:
        return f"{self.tool}: {self.get_policy_display()}"


class AgentStats(models.Model):
    """Measurements of an agent. Times are in seconds; None means not measured.

    "Recent" runs are the newest `monitoring.MEASURED_RUNS` that nobody stopped.
    """

    agent = models.OneToOneField("agents.Agent", on_delete=models.CASCADE, primary_key=True, related_name="stats")
    runs = models.PositiveIntegerField(default=0, help_text="Recent runs.")
    succeeded = models.PositiveIntegerField(default=0, help_text="Recent runs that did not fail.")
    newest_runs = models.PositiveSmallIntegerField(default=0, help_text="The newest of them, which decide the health.")
    newest_succeeded = models.PositiveSmallIntegerField(default=0)
    took_p50 = models.FloatField(null=True, help_text="Seconds from start to end of recent turns that succeeded.")
    took_p95 = models.FloatField(null=True)
    waited_p50 = models.FloatField(null=True, help_text="Seconds from the message to the start of the same turns.")
    waited_p95 = models.FloatField(null=True)
    input_tokens = models.PositiveBigIntegerField(default=0, help_text="Of language models, in recent runs.")
    output_tokens = models.PositiveBigIntegerField(default=0)
    queued = models.PositiveIntegerField(default=0, help_text="Turns that were waiting.")
    running = models.PositiveIntegerField(default=0)
    tasks = models.PositiveBigIntegerField(default=0, help_text="Answers that were a task.")
    messages = models.PositiveBigIntegerField(default=0, help_text="Answers that were a message.")
    tasks_of_a_day = models.PositiveIntegerField(default=0, help_text="In the last 24 hours.")
    messages_of_a_day = models.PositiveIntegerField(default=0)
    # Counts up to a time before every open transaction. They are final.
    counted_to = models.DateTimeField(null=True)
    tasks_counted = models.PositiveBigIntegerField(default=0)
    messages_counted = models.PositiveBigIntegerField(default=0)
    ratings = models.PositiveIntegerField(default=0, help_text="Rated tasks.")
    mean_rating = models.FloatField(null=True, help_text="From 1 to 5. The newest rating of each task counts.")
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "agent stats"

    def __str__(self) -> str:
        return f"stats of {self.agent_id}"

    @property
    def success_rate(self) -> float | None:
        return self.succeeded / self.runs if self.runs else None

    @property
    def latency_ms(self) -> int | None:
        return caller_latency_ms(self.took_p50, self.waited_p50)


def caller_latency_ms(took: float | None, waited: float | None) -> int | None:
    """A caller's wait for a turn; the arguments are in seconds."""
    return None if took is None else round(1000 * (took + (waited or 0.0)))


def in_words(seconds: float) -> str:
    """About how long something takes, for people."""
    if seconds < 0.5:
        return "less than a second"
    if seconds < 90:
        whole = round(seconds) or 1
        return "about a second" if whole == 1 else f"about {whole} seconds"
    minutes = round(seconds / 60)
    if minutes < 90:
        return "about a minute" if minutes == 1 else f"about {minutes} minutes"
    hours = round(minutes / 60)
    return f"about {hours} hours" if hours < 48 else f"about {round(hours / 24)} days"
