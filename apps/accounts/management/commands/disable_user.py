"""`./manage.py disable_user EMAIL [--enable]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts import audit, revocation
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from parley.db.sql import write_transaction
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Ends all access of a person within seconds: keys, sessions, streams and sockets. Deletes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--enable", action="store_true", help="give the access back")

    def handle(self, *args: Any, email: str, enable: bool, **options: Any) -> None:
        with write_transaction():
            person = User.objects.select_for_update().filter(email__iexact=email.strip(), erased_at=None).first()
            if person is None:
                raise CommandError(f"There is no user with the e-mail address {email}.")
            (revocation.enable if enable else revocation.disable)(person)
            audit.record(
                AuditAction.USER_CHANGED, object=person, details={"given" if enable else "taken": ["is_active"]}
            )
        self.stdout.write(f"{person} can {'sign in again' if enable else 'no longer sign in'}.")
