"""Runs plans by hand, without a worker, deterministically."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.send import accept_and_publish
from apps.plans.models import PlanRun, Step
from apps.plans.running import engine, runs
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context, Event, Task
from tests import working
from tests.plans.plan_agents import GATE

Said = Callable[..., dict[str, Any]]


class Play:
    """Runs Ada's plans until nothing changes. Agents in `held` take no turns."""

    def __init__(self, ada: User, plan: Callable[..., Agent], said: Said) -> None:
        self.ada, self.plan, self.said = ada, plan, said
        self.held = {"patient"}
        GATE.set()

    def __call__(self, steps: dict[str, Any], text: str = "hello", **more: Any) -> Task:
        return self.send(self.plan(steps, **more), text)

    def send(
        self, agent: Agent, text: str = "hello", *, user: User | None = None, asked: int | None = None, **fields: Any
    ) -> Task:
        message = self.said(text, **fields)
        receipt = accept_and_publish((user or self.ada).principal, agent, message, question_index=asked)
        return self.on(receipt.task)

    def answer(self, task: Task, text: str = "", **fields: Any) -> Task:
        return self.send(task.agent, text, taskId=str(task.pk), **fields)

    def again(self, task: Task, step: str, user: User | None = None, key: str = "") -> Task:
        run = PlanRun.objects.get(pk=task.pk)
        return self.on(runs.rerun((user or self.ada).principal, run, step, key=key or str(uuid.uuid4())).task)

    def release(self, task: Task) -> Task:
        self.held.clear()
        return self.on(task.pk)

    def on(self, task: uuid.UUID | None) -> Task:
        seen = -1
        while seen != (seen := Event.objects.count()):
            for run in Run.objects.filter(state="queued").exclude(task__agent__slug__in=self.held):
                asyncio.run(working.carry_out(run.pk))
            for key in PlanRun.objects.unfinished().values_list("pk", flat=True):
                engine.advance(key)
        return Task.objects.select_related("agent", "context").get(pk=task)


def the_record_holds() -> None:
    for context in Context.objects.all():
        assert projection.differences(context.pk) == []


def words(task: Task) -> str:
    return "".join(part.get("text", "") for part in (task.status_message or {"parts": []})["parts"])


def rows(task: Task, *fields: str) -> list[Any]:
    steps = Step.objects.filter(run=task.pk).order_by("key", "item", "round")
    return list(steps.values_list(*fields, flat=len(fields) == 1))


def data(value: Any) -> dict[str, Any]:
    return {"parts": [{"data": value}]}
