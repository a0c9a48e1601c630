"""Admin pages of budgets, and of what was spent."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from apps.budgets import spending
from apps.budgets.models import Budget, BudgetNotice, Measure, Spending, first_of_month
from apps.operators import columns
from apps.record.execution import Run
from apps.record.models import Context
from parley.faces import cells
from parley.faces.admin import ConsoleAdmin, MenuItem, ReadOnlyAdmin, column, key_cell, related_cell, time_cell
from parley.faces.cells import Tone

EXPLANATION = "Months begin in UTC. Models without a price cost nothing: give prices under Model connections."


def tokens(value: int | None) -> str:
    return "" if value is None else Measure.TOKENS.text(value)


SUMS = 8
BY = {
    "By month": "month",
    "By model": "model",
    "By agent": "agent__name",
    "By workspace": "workspace__name",
    "By API key": "key",
}
WHOSE = ("workspace", "api_key", "agent")
LIMITS = ("soft_limit", "hard_limit", "token_limit")


@admin.register(Budget)
class BudgetAdmin(ConsoleAdmin):
    menu = MenuItem("Cost", 2, "savings")
    scope = column("budget of", lambda row: cells.link(str(row), cells.page_url(Budget, row.pk)))
    soft = column("soft limit", lambda row: cells.money(row.soft_limit), "soft_limit")
    hard = column("hard limit", lambda row: cells.money(row.hard_limit), "hard_limit")
    most_tokens = column("token limit", lambda row: tokens(row.token_limit), "token_limit")
    spent = column("spent this month", lambda row: cells.money(spending.snapshot().used_of(row).cost))
    used = column("tokens this month", lambda row: tokens(spending.snapshot().used_of(row).tokens))
    known = (spent, used, "state", "notices")
    list_display = (scope, spent, soft, hard, used, most_tokens, "state")
    list_display_links = None
    select_related = WHOSE
    autocomplete_fields = WHOSE

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = (*WHOSE, *LIMITS, *(self.known if obj else ()))
        return [(None, {"fields": fields, "description": EXPLANATION})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.known if obj else ()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        spending.forget()
        return super().changelist_view(request, extra_context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        spending.forget()

    @display(description="state")
    def state(self, row: Budget) -> SafeString:
        used, levels = spending.snapshot().used_of(row), BudgetNotice.Level
        reached = {level for level, limit in row.thresholds if used.of(level.measure) >= limit}
        if any(level.is_final for level in reached):
            return cells.state("Spent", Tone.FAILED)
        if reached:
            words = "Nearly spent" if reached & {levels.NEAR, levels.TOKENS_NEAR} else "Above soft limit"
            return cells.state(words, Tone.WAITING)
        return cells.state("Within", Tone.DONE)

    @display(description="notices")
    def notices(self, row: Budget) -> SafeString | str:
        lines = []
        for one in row.notices.all()[:12]:
            text = BudgetNotice.Level(one.level).measure.text
            lines.append(f"{one.month:%B %Y}: {one.get_level_display()} ({text(one.spent)} of {text(one.limit)})")
        return cells.lines(lines) if lines else "None were sent."


@admin.register(Spending)
class SpendingAdmin(ReadOnlyAdmin):
    """A deleted session's rows stay; their links lead nowhere."""

    menu = MenuItem("Cost", 3, "payments")
    session = key_cell(Context, "context", "session")
    run = key_cell(Run, "run", "run")
    key = column("API key", lambda row: row.key, "key")
    used = column("tokens in / out", lambda row: f"{row.input_tokens:,} / {row.output_tokens:,}")
    costs = column("cost", lambda row: cells.money(row.cost), "cost")
    list_display = (time_cell("at"), costs, "model", used, columns.agent, related_cell("workspace"), key, session, run)
    ordering = ("-id",)
    list_filter = ("month",)
    search_fields = ("model", "agent__slug", "workspace__name", "key")
    search_help_text = "A model, an agent's slug, a workspace, or an API key"
    id_lookups = ("run", "context")
    select_related = ("agent", "workspace")
    list_before_template = "admin/budgets/sums.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        changelist = getattr(response, "context_data", {}).get("cl")
        if changelist is not None:
            # All rows' sums would read the whole table.
            rows = changelist.queryset if request.GET else changelist.queryset.filter(month=first_of_month())
            sums = {
                title: [(f"{name:%B %Y}" if by == "month" else name or "–", cells.money(cost)) for name, cost in found]
                for title, by in BY.items()
                if (found := spending.sums(rows, by, SUMS))
            }
            response.context_data["sums"] = sums  # type: ignore[attr-defined]
        return response
