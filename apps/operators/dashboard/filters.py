"""Filters of lists by what no field of their rows says. Links set them; some can be chosen or written, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.db.models import Exists, Model, OuterRef, Q, Sum
from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter

from apps.accounts.models import Workspace
from apps.agents.models import Agent
from apps.analytics.counting import UNKNOWN
from apps.analytics.models import Figure
from apps.analytics.rollup import DAY
from apps.plans.models import Step
from apps.record.execution import Run, failed_for
from apps.record.models import FAULTY_STATES, Feedback, Message, TaskState
from apps.remote.health_checks import down

REASONS = 50  # to choose from
LATELY = 30 * DAY


class LinkedFilter(admin.SimpleListFilter):
    """Offers its own value, which can be taken off, and what `offered` gives. A wrong value finds nothing.

    `linked` makes them.
    """

    @staticmethod
    def condition(value: str) -> Q:
        """Which rows have the value."""
        raise NotImplementedError

    @staticmethod
    def shown(value: str) -> str:
        """The value in words."""
        return value

    @property
    def lookup_kwarg(self) -> str | None:
        """The theme keeps the value by it and by `lookup_val` when what is typed beside it is submitted."""
        return self.parameter_name

    @property
    def lookup_val(self) -> list[str]:
        return [value] if (value := self.value()) else []

    @staticmethod
    def offered() -> Iterable[str]:
        """Values to choose from."""
        return ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.used_parameters.get(self.parameter_name or "")
        return [(one, self.shown(one)) for one in dict.fromkeys([*([value] if value else ()), *self.offered()])]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        if not value:
            return queryset
        # PostgreSQL has no NUL in text.
        return queryset.none() if "\0" in value else queryset.filter(self.condition(value))


class TypedFilter(TextFilter, LinkedFilter):
    """A field to write the value in. The list needs `list_filter_submit`. `typed` makes them."""


def linked(
    parameter: str, title: str, condition: Callable[[str], Q], shown: Callable[[str], str] = str, **more: Any
) -> Any:
    members = {"parameter_name": parameter, "title": title}
    functions = {"condition": condition, "shown": shown, **more}
    return type("LinkedFilter", (LinkedFilter,), members | {name: staticmethod(one) for name, one in functions.items()})


def typed(parameter: str, title: str, condition: Callable[[str], Q]) -> Any:
    members = {"parameter_name": parameter, "title": title, "condition": staticmethod(condition)}
    return type("TypedFilter", (TypedFilter,), members)


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
    return failed_for("") | failed_for(UNKNOWN) if value == UNKNOWN else failed_for(value)


def _reasons() -> Iterable[str]:
    """For which runs failed lately, the most frequent first."""
    failed = Figure.objects.filter(span=DAY, topic="run.error", start__gte=time.time() - LATELY)
    counted = failed.values_list("label").annotate(all=Sum("number")).order_by("-all", "label")
    return [label for label, _ in counted[:REASONS]]


def _with_slug(value: str) -> int:
    return Agent.objects.filter(slug=value).values_list("pk", flat=True).first() or -1


def _has_run(runs: Q) -> Q:
    return Q(Exists(Run.objects.filter(runs, task=OuterRef("pk"))))


def _failed_for_it(value: str) -> Q:
    return _has_run(_failed_for(value)) & Q(state__any_of=FAULTY_STATES)


def _in_worker(value: str) -> Q:
    return Q(worker__startswith=value)


OF_RUNS = (
    linked("by_agent", "agent that took the turn", _took_the_turn, named(Agent)),
    linked("version", "version of the agent", _has_version),
    linked("reason", "reason", _failed_for, offered=_reasons),
    typed("slug", "slug of the agent that took the turn", lambda value: _took_the_turn(str(_with_slug(value)))),
    typed("in_worker", "worker", _in_worker),
    linked("language_model", "language model", lambda value: Q(usage__models__has_key=value)),
    linked("in_workspace", "workspace", lambda value: Q(task__workspace=key_of(value)), named(Workspace)),
    linked("first", "turn", lambda value: Q(turn=1)),
)

OF_TASKS = (
    linked("reason", "reason", _failed_for_it, offered=_reasons),
    typed("slug", "agent's slug", lambda value: Q(agent=_with_slug(value))),
    typed("in_worker", "worker", lambda value: _has_run(_in_worker(value))),
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
