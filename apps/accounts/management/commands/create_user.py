"""`./manage.py create_user EMAIL [--operator]`."""

import secrets
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import User
from console.commands import QuickCommand


class Command(QuickCommand):
    help = "Makes a user and prints the password alone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--operator", action="store_true", help="may open the admin pages and do everything there")

    def handle(self, *args: Any, email: str, operator: bool, **options: Any) -> None:
        if User.objects.filter(email__iexact=email.strip()).exists():
            raise CommandError(f"{email} exists already.")
        make = User.objects.create_superuser if operator else User.objects.create_user
        password = secrets.token_urlsafe(12)
        try:
            make(email, password)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(password)
