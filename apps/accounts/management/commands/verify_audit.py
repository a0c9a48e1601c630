"""`./manage.py verify_audit [--expect HASH]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts import audit
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = (
        "Checks that no audit entry was changed or removed, and prints the newest entry's hash. Keep this hash "
        "elsewhere, and give it to --expect later: it shows if somebody wrote the whole audit again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--expect", default="", metavar="HASH", help="the hash of an entry that must be there")

    def handle(self, *args: Any, expect: str, **options: Any) -> None:
        found = audit.verify(expect.strip().lower())
        if found.problem:
            where = f"Entry {found.broken_at}: " if found.broken_at is not None else ""
            raise CommandError(f"{found.entries} good entries. {where}{found.problem}", returncode=1)
        self.stdout.write(f"{found.entries} entries. The audit is complete.")
        self.stdout.write(f"Hash of the newest: {found.head or 'none'}")
