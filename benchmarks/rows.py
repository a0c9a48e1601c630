"""Rows for a throwaway database: `python -m benchmarks.rows agents|tasks SLUG COUNT`.

SQL makes the tasks without the ledger, a million in a minute or two.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from string import Template

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402  (needs Django's apps, as do those below)

from apps.accounts.models import User  # noqa: E402
from apps.agents.models import Agent  # noqa: E402
from apps.agents.registration import register_hosted  # noqa: E402
from apps.plans.definitions import PlanDefinition  # noqa: E402
from apps.plans.registry import register_plan  # noqa: E402
from benchmarks.agents import AGENTS  # noqa: E402
from benchmarks.definitions import PLANS  # noqa: E402
from examples.showcase import DEMO  # noqa: E402

PER_CONTEXT = 100
PER_TASK = 7  # events of an `echo` task
BATCH = 20_000  # tasks in a transaction
BEGAN = "2026-01-01 00:00:00"
PARTS = '[{"text": "hello"}]'
SAID = f"""'{{"messageId": "answer ' || n || '", "role": "ROLE_AGENT", "parts": {PARTS}}}'"""


@dataclass(frozen=True)
class Dialect:
    """The databases' SQL dialects.

    Attributes:
        numbers: rows `n` in a range.
        key: a deterministic UUID of a text.
        at: seconds after BEGAN.
        json: JSON of a text.
    """

    numbers: str
    key: str
    at: str
    json: str


DIALECTS = {
    "postgresql": Dialect(
        "generate_series(%(first)s::int, %(last)s::int) AS numbers (n)",
        "md5({})::uuid",
        f"timestamptz '{BEGAN}+00' + ({{}}) * interval '1 second'",
        "({})::jsonb",
    ),
    "sqlite": Dialect(
        "(WITH RECURSIVE numbers (n) AS (SELECT %(first)s UNION ALL SELECT n + 1 FROM numbers WHERE n < %(last)s)"
        " SELECT n FROM numbers) AS numbers",
        "md5({})",
        f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', '{BEGAN}', ({{}}) || ' seconds')",
        "({})",
    ),
}


def register_agents() -> None:
    """Register agents and plans in one process, because Django starts slowly."""
    for slug, handler in AGENTS.items():
        register_hosted(slug, handler)
    for slug, definition in PLANS.items():
        register_plan(slug, PlanDefinition.read(definition), access=Agent.Access.AUTHENTICATED)


def make_tasks(slug: str, count: int) -> None:
    agent, owner = Agent.objects.get(slug=slug), User.objects.get(email=DEMO)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            connection.connection.create_function("md5", 1, md5, deterministic=True)
        for first in range(0, count, BATCH):
            last = min(count, first + BATCH) - 1
            of = {"slug": slug, "agent": agent.pk, "owner": owner.pk, "workspace": agent.workspace_id}
            with transaction.atomic():
                cursor.execute(statement(CONTEXTS), of | {"first": first // PER_CONTEXT, "last": last // PER_CONTEXT})
                for template in (TASKS, QUESTIONS, ANSWERS, ARTIFACTS):
                    cursor.execute(statement(template), of | {"first": first, "last": last})
        cursor.execute("ANALYZE")  # which a slowly grown database already has


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def statement(template: Template) -> str:
    """Fills a template; keys and times derive from `n`."""
    say = DIALECTS[connection.vendor]
    of_context = "n" if template is CONTEXTS else f"(n / {PER_CONTEXT})"
    return template.substitute(
        numbers=say.numbers,
        task=say.key.format("'task ' || CAST(%(slug)s AS text) || n"),
        context=say.key.format(f"'context ' || CAST(%(slug)s AS text) || {of_context}"),
        question=say.key.format("'question ' || CAST(%(slug)s AS text) || n"),
        answer=say.key.format("'answer ' || CAST(%(slug)s AS text) || n"),
        at=say.at.format(f"n * {PER_CONTEXT}" if template is CONTEXTS else "n"),
        parts=say.json.format(f"'{PARTS}'"),
        said=say.json.format(SAID),
        none=say.json.format("'[]'"),
        nothing=say.json.format("'{}'"),
        first=f"n %% {PER_CONTEXT} * {PER_TASK}",
        events=PER_CONTEXT * PER_TASK,
    )


CONTEXTS = Template("""
INSERT INTO record_context
    (id, context_id, owner_id, workspace_id, agent_id, title, fork_reason, last_event, is_watched,
     memory, options, cold_file, cold_messages, created_at, updated_at)
SELECT $context, 'bulk ' || %(slug)s || n, %(owner)s, %(workspace)s, %(agent)s, 'Bulk', '', $events, false,
    $nothing, $nothing, '', 0, $at, $at
FROM $numbers
""")
TASKS = Template("""
INSERT INTO record_task
    (id, context_id, owner_id, workspace_id, agent_id, state, status_message, "references", metadata,
     first_event, status_event, created_at, status_at)
SELECT $task, $context, %(owner)s, %(workspace)s, %(agent)s,
    CASE n %% 1000 WHEN 0 THEN 'failed' WHEN 1 THEN 'input-required' ELSE 'completed' END,
    $said, $none, $nothing, $first + 1, $first + 7, $at, $at
FROM $numbers
""")
QUESTIONS = Template("""
INSERT INTO record_message
    (id, context_id, task_id, "index", role, message_id, parts, "references", extensions, metadata, created_at)
SELECT $question, $context, $task, $first + 1, 'user', 'question ' || n, $parts, $none, $none, $nothing, $at
FROM $numbers
""")
ANSWERS = Template("""
INSERT INTO record_message
    (id, context_id, task_id, "index", role, message_id, parts, "references", extensions, metadata, created_at)
SELECT $answer, $context, $task, $first + 7, 'agent', 'answer ' || n, $parts, $none, $none, $nothing, $at
FROM $numbers
""")
ARTIFACTS = Template("""
INSERT INTO record_artifact
    (task_id, artifact_id, state, name, description, parts, digest, signature, extensions, metadata,
     first_event, created_at)
SELECT $task, 'answer ' || n, 'delivered', 'answer', '', $parts, '', $nothing, $none, $nothing, $first + 4, $at
FROM $numbers
""")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agents"]:
            register_agents()
        case ["tasks", slug, count]:
            make_tasks(slug, int(count))
        case _:
            raise SystemExit(__doc__)
