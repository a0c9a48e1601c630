"""`./manage.py restore_session ID`."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.record.models import Context
from apps.record.reading.lookup import DamagedArchive, restored
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Restores a session from cold storage."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session", type=uuid.UUID)

    def handle(self, *args: Any, session: uuid.UUID, **options: Any) -> None:
        context = Context.objects.filter(pk=session, deleted_at=None).first()
        if context is None:
            raise CommandError(f"There is no session {session}.")
        if not context.cold_file:
            self.stdout.write("The session is not in cold storage.")
            return
        try:
            restored(context)
        except (DamagedArchive, FileNotFoundError) as error:
            raise CommandError(f"{error}") from error
        subject = audit.session_subject(session)
        audit.record(AuditAction.SESSION_RESTORED, object=subject, workspace=context.workspace_id)
        self.stdout.write(f"Restored {session} with {context.last_event} events.")
