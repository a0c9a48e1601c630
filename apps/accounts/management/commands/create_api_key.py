"""`./manage.py create_api_key EMAIL [--name N] [--scopes a,b] [--expires DAYS]`."""

import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import ApiKey, User
from apps.accounts.principals import SCOPES
from console.commands import QuickCommand


class Command(QuickCommand):
    help = "Makes an API key of a user and prints it alone: it is not shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="command line")
        parser.add_argument(
            "--scopes", default="", help=f"comma-separated, of {', '.join(SCOPES)}; empty means everything"
        )
        parser.add_argument("--expires", type=int, metavar="DAYS")

    def handle(self, *args: Any, email: str, name: str, scopes: str, expires: int | None, **options: Any) -> None:
        user = User.objects.filter(email__iexact=email.strip()).first()
        if user is None:
            raise CommandError(f"There is no user {email}. Make one with ./manage.py create_user {email}")
        if expires is not None and expires < 1:
            raise CommandError("--expires takes a number of days of at least 1.")
        lifetime = datetime.timedelta(days=expires) if expires else None
        wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        try:
            _, text = ApiKey.issue(user, name, scopes=wanted, lifetime=lifetime)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(text)
