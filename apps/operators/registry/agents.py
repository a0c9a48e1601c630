"""Admin pages of agents, their measurements and signing keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import display
from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action

from agentkit import HandlerError
from apps.agents import search, signing, versions
from apps.agents.models import Agent, AgentStats, AgentVersion, SigningKey
from apps.agents.registration import error_text, register_hosted
from apps.engine import activity
from apps.features.health import monitoring
from apps.features.routing.ranking import queue_depths
from apps.installation.models import Activity
from apps.limits.models import Whose
from apps.operators import columns
from apps.operators.access.limits import limits_cell
from apps.operators.actions import ActingAdmin, button, list_action
from apps.operators.panels import may_view
from apps.operators.registry import agent_actions, evaluations
from apps.operators.registry.agent_forms import (
    STATED_FIELDS,
    AgentForm,
    DefinitionForm,
    RemoteAgentForm,
    ToolPoliciesForm,
)
from apps.record.execution import Run
from apps.record.models import Feedback, Task
from console import cells, charts
from console.admin import (
    ReadOnlyAdmin,
    column,
    id_cell,
    json_cell,
    related_cell,
    time_cell,
)
from console.cells import Tone
from db.sql import write_transaction

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


class SkillFilter(CardFilter):
    title = "skill"
    parameter_name = "skill"
    offered = staticmethod(search.skills_of)
    fits = staticmethod(search.has_skill)


class TagFilter(CardFilter):
    title = "tag"
    parameter_name = "tag"
    offered = staticmethod(search.tags_of)
    fits = staticmethod(search.has_tag)


class ModeFilter(CardFilter):
    title = "media type"
    parameter_name = "mode"
    offered = staticmethod(search.modes_of)
    fits = staticmethod(search.has_mode)


class CategoryFilter(CardFilter):
    title = "category"
    parameter_name = "category"
    offered = staticmethod(search.categories_of)

    @staticmethod
    def fits(agent: Agent, chosen: str, /) -> bool:
        return agent.category == chosen


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
short_access = column("access", lambda agent: SHORT_ACCESS[Agent.Access(agent.access)], "access")
ACCESS_FIELDSET = ("Who may use it", {"fields": ("access", "groups")})
LIST_FIELDSET = ("In lists", {"fields": ("listed", "category", "pinned", "mcp_tools")})
NEGOTIATION_FIELDSET = ("Negotiation", {"fields": ("cost", "tools")})
TOOL_POLICIES_FIELDSET = ("Tool policies", {"fields": ("tool_policies",)})
POLICIES = (
    "on_busy",
    "time_limit",
    "attempts",
    "retry_safe",
    "fallbacks",
    "keep_thoughts",
    "sign_artifacts",
    "card_for_old_clients",
    "retention_days",
)
current_version = related_cell("current_version", "version", text="number")
created = time_cell("created_at")
updated = time_cell("updated_at")
limits = limits_cell(Whose.AGENT)
RECORD_FIELDSET = ("Record", {"fields": ("address", current_version, "work", limits, created, updated)})
DEFINITION_FIELDSETS = (
    (None, {"fields": ("name", "slug", "is_enabled", "description", "opened")}),
    (
        "Instructions and model",
        {"fields": ("instructions", "model", "temperature", "max_tokens", "max_steps", "streaming")},
    ),
    ("Tools", {"fields": ("tools", "agents", "mcp_servers", "tool_policies")}),
    ("Agent card", {"fields": ("skills", "input_modes")}),
    ACCESS_FIELDSET,
    LIST_FIELDSET,
    ("Negotiation", {"fields": ("cost",)}),
    ("Execution", {"fields": (*POLICIES, "workspace"), "classes": ("collapse",)}),
    ("This version", {"fields": ("note",)}),
)


REMOTE_FIELDSETS = (
    (None, {"fields": ("slug", "is_enabled", "workspace")}),
    ("Agent card (from the remote server)", {"fields": STATED_FIELDS}),
    ACCESS_FIELDSET,
    LIST_FIELDSET,
    NEGOTIATION_FIELDSET,
    ("Execution", {"fields": POLICIES}),
    RECORD_FIELDSET,
)


NEWEST_RUNS = 50  # in the pictures and their table
NEWEST_COMMENTS = 5
ENDED = (Run.State.DONE, Run.State.FAILED, Run.State.CANCELED)


@admin.register(Agent)
class AgentAdmin(ActingAdmin):
    """Each kind of agent has its own form."""

    form = AgentForm
    change_form_outer_before_template = "admin/agents/measured.html"
    list_display = (
        "name", "address", "state", condition, "kind", "category", "listed", short_access, "version", "work", updated,
    )  # fmt: skip
    list_filter = (
        "kind", "health", "activity", "listed", CategoryFilter, SkillFilter, TagFilter, ModeFilter, "access",
        "is_enabled", "groups",
    )  # fmt: skip
    search_fields = ("slug", "name", "description", "handler")
    ordering = ("name",)
    actions = (
        "pause_selected",
        "drain_selected",
        "resume_selected",
        "check_selected",
        "read_handler_again",
        "switch_on",
        "switch_off",
    )
    operate_permission = agent_actions.CHANGE_AGENT
    pause = button(agent_actions.PAUSE, url_path="pause", **agent_actions.BUTTONS["pause"])
    drain = button(agent_actions.DRAIN, url_path="drain", **agent_actions.BUTTONS["drain"])
    resume = button(agent_actions.RESUME, url_path="resume", **agent_actions.BUTTONS["resume"])
    check_health = button(agent_actions.CHECK, url_path="check-health", **agent_actions.BUTTONS["check_health"])
    pause_selected = list_action(agent_actions.PAUSE)
    drain_selected = list_action(agent_actions.DRAIN)
    resume_selected = list_action(agent_actions.RESUME)
    check_selected = list_action(agent_actions.CHECK)
    filter_horizontal = ("groups",)
    actions_list = ("add_without_code", "add_remote")
    actions_detail = (
        "try_it",
        "show_analytics",
        "show_plan",
        "show_card",
        "show_versions",
        "evaluate",
        "pause",
        "drain",
        "resume",
        "check_health",
    )
    readonly_fields = ("address", current_version, "work", limits, created, updated)
    add_fieldsets = (
        (None, {"fields": ("slug", "is_enabled", "kind", "handler", "workspace")}),
        (
            "Agent card",
            {"fields": ("name", "version", "description", "input_modes", "output_modes", "skills", "capabilities")},
        ),
        ("Extended card", {"fields": ("extended_card",)}),
        ACCESS_FIELDSET,
        LIST_FIELDSET,
        NEGOTIATION_FIELDSET,
        TOOL_POLICIES_FIELDSET,
        ("Execution", {"fields": POLICIES}),
    )
    fieldsets = (*add_fieldsets, RECORD_FIELDSET)

    def get_fieldsets(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        if obj and obj.kind == Agent.Kind.REMOTE:
            return REMOTE_FIELDSETS
        if not self._is_defined_here(request, obj):
            own = super().get_fieldsets(request, obj)
            if obj and not self.has_change_permission(request, obj):  # what only the form has cannot be shown
                return [one for one in own if one != TOOL_POLICIES_FIELDSET]
            return own
        return (*DEFINITION_FIELDSETS, RECORD_FIELDSET) if obj else DEFINITION_FIELDSETS

    def get_form(self, request: HttpRequest, obj: Agent | None = None, change: bool = False, **kwargs: Any) -> Any:
        if self._is_defined_here(request, obj):
            kwargs["form"] = DefinitionForm
        elif obj and obj.kind == Agent.Kind.REMOTE:
            kwargs["form"] = RemoteAgentForm
        return super().get_form(request, obj, change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        """A remote agent's card is not edited here."""
        stated = STATED_FIELDS if obj and obj.kind == Agent.Kind.REMOTE else ()
        return (*super().get_readonly_fields(request, obj), *stated)

    def is_offered(self, action: str, row: Agent) -> bool:
        kinds = {"card": Agent.Kind.REMOTE, "plan": Agent.Kind.PLAN}
        return agent_actions.is_offered(action, row.activity) and (action not in kinds or row.kind == kinds[action])

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
        context: dict[str, Any] = {
            "facts": facts_of(row),
            "health": health_state(row),
            "ailment": row.ailment,
            "held": activity.sentence(row),
        }
        if may_view(request.user, Run):  # type: ignore[arg-type]
            context |= _charts(newest_runs(row))
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

    @action(description="Card", permissions=["view"], icon="badge", url_path="card")
    def show_card(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:remote_remoteagent_of", self.get_or_404(request, object_id).pk)

    @action(description="Steps", permissions=["view"], icon="account_tree", url_path="plan")
    def show_plan(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:plans_plan_change", self.get_or_404(request, object_id).pk)

    @action(description="Try it", permissions=["view"], icon="chat", url_path="try-it")
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("web:agent", self.get_or_404(request, object_id).slug)

    @action(
        description="Evaluate",
        permissions=["evaluate"],
        icon="fact_check",
        dialog=evaluations.DIALOG,
        url_path="evaluate",
    )
    def evaluate(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        return evaluations.start_and_show(request, self.get_or_404(request, object_id))

    def has_evaluate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("evaluations.add_evaluation")

    @action(description="Analytics", permissions=["view"], icon="query_stats", url_path="analytics")
    def show_analytics(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("operators:agent-analytics", self.get_or_404(request, object_id).pk)

    @action(description="Versions", permissions=["view"], icon="history", url_path="versions")
    def show_versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(cells.list_url(AgentVersion, agent__id__exact=self.get_or_404(request, object_id).pk))

    @admin.action(description="Reload from the handler", permissions=["operate"])
    def read_handler_again(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        for agent in agents.filter(kind=Agent.Kind.HOSTED):
            try:
                with write_transaction():
                    known = register_hosted(agent.slug, agent.handler)
                    self.log_change(request, known, "Reloaded from the handler.")
            except HandlerError as error:
                messages.error(request, f"{agent.name} is unchanged. {error}")
            except ValidationError as error:
                messages.error(request, f"{agent.name} is unchanged. {error_text(error)}")
            else:
                messages.success(request, f"{known.name} was reloaded from its handler.")

    @admin.action(description="Enable", permissions=["operate"])
    def switch_on(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        self._switch(request, agents, on=True)

    @admin.action(description="Disable", permissions=["operate"])
    def switch_off(self, request: HttpRequest, agents: QuerySet[Agent]) -> None:
        self._switch(request, agents, on=False)

    def _switch(self, request: HttpRequest, agents: QuerySet[Agent], *, on: bool) -> None:
        word = "enabled" if on else "disabled"
        for agent in agents.exclude(is_enabled=on):
            agent.is_enabled = on
            with write_transaction():
                agent.save(update_fields=["is_enabled", "updated_at"])
                self.log_change(request, agent, f"{word.capitalize()}.")
            messages.success(request, f"{agent.name} is {word}.")

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


def facts_of(agent: Agent) -> list[tuple[str, Any]]:
    """Measurements; the queue's length is current."""
    stats = AgentStats.objects.filter(agent=agent).first() or AgentStats(agent=agent)
    tokens = f"{stats.input_tokens:,} in, {stats.output_tokens:,} out" if stats.input_tokens else "–"
    rating = f"{stats.mean_rating:.1f} of 5, from {stats.ratings:,}" if stats.mean_rating is not None else "–"
    rate = f"{stats.success_rate:.0%} of {stats.runs:,}" if stats.success_rate is not None else "–"
    return [
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
    return {
        "latency": charts.sparkline(seconds, "How long turns took", line),
        "latency_told": line,
        "outcomes": charts.bar(shares, "How turns ended", f"The last {len(runs)} turns: {told}."),
        "outcomes_told": f"The last {len(runs)} turns: {told}.",
        "runs": {"headings": ("run", "state", "took", "ended"), "rows": rows},
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


TIMES = (time_cell("created_at"), time_cell("retired_at"), time_cell("revoked_at"))


@admin.register(SigningKey)
class SigningKeyAdmin(ReadOnlyAdmin):
    key = id_cell("kid", "key id", ordering="kid", is_link=True)
    owner = related_cell("agent", "signs for", ordering="agent__name", empty="the platform")
    list_display = (key, owner, "state", "algorithm", *TIMES)
    list_filter = ("algorithm", ("revoked_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter))
    search_fields = ("=kid", "agent__slug", "agent__name")
    search_help_text = "Key ID or agent name"
    select_related = ("agent",)
    deferred = ("private",)  # the page needs no decryption
    operate_permission = "agents.change_signingkey"
    ordering = ("-created_at", "-pk")
    actions = ("rotate", "revoke")
    link_filters = {"agent__id__exact": ("agent", Agent)}
    fields = (key, owner, "state", "algorithm", *TIMES, json_cell("public"))

    @admin.action(description="Rotate: replace with a new key", permissions=["operate"])
    def rotate(self, request: HttpRequest, keys: QuerySet[SigningKey]) -> None:
        for key in keys.current():  # type: ignore[attr-defined]
            new = signing.rotate_key(key.agent, key.algorithm)
            self.log_change(request, new, f"Replaces {key.kid}.", "")  # recorded already
            messages.success(request, f"{new.owner_name} has a new signing key. Signatures of the old key stay valid.")

    @admin.action(description="Revoke: stop trusting its signatures", permissions=["operate"])
    def revoke(self, request: HttpRequest, keys: QuerySet[SigningKey]) -> None:
        for key in keys.trusted():  # type: ignore[attr-defined]
            signing.revoke_key(key)
            self.log_change(request, key, "Revoked.", "")  # recorded already
            messages.success(
                request, f"Signatures of {key.owner_name} with the key {key.kid[:8]}… are not trusted now."
            )

    @display(description="state")
    def state(self, key: SigningKey) -> SafeString:
        if key.revoked_at:
            return cells.state("revoked", Tone.FAILED)
        return cells.state("retired", Tone.STOPPED) if key.retired_at else cells.state("active", Tone.DONE)
