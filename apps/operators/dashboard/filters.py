"""Filters of lists that only links set: each shows its value, and can be taken off."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest

from apps.accounts.models import Workspace
from apps.agents.models import Agent
from apps.features.analytics.counting import UNKNOWN
from apps.plans.models import Step
from apps.record.models import Message, TaskState


class LinkedFilter(admin.SimpleListFilter):
    """Offers no choice but its own value. A wrong value finds nothing."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.used_parameters.get(self.parameter_name or "")
        return [(value, self.shown(value))] if value else []

    def shown(self, value: str) -> str:
        return value

    def condition(self, value: str) -> Q:
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        if not value:
            return queryset
        # PostgreSQL has no NUL in text.
        return queryset.none() if "\0" in value else queryset.filter(self.condition(value))


def key_of(value: str) -> int:
    """A key that a database can look up; -1, which no row has, for what is none."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else -1


class ByAgent(LinkedFilter):
    """The agent that took the turn: the task's, or the one that took its place."""

    title = "agent that took the turn"
    parameter_name = "by_agent"

    def shown(self, value: str) -> str:
        return str(Agent.objects.filter(pk=key_of(value)).first() or value)

    def condition(self, value: str) -> Q:
        return Q(agent=key_of(value)) | Q(agent=None, task__agent=key_of(value))


class ByVersion(LinkedFilter):
    title = "version of the agent"
    parameter_name = "version"

    def condition(self, value: str) -> Q:
        return Q(input__agent__number=key_of(value)) if value != "0" else Q(input__agent__number__isnull=True)


class ByReason(LinkedFilter):
    title = "reason"
    parameter_name = "reason"

    def condition(self, value: str) -> Q:
        unknown = Q(error__isnull=True) | Q(error__code__isnull=True) | Q(error__code="")
        return Q(error__code=value) | unknown if value == UNKNOWN else Q(error__code=value)


class ByLanguageModel(LinkedFilter):
    title = "language model"
    parameter_name = "language_model"

    def condition(self, value: str) -> Q:
        return Q(usage__models__has_key=value)


class ByWorkspace(LinkedFilter):
    title = "workspace"
    parameter_name = "in_workspace"

    def shown(self, value: str) -> str:
        return str(Workspace.objects.filter(pk=key_of(value)).first() or value)

    def condition(self, value: str) -> Q:
        return Q(task__workspace=key_of(value))


class FirstTurns(LinkedFilter):
    title = "turn"
    parameter_name = "first"

    def condition(self, value: str) -> Q:
        return Q(turn=1)


class Ended(LinkedFilter):
    """Of plan runs, in the words of runs."""

    title = "ended as"
    parameter_name = "ended"

    def condition(self, value: str) -> Q:
        states = {
            "done": (TaskState.COMPLETED,),
            "failed": (TaskState.FAILED, TaskState.REJECTED),
            "canceled": (TaskState.CANCELED,),
        }
        return Q(task__state__in=states.get(value, ()))


class Asking(LinkedFilter):
    title = "steps"
    parameter_name = "asking"

    def shown(self, value: str) -> str:
        return "wait for a person"

    def condition(self, value: str) -> Q:
        return Q(Exists(Step.objects.asking().filter(run=OuterRef("pk"))), finished_at=None)


class WithoutTask(LinkedFilter):
    title = "task"
    parameter_name = "without_task"

    def shown(self, value: str) -> str:
        return "answers without a task"

    def condition(self, value: str) -> Q:
        return Q(task=None, role=Message.Role.AGENT)


class NewestRating(LinkedFilter):
    """Without ratings that were replaced by a later one of the same task."""

    title = "ratings"
    parameter_name = "newest"

    def shown(self, value: str) -> str:
        return "the newest of each task"

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if not self.value():
            return queryset
        later = queryset.model.objects.filter(task=OuterRef("task"), index__gt=OuterRef("index"))
        return queryset.exclude(Exists(later))


OF_RUNS = (ByAgent, ByVersion, ByReason, ByLanguageModel, ByWorkspace, FirstTurns)
OF_PLAN_RUNS = (Ended, Asking)
OF_MESSAGES = (WithoutTask,)
OF_FEEDBACK = (NewestRating,)
