"""`./manage.py verify_record [--sample N]`."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.optional.backup.operations import compare_sessions
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
        compare(self, sample, ProgressLine())


def add_sample(parser: CommandParser) -> None:
    parser.add_argument("--sample", type=_number, metavar="N", help="compare N random sessions instead of all; 0: none")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("Write how many, such as 100.")
    return int(text)


def compare(command: BaseCommand, sample: int | None, progress: ProgressLine) -> None:
    """Compare sessions with their logs. Raises CommandError if one differs, or the database does not protect logs."""

    def tell(line: str) -> None:
        progress.clear()
        command.stdout.write(line)

    try:
        comparison = compare_sessions(sample, progress, tell)
    finally:
        progress.clear()
    if missing := missing_triggers():
        raise CommandError(f"The log is not protected: the database has no trigger {', '.join(missing)}.", returncode=1)
    if comparison.differing:
        raise CommandError(
            f"{comparison.differing:,} of {comparison.sessions:,} sessions differ from their logs.", returncode=1
        )
    if comparison.sessions:
        command.stdout.write(f"{comparison.sessions:,} sessions were replayed and match their logs.")
