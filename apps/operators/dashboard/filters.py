"""Filters of lists that only links set: each shows its value, and can be taken off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import Exists, Model, OuterRef, Q
from django.http import HttpRequest

from apps.accounts.models import Workspace
from apps.agents.models import Agent
from apps.analytics.counting import UNKNOWN
from apps.plans.models import Step
from apps.record.models import Feedback, Message, TaskState
from apps.remote.health_checks import down


class LinkedFilter(admin.SimpleListFilter):
    """Offers no choice but its own value. A wrong value finds nothing. `linked` makes them."""

    @staticmethod
    def condition(value: str) -> Q:
        """Which rows have the value."""
        raise NotImplementedError

    @staticmethod
    def shown(value: str) -> str:
        """The value in words."""
        return value

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.used_parameters.get(self.parameter_name or "")
        return [(value, self.shown(value))] if value else []

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        if not value:
            return queryset
        # PostgreSQL has no NUL in text.
        return queryset.none() if "\0" in value else queryset.filter(self.condition(value))


def linked(parameter: str, title: str, condition: Callable[[str], Q], shown: Callable[[str], str] = str) -> Any:
    members = {"parameter_name": parameter, "title": title}
    functions = {"condition": staticmethod(condition), "shown": staticmethod(shown)}
    return type("LinkedFilter", (LinkedFilter,), members | functions)


def key_of(value: str) -> int:
    """A key that a database can look up; -1, which no row has, for what is none."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else -1


def named(model: type[Model]) -> Callable[[str], str]:
    """How the row with this key is called."""
    return lambda value: str(model._default_manager.filter(pk=key_of(value)).first() or value)


def _took_the_turn(value: str) -> Q:
    """The task's agent, or the one that took its place."""
    return Q(agent=key_of(value)) | Q(agent=None, task__agent=key_of(value))


def _has_version(value: str) -> Q:
    return Q(input__agent__number=key_of(value)) if value != "0" else Q(input__agent__number__isnull=True)


def _failed_for(value: str) -> Q:
    unknown = Q(error__isnull=True) | Q(error__code__isnull=True) | Q(error__code="")
    return Q(error__code=value) | unknown if value == UNKNOWN else Q(error__code=value)


OF_RUNS = (
    linked("by_agent", "agent that took the turn", _took_the_turn, named(Agent)),
    linked("version", "version of the agent", _has_version),
    linked("reason", "reason", _failed_for),
    linked("language_model", "language model", lambda value: Q(usage__models__has_key=value)),
    linked("in_workspace", "workspace", lambda value: Q(task__workspace=key_of(value)), named(Workspace)),
    linked("first", "turn", lambda value: Q(turn=1)),
)

ENDED = {
    "done": (TaskState.COMPLETED,),
    "failed": (TaskState.FAILED, TaskState.REJECTED),
    "canceled": (TaskState.CANCELED,),
}
"""States of plan runs' tasks, in the words of runs."""


def _asks(value: str) -> Q:
    return Q(Exists(Step.objects.asking().filter(run=OuterRef("pk"))), finished_at=None)


OF_PLAN_RUNS = (
    linked("ended", "ended as", lambda value: Q(task__state__in=ENDED.get(value, ()))),
    linked("asking", "steps", _asks, lambda value: "wait for a person"),
)


def _has_no_task(value: str) -> Q:
    return Q(task=None, role=Message.Role.AGENT)


def _is_newest(value: str) -> Q:
    """No later rating of the same task replaced it."""
    return ~Q(Exists(Feedback.objects.filter(task=OuterRef("task"), index__gt=OuterRef("index"))))


OF_CHECKUPS = (linked("down", "remote agents", lambda value: down("agent__"), lambda value: "that are down"),)
OF_MESSAGES = (linked("without_task", "task", _has_no_task, lambda value: "answers without a task"),)
OF_FEEDBACK = (linked("newest", "ratings", _is_newest, lambda value: "the newest of each task"),)
