"""`./manage.py archive_sessions [--session ID] [--dry-run]`."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.optional.archive import archiving
from apps.record.models import Context
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Moves archived sessions to cold storage: all that are due, or one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--session", type=uuid.UUID, help="only this session, even if it is not due")
        parser.add_argument("--dry-run", action="store_true", help="show what would be moved, and change nothing")

    def handle(self, *args: Any, session: uuid.UUID | None, dry_run: bool, **options: Any) -> None:
        chosen = Context.objects.filter(pk=session) if session else archiving.due_sessions()
        if session and not chosen.exists():
            raise CommandError(f"There is no session {session}.")
        moved = stayed = 0
        for context in chosen.iterator():
            if reason := self.reason(context, dry_run=dry_run):
                stayed += 1
                self.stdout.write(f"{context.pk} was not moved: {reason}")
            else:
                moved += 1
                self.stdout.write(f"{context.pk} {'would be moved' if dry_run else 'was moved'}")
        self.stdout.write(f"{moved} {'would be moved' if dry_run else 'moved'}, {stayed} not moved.")
        if session and stayed:
            raise CommandError("The session was not moved.")

    def reason(self, context: Context, *, dry_run: bool) -> str:
        """Why the session stays; "" if it is moved, or would be."""
        if dry_run:
            return archiving.first_obstacle(context)
        try:
            archiving.move_with_children(context)
            subject = audit.session_subject(context.pk)
            audit.record(AuditAction.SESSION_ARCHIVED, object=subject, workspace=context.workspace_id)
        except archiving.CannotArchive as reason:
            return str(reason)
        return ""
