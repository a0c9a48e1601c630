"""`./manage.py verify_record [--sample N]`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.optional.backup.operations import Comparison, compare_sessions
from apps.record.chain import missing_triggers
from parley.faces.commands import ProgressLine, QuickCommand


class Command(QuickCommand):
    help = (
        "Replays the logs of all sessions and compares the result with their rows, and reads the archives in cold "
        "storage. It changes nothing. Exits with 1 if something differs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_sample(parser)

    def handle(self, *args: Any, sample: int | None, **options: Any) -> None:
        progress = ProgressLine()
        try:
            comparison = compare_sessions(sample, progress)
        finally:
            progress.clear()
        report(self, comparison)


def add_sample(parser: CommandParser) -> None:
    parser.add_argument("--sample", type=int, metavar="N", help="compare N random sessions instead of all; 0: none")


def report(command: BaseCommand, comparison: Comparison) -> None:
    """Print what was compared. Raises CommandError if a session differs, or the database does not protect the log."""
    for line in comparison.lines:
        command.stdout.write(line)
    if missing := missing_triggers():
        raise CommandError(f"The log is not protected: the database has no trigger {', '.join(missing)}.", returncode=1)
    if comparison.differing:
        raise CommandError(
            f"{comparison.differing} of {comparison.sessions} sessions differ from their logs.", returncode=1
        )
    if comparison.sessions:
        command.stdout.write(f"{comparison.sessions:,} sessions were replayed and match their logs.")
