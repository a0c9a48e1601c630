"""Random runs, answers and ratings, and what they add up to when counted directly."""

from __future__ import annotations

import datetime
import random
import uuid
from collections import Counter
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.analytics.counting import time_bucket
from apps.analytics.reading import Period, read
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task

HOUR = datetime.timedelta(hours=1)
MODELS = ("small", "large")
CODES = ("timed_out", "handler_error", None)


def hour_of(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def make_run(owner: User, its_agent: Agent, at: datetime.datetime, /, **fields: Any) -> Run:
    """A run that ended then, of a task of its own."""
    workspace = owner.principal.workspace_id
    context = Context.objects.create(
        context_id=str(uuid.uuid4()), owner=owner, workspace_id=workspace, agent=its_agent, created_at=at, updated_at=at
    )
    state = {"done": "completed", "failed": "failed", "canceled": "canceled"}[fields.get("state", "done")]
    task = Task.objects.create(
        context=context, owner=owner, workspace_id=workspace, agent=its_agent, state=state, first_event=1,
        status_event=2, created_at=at, status_at=at,
    )  # fmt: skip
    message = Message.objects.create(
        context=context, task=task, index=1, role="user", message_id=str(uuid.uuid4()), parts=[], created_at=at
    )
    known: dict[str, Any] = {
        "turn": 1, "state": "done", "started_at": at - datetime.timedelta(seconds=1), "finished_at": at,
        "input": {"agent": {"number": 1}},
    }  # fmt: skip
    return Run.objects.create(task=task, message=message, **(known | fields))


def make_answer(run: Run, at: datetime.datetime) -> Message:
    """A message that an agent answered without a task."""
    return Message.objects.create(
        context=run.task.context, index=9, role="agent", agent=run.task.agent, message_id=str(uuid.uuid4()), parts=[],
        created_at=at,
    )  # fmt: skip


def rate(run: Run, rating: int, at: datetime.datetime, index: int = 5) -> Event:
    payload = {"rating": rating}
    return Event.objects.create(
        context=run.task.context, index=index, type="feedback", task=run.task, payload=payload, at=at
    )


def random_run(chance: random.Random, owners: list[User], agents: list[Agent], at: datetime.datetime) -> Run:
    state = chance.choice(["done", "done", "done", "failed", "canceled"])
    code = chance.choice(CODES)
    used = {
        name: {"requests": 1, "inputTokens": chance.randrange(900), "outputTokens": chance.randrange(90), "cost": 0.25}
        for name in chance.sample(MODELS, chance.randrange(3))
    }
    sums = {name: sum(one[name] for one in used.values()) for name in ("inputTokens", "outputTokens", "cost")}
    usage = sums | {"models": used} if used else {}
    return make_run(
        chance.choice(owners), chance.choice(agents), at, state=state, turn=chance.choice((1, 1, 2)), usage=usage,
        started_at=at - datetime.timedelta(seconds=chance.choice((0.004, 0.3, 2, 70))),
        error={"code": code} if state == "failed" and code else None,
        input={"agent": {"number": chance.choice((1, 2))}},
        agent=chance.choice([None, None, agents[0]]),
    )  # fmt: skip


def counted_directly(begin: datetime.datetime, end: datetime.datetime) -> Counter[tuple[Any, ...]]:
    """Topic, agent, version, label, and what is counted, from the rows."""
    found: Counter[tuple[Any, ...]] = Counter()
    for run in Run.objects.filter(finished_at__gte=begin, finished_at__lt=end).select_related("task"):
        who = (run.agent_id or run.task.agent_id, run.input["agent"]["number"])
        amounts = {"number": 1} | _amounts(run.usage)
        for name, amount in amounts.items():
            found["run.state", *who, run.state, name] += amount
            found["run.workspace", 0, 0, str(run.task.workspace_id), name] += amount
        if run.turn == 1:
            found["run.first", *who, "", "number"] += 1
        if run.state == "failed":
            found["run.error", *who, (run.error or {}).get("code", "unknown"), "number"] += 1
        if run.state != "canceled":
            seconds = (run.finished_at - run.started_at).total_seconds()
            found["run.time", *who, time_bucket(seconds), "number"] += 1
        for model, counts in run.usage.get("models", {}).items():
            for name, amount in ({"number": 1} | _amounts(counts)).items():
                found["run.model", *who, model, name] += amount
    for answer in Message.objects.filter(task=None, role="agent", created_at__gte=begin, created_at__lt=end):
        found["answer.message", answer.agent_id, 0, "", "number"] += 1
    newest: dict[Any, Event] = {}
    for event in Event.objects.filter(type="feedback").order_by("index").select_related("task"):
        newest[event.task_id] = event
    for event in newest.values():
        if begin <= event.at < end:
            version = event.task.runs.order_by("-turn")[0].input["agent"]["number"]
            found["rating.stars", event.task.agent_id, version, str(event.payload["rating"]), "number"] += 1
    return +found


def _amounts(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input_tokens": usage.get("inputTokens", 0),
        "output_tokens": usage.get("outputTokens", 0),
        "cost": round(usage.get("cost", 0) * 1_000_000),
    }


TOPICS = (
    "run.state", "run.workspace", "run.first", "run.error", "run.time", "run.model", "answer.message", "rating.stars",
)  # fmt: skip


def counted_by_sums(begin: datetime.datetime, end: datetime.datetime) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    amounts = read(Period(begin, end), lambda reading: reading.sums(*TOPICS, by=("agent", "version", "label")))
    for key, amount in amounts.items():
        for name, value in amount._asdict().items():
            found[key.topic, key.agent, key.version, key.label, name] += value
    return +found


def ago(**how_long: float) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(**how_long)
