"""What the benchmarks need in a throwaway database: `python -m benchmarks.rows agents|tasks SLUG COUNT`.

Tasks are made by the thousand, around the ledger, which is right in a throwaway database alone.
"""

from __future__ import annotations

import datetime
import os
import sys
import uuid

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402  (needs Django's apps, as do those below)

from apps.accounts.models import User  # noqa: E402
from apps.agents.models import Agent  # noqa: E402
from apps.agents.registration import register_hosted  # noqa: E402
from apps.conversations.models import Artifact, Context, Message, Task  # noqa: E402
from apps.showcase.loading import DEMO  # noqa: E402
from benchmarks.agents import AGENTS  # noqa: E402

PER_CONTEXT = 100
PER_TASK = 7  # events that a task of `echo` has
BATCH = 5000  # tasks that are written in one transaction
BEGAN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def register_agents() -> None:
    """Register the agents of the benchmarks, in one process for all: a start of Django takes longer than the rest."""
    for slug, handler in AGENTS.items():
        register_hosted(slug, handler)


def make_tasks(slug: str, count: int) -> None:
    """Give the demo user so many completed tasks at that agent."""
    agent, owner = Agent.objects.get(slug=slug), User.objects.get(email=DEMO)
    for first in range(0, count, BATCH):
        write(agent, owner, range(first, min(count, first + BATCH)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # what a database that grew slowly has done by itself


@transaction.atomic
def write(agent: Agent, owner: User, numbers: range) -> None:
    """Write tasks with a question, an answer and an artifact each."""
    rows: dict[type, list[object]] = {Context: [], Task: [], Message: [], Artifact: []}
    for number in numbers:
        at = BEGAN + datetime.timedelta(seconds=number)
        if number % PER_CONTEXT == 0:
            context = new_context(agent, owner, at)
            rows[Context].append(context)
        task, *others = new_task(context, number % PER_CONTEXT * PER_TASK, at)
        for row in (task, *others):
            rows[type(row)].append(row)
    for model, made in rows.items():
        model.objects.bulk_create(made, batch_size=1000)


def new_context(agent: Agent, owner: User, at: datetime.datetime) -> Context:
    key = uuid.uuid4()
    last = PER_CONTEXT * PER_TASK
    return Context(
        id=key, context_id=str(key), owner=owner, workspace_id=agent.workspace_id, agent=agent, title="Bulk",
        last_event=last, created_at=at, updated_at=at,
    )  # fmt: skip


def new_task(context: Context, after: int, at: datetime.datetime) -> tuple[Task, Message, Message, Artifact]:
    """A task whose events begin after index `after`."""
    parts = [{"text": "hello"}]
    answer = {"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", "parts": parts}
    task = Task(
        context=context, owner=context.owner, workspace_id=context.workspace_id, agent=context.agent,
        state="completed", status_message=answer, created_at=at, status_at=at,
    )  # fmt: skip
    of = {"context": context, "task": task, "parts": parts, "created_at": at}
    return (
        task,
        Message(role=Message.Role.USER, index=after + 1, message_id=str(uuid.uuid4()), **of),
        Message(role=Message.Role.AGENT, index=after + PER_TASK, message_id=answer["messageId"], **of),
        Artifact(
            task=task, artifact_id=str(uuid.uuid4()), state=Artifact.State.DELIVERED, name="answer", parts=parts,
            first_event=after + 4, created_at=at,
        ),
    )  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agents"]:
            register_agents()
        case ["tasks", slug, count]:
            make_tasks(slug, int(count))
        case _:
            raise SystemExit(__doc__)
