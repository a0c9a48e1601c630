"""Admin pages of budgets, and of what was spent."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import display
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from apps.features.budgets import spending
from apps.features.budgets.models import Budget, BudgetNotice, Spending, first_of_month
from apps.operators import columns
from apps.record.execution import Run
from apps.record.models import Context
from console import cells
from console.admin import ConsoleAdmin, ReadOnlyAdmin, column, key_cell, related_cell, time_cell
from console.cells import Tone

EXPLANATION = (
    "Amounts are in the currency of your models' prices. Months begin in UTC. Models without a price cost nothing: give"
    " prices under Model connections."
)


def amount(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


SUMS = 8
BY = {"By month": "month", "By model": "model", "By agent": "agent__name", "By workspace": "workspace__name"}


class BudgetForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Budget
        fields = ("workspace", "agent", "soft_limit", "hard_limit")


@admin.register(Budget)
class BudgetAdmin(ConsoleAdmin):
    form = BudgetForm
    scope = column("budget of", lambda row: cells.link(str(row), cells.page_url(Budget, row.pk)))
    soft = column("soft limit", lambda row: amount(row.soft_limit), "soft_limit")
    hard = column("hard limit", lambda row: amount(row.hard_limit), "hard_limit")
    spent = column("spent this month", lambda row: amount(spending.snapshot().spent_of(row)))
    known = (spent, "state", "notices")
    list_display = (scope, spent, soft, hard, "state")
    list_display_links = None
    select_related = ("workspace", "agent")
    autocomplete_fields = ("workspace", "agent")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = ("workspace", "agent", "soft_limit", "hard_limit", *(self.known if obj else ()))
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
        spent = spending.snapshot().spent_of(row)
        reached = {level for level, limit in row.thresholds if spent >= limit}
        if BudgetNotice.Level.HARD in reached:
            return cells.state("Spent", Tone.FAILED)
        if reached:
            words = "Nearly spent" if BudgetNotice.Level.NEAR in reached else "Above soft limit"
            return cells.state(words, Tone.WAITING)
        return cells.state("Within", Tone.DONE)

    @display(description="notices")
    def notices(self, row: Budget) -> SafeString | str:
        lines = [
            f"{one.month:%B %Y}: {one.get_level_display()} ({amount(one.spent)} of {amount(one.limit)})"
            for one in row.notices.all()[:12]
        ]
        return cells.lines(lines) if lines else "None were sent."


@admin.register(Spending)
class SpendingAdmin(ReadOnlyAdmin):
    """A deleted session's rows stay; their links lead nowhere."""

    session = key_cell(Context, "context", "session")
    run = key_cell(Run, "run", "run")
    used = column("tokens in / out", lambda row: f"{row.input_tokens:,} / {row.output_tokens:,}")
    costs = column("cost", lambda row: f"{row.cost:.4g}", "cost")
    list_display = (time_cell("at"), costs, "model", used, columns.agent, related_cell("workspace"), session, run)
    ordering = ("-id",)
    list_filter = ("month",)
    search_fields = ("model", "agent__slug", "workspace__name")
    search_help_text = "A model, an agent's slug, or a workspace"
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
                title: [(f"{name:%B %Y}" if by == "month" else name or "–", amount(cost)) for name, cost in found]
                for title, by in BY.items()
                if (found := spending.sums(rows, by, SUMS))
            }
            response.context_data["sums"] = sums  # type: ignore[attr-defined]
        return response
