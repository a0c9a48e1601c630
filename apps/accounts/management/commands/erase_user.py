"""`./manage.py erase_user EMAIL|ID [--dry-run]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.errors import Refusal
from apps.accounts.models import User
from apps.accounts.people import erasure
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Deletes a person's account and data for good, as they do in Settings, and says what stays and why."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("person", metavar="EMAIL|ID", help="the e-mail address, or the account's number")
        parser.add_argument("--dry-run", action="store_true", help="say what would stay, and change nothing")

    def handle(self, *args: Any, person: str, dry_run: bool, **options: Any) -> None:
        named = {"pk": int(person)} if person.isdecimal() else {"email__iexact": person.strip()}
        found = User.objects.filter(**named).first()
        if found is None:
            raise CommandError(f"There is no user {person}.", returncode=1)
        if not dry_run:
            try:
                found = erasure.erase(found)
            except Refusal as reason:
                raise CommandError(str(reason), returncode=1) from None
        done = "is erased" if found.erased_at else "is not erased"
        self.stdout.write(f"Account {found.pk} {done}. What stays, and why:")
        for one in erasure.remains_of(found):
            self.stdout.write(f"- {one}")
