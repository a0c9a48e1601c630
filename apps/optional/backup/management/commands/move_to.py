"""`./manage.py move_to postgres://…`."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from apps.optional.backup.management.commands.verify_record import add_sample
from apps.optional.backup.operations import (
    REFUSALS,
    StillServing,
    check_unused,
    copy_database,
    target_database,
    verify_there,
)
from parley.faces.commands import ProgressLine, QuickCommand


class Command(QuickCommand):
    help = (
        "Copies everything in the database into an empty PostgreSQL database, and compares the sessions there with "
        "their logs. Stop Parley first. Files stay in DATA_DIR."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", help="the new database: postgres://user:password@host/name")
        parser.add_argument(
            "--while-serving", action="store_true", help="copy though Parley runs: what is written later is not moved"
        )
        add_sample(parser)

    def handle(self, *args: Any, url: str, while_serving: bool, sample: int | None, **options: Any) -> None:
        progress = ProgressLine()
        try:
            if not while_serving:
                check_unused()
            with target_database(url) as target:
                summaries = copy_database(target, progress)
            rows = sum(summary["rows"] for summary in summaries.values())
            self.stdout.write(f"Copied {rows:,} rows of {len(summaries)} tables.")
            progress("comparing the sessions with their logs")
            is_well, words = verify_there(url, sample)
        except StillServing as refusal:
            raise CommandError(f"{refusal} (--while-serving copies what is there now.)") from refusal
        except REFUSALS as refusal:
            raise CommandError(str(refusal)) from refusal
        finally:
            progress.clear()
        self.stdout.write(words)
        if not is_well:
            raise CommandError("The copy is complete, but some sessions could not be verified.", returncode=1)
        self.stdout.write(_next_steps(while_serving=while_serving))


def _next_steps(*, while_serving: bool) -> str:
    lines = [
        "",
        "Next (docs/running/moving-to-services.md):",
        "  1. Set DATABASE_URL to the new database, CELERY_BROKER_URL to a broker, and CHANNEL_LAYER_URL to a Redis.",
        f"  2. Set SECRET_KEY and MASTER_KEY as they are now (the embedded profile keeps them in {settings.DATA_DIR}/"
        "secret-key and master-key).",
        f"  3. Keep DATA_DIR ({settings.DATA_DIR}), and share it between all processes: files stay there.",
        "  4. Start web processes, workers and one beat.",
    ]
    if while_serving:
        lines.insert(1, "What was written since the copy began is not in the new database.")
    return "\n".join(lines)
