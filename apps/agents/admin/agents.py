"""Admin pages of agents, their measurements and signing keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from apps.agents import search, versions
from apps.agents.admin.forms import STATED_FIELDS, AgentForm, DefinitionForm, PoliciesForm, ToolPoliciesForm
from apps.agents.identities.signing import SIGNING_KEYS
from apps.agents.models import NATURES, Agent, AgentStats, AgentVersion, SigningKey
from apps.agents.registration import AGENTS, DISABLE, ENABLE, RELOAD
from apps.agents.rollouts.releasing import KEEP_VERSIONS, USE_NEWEST
from apps.engine import activity
from apps.health import monitoring
from apps.installation.models import Activity
from apps.limits.admin import limits_cell
from apps.limits.models import Whose
from apps.operators import columns
from apps.operators.actions import ActingAdmin, may_view
from apps.record.execution import Run
from apps.record.models import Feedback, Task
from apps.remote.health_checks import CHECK
from apps.routing.ranking import queue_depths
from parley.faces import cells, charts
from parley.faces.admin import MenuItem, ReadOnlyAdmin, column, id_cell, page_button, related_cell, time_cell
from parley.faces.cells import Tone

MOST_CHOICES = 100  # offered; the URL can name others

CARD_FIELDS = ("pk", "category", "skills", "input_modes", "output_modes")


class CardFilter(admin.SimpleListFilter):
    """By content of cards. All filters of a page share one query."""

    @staticmethod
    def offered(agents: Iterable[Agent], /) -> list[str]:
        raise NotImplementedError

    @staticmethod
    def fits(agent: Agent, chosen: str, /) -> bool:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.offered(_agents_by_card(request))[:MOST_CHOICES]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Agent]) -> QuerySet[Agent]:
        if not (chosen := self.value()):
            return queryset
        return queryset.filter(pk__in=[agent.pk for agent in _agents_by_card(request) if self.fits(agent, chosen)])


def _agents_by_card(request: Any) -> list[Agent]:
    """Once per request."""
    if not hasattr(request, "agents_by_card"):
        request.agents_by_card = list(Agent.objects.only(*CARD_FIELDS))
    agents: list[Agent] = request.agents_by_card
    return agents


def _card_filter(name: str, title: str, offered: Any, fits: Any) -> type[CardFilter]:
    said = {"title": title, "parameter_name": name, "offered": staticmethod(offered), "fits": staticmethod(fits)}
    return type(f"{name.capitalize()}Filter", (CardFilter,), said)


CARD_FILTERS = (
    _card_filter("category", "category", search.categories_of, lambda agent, chosen: agent.category == chosen),
    _card_filter("skill", "skill", search.skills_of, search.has_skill),
    _card_filter("tag", "tag", search.tags_of, search.has_tag),
    _card_filter("mode", "media type", search.modes_of, search.has_mode),
)
HEALTH_TONES = {
    Agent.Health.OK: Tone.DONE,
    Agent.Health.DEGRADED: Tone.WAITING,
    Agent.Health.UNAVAILABLE: Tone.FAILED,
}


def health_state(agent: Agent) -> SafeString:
    state = cells.state(agent.get_health_display(), HEALTH_TONES[Agent.Health(agent.health)])
    return format_html('<span title="{}">{}</span>', agent.ailment, state) if agent.ailment else state


condition = column("health", health_state, "health")
SHORT_ACCESS = {
    Agent.Access.PUBLIC: "everyone",
    Agent.Access.AUTHENTICATED: "signed in",
    Agent.Access.GROUPS: "groups",
    Agent.Access.WORKSPACE: "workspace",
    Agent.Access.OWNER: "maker",
}
nature = column("kind", lambda agent: NATURES[agent.nature], "kind")
short_access = column("access", lambda agent: SHORT_ACCESS[Agent.Access(agent.access)], "access")
current_version = related_cell("current_version", "version", text="number")
updated = time_cell("updated_at")
RECORD = (
    "address",
    current_version,
    "session_versions",
    "work",
    limits_cell(Whose.AGENT),
    time_cell("created_at"),
    updated,
)
FIELDSETS: dict[str | None, tuple[Any, ...]] = {
    None: ("name", "slug", "is_enabled", "kind", "handler", "description", "workspace", "opened"),
    "Instructions and model": ("instructions", "model", "temperature", "max_tokens", "max_steps", "streaming"),
    "Tools": ("tools", "agents", "mcp_servers", "tool_policies"),
    "Agent card": ("version", "skills", "input_modes", "output_modes", "capabilities", "extended_card"),
    "Who may use it": ("access", "groups"),
    "In lists": ("listed", "category", "pinned", "mcp_tools"),
    "Negotiation": ("cost",),
    "Execution": (
        "on_busy", "time_limit", "attempts", "retry_safe", "fallbacks", "keep_thoughts", "sign_artifacts",
        "card_for_old_clients", "retention_days",
    ),
    "This version": ("note",),
    "Record": RECORD,
}  # fmt: skip
OF_CODE = frozenset({"kind", "handler", "capabilities", "extended_card"})
OF_DEFINITIONS = frozenset({"opened", *FIELDSETS["Instructions and model"], "agents", "mcp_servers", "note"})
MISSING: dict[type[PoliciesForm], frozenset[str]] = {
    AgentForm: OF_DEFINITIONS,
    DefinitionForm: OF_CODE | {"version", "output_modes"},
    PoliciesForm: OF_DEFINITIONS | OF_CODE | {"tool_policies"},
}
"""What each form has not."""


NEWEST_RUNS = 50  # in the pictures and their table
NEWEST_COMMENTS = 5
ENDED = (Run.State.DONE, Run.State.FAILED, Run.State.CANCELED)


@admin.register(Agent)
class AgentAdmin(ActingAdmin):
    """Each kind of agent has its own form."""

    menu = MenuItem("Registry", 1, "smart_toy")
    change_form_outer_before_template = "admin/agents/measured.html"
    list_display = (
        "name", "address", "state", condition, nature, "category", "listed", short_access, "version", "work", updated,
    )  # fmt: skip
    list_filter = (
        "kind", "health", "activity", "listed", *CARD_FILTERS, "access", "is_enabled", "groups",
    )  # fmt: skip
    select_related = ("current_version",)
    search_fields = ("slug", "name", "description", "handler")
    ordering = ("name",)
    resource = AGENTS
    acts = (activity.PAUSE, activity.DRAIN, activity.RESUME, CHECK, RELOAD, ENABLE, DISABLE, KEEP_VERSIONS, USE_NEWEST)
    filter_horizontal = ("groups",)
    actions_list = ("add_without_code", "add_remote")
    actions_detail = ("try_it", "analytics", "plan", "card", "versions")
    try_it = page_button("Try it", "chat", "try-it", lambda agent: reverse("web:agent", args=[agent.slug]))
    analytics = page_button(
        "Analytics", "query_stats", "analytics", lambda agent: reverse("operators:agent-analytics", args=[agent.pk])
    )
    plan = page_button(
        "Steps", "account_tree", "plan", lambda agent: reverse("admin:plans_plan_change", args=[agent.pk])
    )
    card = page_button("Card", "badge", "card", lambda agent: reverse("admin:remote_remoteagent_of", args=[agent.pk]))
    versions = page_button(
        "Versions", "history", "versions", lambda agent: cells.list_url(AgentVersion, agent__id__exact=agent.pk)
    )
    readonly_fields = RECORD

    def get_fieldsets(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        missing: set[Any] = {*MISSING[self._form_of(request, obj)]}
        if obj is None:
            missing |= {*RECORD}
        elif not self.has_change_permission(request, obj):  # what only the form has cannot be shown
            missing |= {"tool_policies"}
        shown = {title: [name for name in names if name not in missing] for title, names in FIELDSETS.items()}
        folded = {"Execution"} if self._is_defined_here(request, obj) else set()
        return [
            (title, {"fields": names, "classes": ["collapse"] if title in folded else []})
            for title, names in shown.items()
            if names
        ]

    def get_form(self, request: HttpRequest, obj: Agent | None = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, **{"form": self._form_of(request, obj), **kwargs})

    def _form_of(self, request: HttpRequest, obj: Agent | None) -> type[PoliciesForm]:
        if self._is_defined_here(request, obj):
            return DefinitionForm
        return PoliciesForm if obj and obj.kind == Agent.Kind.REMOTE else AgentForm

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        """A remote agent's card is not edited here."""
        stated = STATED_FIELDS if obj and obj.kind == Agent.Kind.REMOTE else ()
        return (*super().get_readonly_fields(request, obj), *stated)

    def is_offered(self, action: str, row: Agent) -> bool:
        kinds = {"card": Agent.Kind.REMOTE, "plan": Agent.Kind.PLAN}
        return super().is_offered(action, row) and (action not in kinds or row.kind == kinds[action])

    def get_prepopulated_fields(self, request: HttpRequest, obj: Agent | None = None) -> dict[str, tuple[str, ...]]:
        return {"slug": ("name",)} if obj is None and self._is_defined_here(request, obj) else {}

    def _is_defined_here(self, request: HttpRequest, agent: Agent | None) -> bool:
        """Whether to use the form of agents without code; viewers get the general one."""
        if agent is None:
            return request.GET.get("kind") == Agent.Kind.MODEL
        return agent.kind == Agent.Kind.MODEL and self.has_change_permission(request, agent)

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        """Also updates the health."""
        if isinstance(form, DefinitionForm):
            form.save_definition(request.user)  # type: ignore[arg-type]
        else:
            super().save_model(request, obj, form, change)
            if isinstance(form, ToolPoliciesForm):
                form.save_tool_policies(request.user)  # type: ignore[arg-type]
            if obj.kind != Agent.Kind.REMOTE:
                versions.save_version(obj, versions.hosted_content(obj), author=request.user)  # type: ignore[arg-type]
        monitoring.record_health(obj, AgentStats.objects.filter(agent=obj).first())

    def page_context(self, request: HttpRequest, row: Agent) -> dict[str, Any]:
        runs = newest_runs(row) if may_view(request.user, Run) else []  # type: ignore[arg-type]
        context: dict[str, Any] = {"measured": measured_panel(row, facts_of(row), **_charts(runs))}
        if may_view(request.user, Feedback):  # type: ignore[arg-type]
            context["comments"] = _comments(row)
            context["all_feedback"] = cells.list_url(Feedback, task__agent__id__exact=row.pk)
        return context

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Versions are deleted with their agent only."""
        shown, counts, forbidden, protected = super().get_deleted_objects(objs, request)
        return shown, counts, forbidden - {AgentVersion._meta.verbose_name}, protected

    @action(description="Add an agent without code", permissions=["add"], icon="edit_note", url_path="without-code")
    def add_without_code(self, request: HttpRequest) -> HttpResponse:
        return redirect(f"{reverse('admin:agents_agent_add')}?kind={Agent.Kind.MODEL}")

    @action(description="Add a remote agent", permissions=["add"], icon="public", url_path="remote")
    def add_remote(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:remote_remoteagent_add")

    @display(description="address", ordering="slug")
    def address(self, agent: Agent) -> SafeString:
        return format_html("<code>/a2a/{}</code>", agent.slug) if agent.slug else cells.NOTHING

    @display(description="state", ordering="is_enabled")
    def state(self, agent: Agent) -> SafeString:
        if not agent.is_enabled:
            return cells.state("disabled", Tone.STOPPED)
        now = agent.current_activity
        return cells.state("enabled", Tone.DONE) if now == Activity.ACTIVE else cells.state(now.label, Tone.WAITING)

    @display(description="work")
    def work(self, agent: Agent) -> SafeString:
        """Without numbers: counting would read all of the agent's tasks."""
        kinds = (agent.tasks.model, agent.contexts.model) if agent.pk else ()
        shown = [
            cells.link(kind._meta.verbose_name_plural, cells.list_url(kind, agent__id__exact=agent.pk))
            for kind in kinds
        ]
        return SafeString(" · ".join(shown))


