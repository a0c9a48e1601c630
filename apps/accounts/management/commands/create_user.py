"""`./manage.py create_user EMAIL [--operator]`."""

import secrets
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from parley.db.sql import write_transaction
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Creates a user and prints the password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--operator", action="store_true", help="give full access to the admin pages")

    def handle(self, *args: Any, email: str, operator: bool, **options: Any) -> None:
        if User.objects.filter(email__iexact=email.strip()).exists():
            raise CommandError(f"A user with the e-mail address {email} already exists.")
        password = secrets.token_urlsafe(12)
        user = User(email=email, is_staff=operator, is_superuser=operator)
        user.set_password(password)
        try:
            with write_transaction():
                User.objects.add(user)
                audit.record(AuditAction.USER_CREATED, object=user, details={"operator": operator})
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(password)
