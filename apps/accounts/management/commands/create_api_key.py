"""`./manage.py create_api_key EMAIL [--name N] [--scopes a,b] [--expires DAYS]`."""

import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.keys import record_new_key
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import SCOPES
from console.commands import QuickCommand
from db.sql import write_transaction


class Command(QuickCommand):
    help = "Creates an API key for a user and prints it once. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="command line", help="a name to recognize the key by")
        parser.add_argument("--scopes", default="", help=f"comma-separated: {', '.join(SCOPES)}; default: all")
        parser.add_argument("--expires", type=int, metavar="DAYS", help="days until the key expires; default: never")

    def handle(self, *args: Any, email: str, name: str, scopes: str, expires: int | None, **options: Any) -> None:
        user = User.objects.filter(email__iexact=email.strip()).first()
        if user is None:
            raise CommandError(f"There is no user {email}. Create one with ./manage.py create_user {email}")
        if expires is not None and expires < 1:
            raise CommandError("--expires must be at least 1 day.")
        lifetime = datetime.timedelta(days=expires) if expires else None
        wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        try:
            with write_transaction():
                key, text = ApiKey.issue(user, name, scopes=wanted, lifetime=lifetime)
                record_new_key(key)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(text)
