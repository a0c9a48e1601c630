"""`./manage.py replay CONTEXT_ID`."""

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.record.chain import missing_triggers
from apps.record.models import Context
from apps.record.projection import differences, log_of
from apps.record.reading.lookup import restored
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = (
        "Replays a session's events and compares the result with its rows, and the events with their hashes. "
        "Exits with 1 if something differs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("context_id", help="the session's id, or its A2A contextId")

    def handle(self, *args: Any, context_id: str, **options: Any) -> None:
        contexts = self.find(context_id)
        if not contexts:
            raise CommandError(f"There is no session {context_id}.")
        found = [line for context in contexts for line in differences(restored(context).pk)]
        found += [
            f"the database does not protect the log: its trigger {name} is missing" for name in missing_triggers()
        ]
        for line in found:
            self.stdout.write(line)
        if found:
            raise CommandError(f"{len(found)} differences between the log and the rows.", returncode=1)
        events = sum(context.last_event for context in contexts)
        unhashed = sum(log_of(context.pk).filter(hash=None).count() for context in contexts)
        self.stdout.write(f"The rows match the log's {events} events.")
        if unhashed:
            self.stdout.write(f"{unhashed} of them have no hash: an earlier version recorded them.")

    def find(self, context_id: str) -> list[Context]:
        try:
            return list(Context.objects.filter(pk=uuid.UUID(context_id))) or list(
                Context.objects.filter(context_id=context_id)
            )
        except ValueError:
            return list(Context.objects.filter(context_id=context_id))
