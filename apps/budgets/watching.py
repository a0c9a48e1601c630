"""Sends notices about budgets."""

from __future__ import annotations

from django.utils import timezone

from apps.budgets.models import Budget, BudgetNotice, Measure
from apps.budgets.spending import Snapshot, forget, snapshot
from apps.limits.notices import tell


def watch() -> None:
    """Notes which limits of budgets were reached, and tells operators and the workspace's owners, once a month."""
    forget()
    known = snapshot()
    for budget in known.budgets:
        _note_reached_limits(known, budget)
    unsent = BudgetNotice.objects.filter(sent_at=None, month=known.month)
    for notice in unsent.select_related("budget__workspace", "budget__agent", "budget__api_key__workspace"):
        if unsent.filter(pk=notice.pk).update(sent_at=timezone.now()) and not _tell(notice):
            BudgetNotice.objects.filter(pk=notice.pk).update(sent_at=None)  # tried again a minute later


def _note_reached_limits(known: Snapshot, budget: Budget) -> None:
    used = known.used_of(budget)
    for level, limit in budget.thresholds:
        if (spent := used.of(level.measure)) >= limit:
            values = {"budget": budget, "month": known.month, "level": level, "limit": limit}
            BudgetNotice.objects.get_or_create(**values, defaults={"spent": spent})


def _tell(notice: BudgetNotice) -> bool:
    """Log the notice and send it by e-mail. Returns False if it could not be sent."""
    budget, level = notice.budget, BudgetNotice.Level(notice.level)
    subject = f"Budget: {budget} has reached {level.label}"
    spent, limit = level.measure.text(notice.spent), level.measure.text(notice.limit)
    unit = " tokens" if level.measure is Measure.TOKENS else ""
    text = f"Spent in {notice.month:%B %Y}: {spent}{unit}. This notice is sent at {limit}."
    if level.is_final:
        text += " Language models are not called any more until the next month, or until an operator raises the limit."
    return tell(subject, text, budget.api_key.workspace if budget.api_key else budget.workspace)
