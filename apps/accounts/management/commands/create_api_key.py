"""`./manage.py create_api_key EMAIL [--name N] [--scopes a,b] [--expires DAYS] [--public-key FILE]`."""

import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.keys import record_new_key
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import SCOPES
from apps.accounts.secrets.request_signatures import read_public_key
from parley.db.sql import write_transaction
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Creates an API key for a user and prints it once. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="command line", help="a name to recognize the key by")
        parser.add_argument("--scopes", default="", help=f"comma-separated: {', '.join(SCOPES)}; default: all")
        parser.add_argument("--expires", type=int, metavar="DAYS", help="days until the key expires; default: never")
        parser.add_argument(
            "--public-key", type=Path, metavar="FILE", help="PEM or JWK; requests must be signed by its private key"
        )

    def handle(
        self,
        *args: Any,
        email: str,
        name: str,
        scopes: str,
        expires: int | None,
        public_key: Path | None,
        **options: Any,
    ) -> None:
        user = User.objects.filter(email__iexact=email.strip()).first()
        if user is None:
            raise CommandError(f"There is no user {email}. Create one with ./manage.py create_user {email}")
        if expires is not None and expires < 1:
            raise CommandError("--expires must be at least 1 day.")
        lifetime = datetime.timedelta(days=expires) if expires else None
        wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        try:
            pem = read_public_key(public_key.read_text()) if public_key else ""
            with write_transaction():
                key, text = ApiKey.issue(user, name, scopes=wanted, lifetime=lifetime, public_key=pem)
                record_new_key(key)
        except (ValueError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(text)
