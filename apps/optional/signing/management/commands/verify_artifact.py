"""`./manage.py verify_artifact TASK_ID [ARTIFACT_ID]` or `--file task.json [ARTIFACT_ID]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from apps.optional.signing.models import Verdict
from apps.optional.signing.signatures import verdict_on, verdict_on_wire
from apps.record.models import Artifact, Task
from parley.faces.commands import QuickCommand

EXIT = {
    Verdict.GOOD: 0,
    Verdict.BROKEN: 3,
    Verdict.UNKNOWN_KEY: 4,
    Verdict.REVOKED: 5,
    Verdict.MISSING: 6,
    Verdict.PENDING: 7,
}

Verdicts = dict[str, Verdict]


class Command(QuickCommand):
    help = (
        "Verifies the signatures of a task's artifacts. The exit status is 0 if all are good; otherwise it is that "
        "of the first that is not: 3 broken, 4 unknown key, 5 revoked, 6 missing, 7 not verified yet. 1: nothing is "
        "there to verify."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="TASK_ID ARTIFACT_ID", help="with --file only ARTIFACT_ID")
        parser.add_argument(
            "--file", metavar="F", help="JSON file with a task, as GetTask returns it; - for standard input"
        )

    def handle(self, *args: Any, ids: list[str], file: str | None, **options: Any) -> None:
        if file is None and not ids:
            raise CommandError("Name a task, or a file with --file.")
        task, wanted = (file, ids) if file is not None else (ids[0], ids[1:])
        found = of_file(task) if file is not None else of_record(task)
        verdicts = {name: verdict for name, verdict in found.items() if not wanted or name in wanted}
        if not verdicts or set(wanted) - verdicts.keys():
            raise CommandError(f"There is no such artifact. The task has: {', '.join(found) or 'none'}.")
        for name, verdict in verdicts.items():
            self.stdout.write(f"{name}: {verdict}")
        if bad := [verdict for verdict in verdicts.values() if verdict != Verdict.GOOD]:
            raise CommandError("Not all signatures are good. Do not trust these artifacts.", returncode=EXIT[bad[0]])


def of_record(task_id: str) -> Verdicts:
    try:
        task = Task.objects.select_related("context").get(pk=task_id)
    except (Task.DoesNotExist, ValidationError):
        raise CommandError(f"There is no task {task_id}.") from None
    rows = Artifact.objects.delivered().filter(task=task).select_related("task__context")
    return {row.artifact_id: verdict_on(row) for row in rows}


def of_file(name: str) -> Verdicts:
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        task = task_in(json.loads(content))
        return {
            artifact["artifactId"]: verdict_on_wire(artifact, task["id"], task["contextId"])
            for artifact in task.get("artifacts", [])
        }
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CommandError(f"{name} is not an A2A 1.0 task.") from error


def task_in(answer: Any) -> Any:
    for name in ("result", "task"):
        answer = answer.get(name, answer)
    return answer