def measured_panel(agent: Agent, facts: list[tuple[str, Any]], **charts: Any) -> dict[str, Any]:
    """For `admin/agents/measured.html`. `charts`: figures with their captions, and the table below them."""
    return {
        "held": activity.sentence(agent),
        "health": health_state(agent),
        "ailment": agent.ailment,
        "facts": facts,
        **charts,
    }


def facts_of(agent: Agent) -> list[tuple[str, Any]]:
    """Measurements; the queue's length is current."""
    stats = AgentStats.objects.filter(agent=agent).first() or AgentStats(agent=agent)
    tokens = f"{stats.input_tokens:,} in, {stats.output_tokens:,} out" if stats.input_tokens else "–"
    rating = f"{stats.mean_rating:.1f} of 5, from {stats.ratings:,}" if stats.mean_rating is not None else "–"
    rate = f"{stats.success_rate:.0%} of {stats.runs:,}" if stats.success_rate is not None else "–"
    return [
        ("kind", NATURES[agent.nature]),
        ("now", f"{queue_depths().get(agent.pk, 0):,} turns waiting or running"),
        ("time of a turn", _range(stats.took_p50, stats.took_p95)),
        ("wait before a turn", _range(stats.waited_p50, stats.waited_p95)),
        ("successful turns", rate),
        ("answers that were tasks", f"{stats.tasks:,}, {stats.tasks_of_a_day:,} today"),
        ("answers that were messages", f"{stats.messages:,}, {stats.messages_of_a_day:,} today"),
        ("tokens", tokens),
        ("rating", rating),
        ("measured", cells.relative_time(stats.updated_at)),
    ]


