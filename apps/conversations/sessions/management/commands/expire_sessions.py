"""`./manage.py expire_sessions [--dry-run]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.conversations.sessions import deletion
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Deletes sessions whose retention time is over."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="show what would be deleted, and change nothing")

    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        if dry_run:
            overdue = deletion.expired_sessions()
            for context in overdue.only("pk", "updated_at", "last_event").iterator():
                self.stdout.write(
                    f"{context.pk} unchanged since {context.updated_at:%Y-%m-%d}, {context.last_event} events"
                )
            self.stdout.write(f"{overdue.count()} sessions would be deleted.")
            return
        gone = 0
        while number := deletion.delete_expired_sessions():
            gone += number
        self.stdout.write(f"Deleted {gone} sessions.")
