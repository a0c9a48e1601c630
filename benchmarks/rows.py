"""Rows for a throwaway database.

    python -m benchmarks.rows agents|tasks SLUG COUNT|record SLUG COUNT|sessions SLUG COUNT|workspaces COUNT

SQL makes the tasks without the ledger, a million in a minute or two. `record` adds for each task a run, two events, an
entry of the search index, and a session without tasks; a million take a few minutes. `sessions` makes sessions of one
task each, with all its events.
"""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from string import Template

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402  (needs Django's apps, as do those below)

from apps.accounts.models import ApiKey, User  # noqa: E402
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
TEXT = "'hello word' || n %% 1000 || ' only' || n"
SAID = f"""'{{"messageId": "answer ' || n || '", "role": "ROLE_AGENT", "parts": {PARTS}}}'"""


@dataclass(frozen=True)
class Dialect:
    """The databases' SQL dialects.

    Attributes:
        numbers: rows `n` in a range.
        key: a deterministic UUID of a text.
        at: seconds after BEGAN.
        json: JSON of a text.
        words: TEXT in the search index.
    """

    numbers: str
    key: str
    at: str
    json: str
    words: str


DIALECTS = {
    "postgresql": Dialect(
        "generate_series(%(first)s::int, %(last)s::int) AS numbers (n)",
        "md5({})::uuid",
        f"timestamptz '{BEGAN}+00' + ({{}}) * interval '1 second'",
        "({})::jsonb",
        "('@' || CAST(%(owner)s AS text) || ' hello:1 word' || n %% 1000 || ':2 only' || n || ':3')::tsvector",
    ),
    "sqlite": Dialect(
        "(WITH RECURSIVE numbers (n) AS (SELECT %(first)s UNION ALL SELECT n + 1 FROM numbers WHERE n < %(last)s)"
        " SELECT n FROM numbers) AS numbers",
        "md5({})",
        f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', '{BEGAN}', ({{}}) || ' seconds')",
        "({})",
        TEXT,
    ),
}


def open_workspaces(count: int) -> None:
    """Prints a key of each of so many new people's workspaces."""
    for _ in range(count):
        print(ApiKey.issue(User.objects.create_user(f"{uuid.uuid4().hex}@parley.local"), "bench")[1])


def register_agents() -> None:
    """Register agents and plans in one process, because Django starts slowly."""
    for slug, handler in AGENTS.items():
        register_hosted(slug, handler)
    for slug, definition in PLANS.items():
        register_plan(slug, PlanDefinition.read(definition), access=Agent.Access.AUTHENTICATED)


def make_tasks(slug: str, count: int, *, more: tuple[Template, ...] = (), per_context: int = PER_CONTEXT) -> None:
    """Tasks with contexts, messages and artifacts, and `more` of the record."""
    agent, owner = Agent.objects.get(slug=slug), User.objects.get(email=DEMO)
    is_quick = bool(more) and connection.vendor == "postgresql"
    with connection.cursor() as cursor, quick_filling() if is_quick else nullcontext():
        if connection.vendor == "sqlite":
            connection.connection.create_function("md5", 1, md5, deterministic=True)
        for first in range(0, count, BATCH):
            last = min(count, first + BATCH) - 1
            of: dict[str, int | str] = {
                "slug": slug,
                "agent": agent.pk,
                "owner": owner.pk,
                "workspace": owner.membership.workspace_id,
            }
            with transaction.atomic():
                for template in (*LISTED, *more):
                    per = per_context if template in OF_CONTEXTS else 1
                    sql = statement(template, per_context)
                    cursor.execute(sql, of | {"first": first // per, "last": last // per})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # which a slowly grown database already has


@contextmanager
def quick_filling() -> Iterator[None]:
    """Without checks of foreign keys, and with indexes made afterwards. For PostgreSQL's superusers."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
            " WHERE indrelid = ANY(%s::regclass[]) AND NOT indisunique",
            [FILLED],
        )
        indexes = dict(cursor.fetchall())
        cursor.execute(f"DROP INDEX {', '.join(indexes)}")
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET maintenance_work_mem = '256MB'")
        for definition in indexes.values():
            cursor.execute(definition)


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def statement(template: Template, per_context: int) -> str:
    """Fills a template; keys and times derive from `n`."""
    say = DIALECTS[connection.vendor]
    of_context = "n" if template in OF_CONTEXTS else f"(n / {per_context})"
    return template.substitute(
        numbers=say.numbers,
        task=say.key.format("'task ' || CAST(%(slug)s AS text) || n"),
        context=say.key.format(f"'context ' || CAST(%(slug)s AS text) || {of_context}"),
        question=say.key.format("'question ' || CAST(%(slug)s AS text) || n"),
        run=say.key.format("'run ' || CAST(%(slug)s AS text) || n"),
        answer=say.key.format("'answer ' || CAST(%(slug)s AS text) || n"),
        at=say.at.format(f"n * {per_context}" if template in OF_CONTEXTS else "n"),
        parts=say.json.format(f"'{PARTS}'"),
        said=say.json.format(SAID),
        asked=say.json.format(f"""'{{"message": {{"role": "ROLE_USER", "parts": {PARTS}}}}}'"""),
        completed=say.json.format("""'{"artifacts": ["answer ' || n || '"]}'"""),
        text=TEXT,
        words=say.words,
        none=say.json.format("'[]'"),
        nothing=say.json.format("'{}'"),
        first=f"n %% {per_context} * {PER_TASK}",
        events=per_context * PER_TASK,
    )


CONTEXTS = Template("""
INSERT INTO record_context
    (id, context_id, owner_id, workspace_id, agent_id, title, fork_reason, last_event, is_watched,
     memory, approved_tools, options, cold_file, cold_messages, created_at, updated_at)
SELECT $context, 'bulk ' || %(slug)s || n, %(owner)s, %(workspace)s, %(agent)s, 'Bulk', '', $events, false,
    $nothing, $none, $nothing, '', 0, $at, $at
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
RUNS = Template("""
INSERT INTO record_run
    (id, task_id, message_id, turn, state, attempt, fence, worker, interrupted, resumed, memory, input, input_hash,
     usage, notes, remote, traceparent, queued_at, started_at, finished_at)
SELECT $run, $task, $question, 1, CASE n %% 1000 WHEN 0 THEN 'failed' ELSE 'done' END, 1, 1,
    'worker ' || n %% 8, false, false, $nothing, $nothing, '', $nothing, $none, $nothing, '', $at, $at, $at
FROM $numbers
""")
ASKED = Template("""
INSERT INTO record_event (context_id, "index", type, task_id, artifact_id, payload, at)
SELECT $context, $first + 1, 'user_message', $task, '', $asked, $at
FROM $numbers
""")
ACCEPTED = Template("""
INSERT INTO record_accepted (sender, agent_id, message_id, body_hash, task_id, created_at)
SELECT 'user:' || %(owner)s, %(agent)s, %(slug)s || ' question ' || n, '', $task, $at
FROM $numbers
""")
BETWEEN = Template("""
INSERT INTO record_event (context_id, "index", type, task_id, run, artifact_id, payload, at)
SELECT $context, $first + step, 'agent_status', $task, $run, '', $nothing, $at
FROM $numbers CROSS JOIN (SELECT 2 AS step UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6)
    AS steps
""")
COMPLETED = Template("""
INSERT INTO record_event (context_id, "index", type, task_id, run, artifact_id, payload, at)
SELECT $context, $first + 7, 'agent_complete', $task, $run, '', $completed, $at
FROM $numbers
""")
INDEXED = Template("INSERT INTO search_indexed (context_id, upto) SELECT $context, $events FROM $numbers")
ENTRIES = Template("""
INSERT INTO search_searchentry (context_id, owner_id, kind, key, "index", at, name, text, words)
SELECT $context, %(owner)s, 'message', CAST($question AS text), $first + 1, $at, 'user', $text, $words
FROM $numbers
""")
SESSIONS = Template("""
INSERT INTO record_context
    (id, context_id, owner_id, workspace_id, agent_id, title, fork_reason, last_event, is_watched,
     memory, approved_tools, options, cold_file, cold_messages, created_at, updated_at)
SELECT $run, 'session ' || %(slug)s || n, %(owner)s, %(workspace)s, %(agent)s, 'Session ' || n, '', 1, false,
    $nothing, $none, $nothing, '', 0, $at, $at
FROM $numbers
""")
SESSIONS_INDEXED = Template("INSERT INTO search_indexed (context_id, upto) SELECT $run, 1 FROM $numbers")
OF_CONTEXTS = (CONTEXTS, INDEXED)
LISTED = (CONTEXTS, TASKS, QUESTIONS, ANSWERS, ARTIFACTS)
WITH_LOG = (RUNS, ASKED, COMPLETED, INDEXED, ENTRIES)
REST = (*WITH_LOG, SESSIONS, SESSIONS_INDEXED)
FILLED = [
    *(f"record_{name}" for name in ("context", "task", "message", "artifact", "run", "event")),
    "search_searchentry",
]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agents"]:
            register_agents()
        case ["tasks", slug, count]:
            make_tasks(slug, int(count))
        case ["record", slug, count]:
            make_tasks(slug, int(count), more=REST)
        case ["sessions", slug, count]:
            make_tasks(slug, int(count), more=(ACCEPTED, BETWEEN, *WITH_LOG), per_context=1)
        case ["workspaces", count]:
            open_workspaces(int(count))
        case _:
            raise SystemExit(__doc__)