def newest_runs(agent: Agent) -> list[Run]:
    """Ended runs, newest first. Uses the index of the agent's tasks."""
    runs = Prefetch("runs", queryset=Run.objects.filter(state__in=ENDED).defer("input", "memory"))
    tasks = Task.objects.filter(agent=agent).order_by("-created_at").only("pk", "created_at")[: 2 * NEWEST_RUNS]
    found = [run for task in tasks.prefetch_related(runs) for run in task.runs.all() if run.finished_at]
    return sorted(found, key=lambda run: run.finished_at, reverse=True)[:NEWEST_RUNS]  # type: ignore[arg-type,return-value]


def _charts(runs: list[Run]) -> dict[str, Any]:
    if not runs:
        return {}
    seconds = [took for run in reversed(runs) if (took := columns.seconds_taken(run)) is not None]
    counts = [(state, sum(run.state == state for run in runs)) for state in ENDED]
    told = ", ".join(f"{count} {state.label.lower()}" for state, count in counts)
    longest, newest = cells.duration(max(seconds, default=None)), cells.duration(seconds[-1] if seconds else None)
    line = f"The last {len(seconds)} turns, oldest first. The longest took {longest}, the last {newest}."
    rows = [
        (
            f"run-{run.pk}",
            (columns.id_(run), columns.run_state(run), columns.took(run), cells.relative_time(run.finished_at)),
        )
        for run in runs
    ]
    shares = [(state.label, count, columns.RUN_TONES[state]) for state, count in counts]
    told = f"The last {len(runs)} turns: {told}."
    return {
        "figures": [
            (charts.sparkline(seconds, "How long turns took", line), line),
            (charts.bar(shares, "How turns ended", told), told),
        ],
        "table": {"headings": ("run", "state", "took", "ended"), "rows": rows},
    }


def _range(median: float | None, most: float | None) -> str:
    if median is None:
        return "–"
    return f"{cells.duration(median)}, 95% within {cells.duration(most)}"


def _comments(agent: Agent) -> dict[str, Any]:
    given = Feedback.objects.filter(task__agent=agent).select_related("task").order_by("-pk")[:NEWEST_COMMENTS]
    rows = [
        (f"feedback-{one.pk}", (columns.rating(one), columns.comment(one), columns.task(one), columns.at(one)))
        for one in given
    ]
    return {"headings": ("rating", "comment", "task", "time"), "rows": rows} if rows else {}


@admin.register(SigningKey)
class SigningKeyAdmin(ActingAdmin, ReadOnlyAdmin):
    menu = MenuItem("Registry", 3, "vpn_key")
    resource = SIGNING_KEYS
    acts = SIGNING_KEYS.acts
    list_display = (
        id_cell("kid", "key id", ordering="kid", is_link=True),
        related_cell("agent", "signs for", ordering="agent__name", empty="the platform"),
        "state", "algorithm", "created_at", "retired_at", "revoked_at",
    )  # fmt: skip
    list_filter = ("algorithm", ("revoked_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter))
    search_fields = ("=kid", "agent__slug", "agent__name")
    search_help_text = "Key ID or agent name"
    select_related = ("agent",)
    deferred = ("private",)  # the page needs no decryption
    ordering = ("-created_at", "-pk")
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (*list_display, "public")

    @display(description="state")
    def state(self, key: SigningKey) -> SafeString:
        if key.revoked_at:
            return cells.state("revoked", Tone.FAILED)
        return cells.state("retired", Tone.STOPPED) if key.retired_at else cells.state("active", Tone.DONE)
