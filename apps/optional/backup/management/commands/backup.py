"""`./manage.py backup PLACE`."""

import argparse
import datetime
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import connections

from apps.housekeeping.models import Backup
from apps.operators import heartbeats
from apps.optional.backup.operations import (
    PERIODS,
    REFUSALS,
    BadBackup,
    Choices,
    Made,
    Secret,
    Stored,
    make_backup,
    stored_at,
)
from parley.faces.commands import ProgressLine, QuickCommand

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
RETRY = datetime.timedelta(minutes=10)  # after a failure, or as soon as the next one is due


class Command(QuickCommand):
    help = (
        "Writes the database, stored files and archived sessions into one file, as they are at one moment. "
        "Parley goes on serving meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "place",
            metavar="PLACE",
            help="a new file, such as parley-2030-01-31.tar; a folder or s3://BUCKET/FOLDER, where each backup gets a "
            "name; - for standard output",
        )
        secret = parser.add_mutually_exclusive_group()
        secret.add_argument("--passphrase-file", type=Path, metavar="F", help="encrypt with this file's passphrase")
        secret.add_argument("--encrypt-to", type=Path, metavar="KEYFILE", help="encrypt with this file's key")
        parser.add_argument(
            "--with-keys", action="store_true", help="also MASTER_KEY and SECRET_KEY; needs an encrypted backup"
        )
        parser.add_argument("--skip-missing-files", action="store_true", help="leave out stored files that are lost")
        parser.add_argument(
            "--every",
            type=interval,
            metavar="TIME",
            help="make one each 30m, 6h, 1d …, until stopped",
        )
        keeping = parser.add_argument_group("what stays in the folder", "Without these, everything stays.")
        for period in PERIODS:
            which = "newest backups" if period == "last" else f"newest {period} backups"
            keeping.add_argument(f"--keep-{period}", type=count, default=0, metavar="N", help=f"keep the N {which}")

    def handle(self, *args: Any, place: str, **options: Any) -> None:
        rules = {period: number for period in PERIODS if (number := options[f"keep_{period}"])}
        try:
            target = stored_at(str(place))
            if target.name and (rules or options["every"]):
                raise BadBackup(f"--every and --keep-… are for a folder, and {place} is none. Make it first.")
            choices = Choices(chosen_secret(options, "encrypt_to"), options["with_keys"], options["skip_missing_files"])
        except REFUSALS as refusal:
            raise CommandError(str(refusal)) from refusal
        with _ending_well():
            if options["every"]:
                self._repeat(options["every"], target, choices, rules)
            else:
                self._once(target, choices, rules)

    def _once(self, target: Stored, choices: Choices, rules: dict[str, int]) -> None:
        if target.name == "-" and sys.stdout.isatty():
            raise CommandError("A backup is not shown in a terminal. Name a file, or send it to another program.")
        try:
            made = _make(target, choices, rules)
        except REFUSALS as refusal:
            raise CommandError(str(refusal)) from refusal
        for line in _summary(made):
            self.stderr.write(line)
        if made.pruned.problem:
            raise CommandError("The backup is complete, but older ones could not be deleted.")

    def _repeat(self, every: datetime.timedelta, target: Stored, choices: Choices, rules: dict[str, int]) -> None:
        """Until a signal ends it. What fails is said in a line, and tried again."""
        due = None
        while True:
            now = datetime.datetime.now(datetime.UTC)
            said = ""
            try:
                if due is None:
                    due = _first(every, target)
                else:
                    said, due = " ".join(_summary(_make(target, choices, rules))), now + every
            except Exception as error:  # whatever it is, the next one may succeed
                said, due = f"FAILED: {error or type(error).__name__}", now + min(every, RETRY)
            finally:
                connections.close_all()  # an idle connection does not live for hours everywhere
            if said:
                self.stdout.write(f"{now:%F %T} {' '.join(said.split())} Next: {due:%F %T} UTC.")
                self.stdout.flush()
            pause(max(0.0, (due - datetime.datetime.now(datetime.UTC)).total_seconds()))


pause = time.sleep


def _first(every: datetime.timedelta, target: Stored) -> datetime.datetime:
    """Now, or when the next one is due after the last one there: a process that starts again makes no further one."""
    last = Backup.objects.complete().filter(place=target.place.label).first()
    return last.started_at + every if last else datetime.datetime.now(datetime.UTC)


def _make(target: Stored, choices: Choices, rules: dict[str, int]) -> Made:
    target, progress = target.named(), ProgressLine()
    try:
        made = make_backup(target, choices, progress, rules)
    finally:
        progress.clear()
    if settings.BACKUP_HEARTBEAT_URL:
        heartbeats.tell(settings.BACKUP_HEARTBEAT_URL)
    return made


@contextmanager
def _ending_well() -> Iterator[None]:
    """SIGTERM ends the process, too, without half of a backup."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def interval(text: str) -> datetime.timedelta:
    if not (found := re.fullmatch(r"([1-9]\d{0,4})([smhdw])", text)):
        raise argparse.ArgumentTypeError("Write a number and s, m, h, d or w, such as 30m, 6h or 1d.")
    return datetime.timedelta(**{UNITS[found[2]]: int(found[1])})


def count(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text):
        raise argparse.ArgumentTypeError("Write how many, such as 7.")
    return int(text)


def chosen_secret(options: dict[str, Any], key_option: str) -> Secret | None:
    """The secret of `--passphrase-file`, or of the option for a key file. Raises CannotOpen."""
    if path := options["passphrase_file"]:
        return Secret.read(path, is_passphrase=True)
    return Secret.read(options[key_option], is_passphrase=False) if options[key_option] else None


def _summary(made: Made) -> list[str]:
    manifest = made.manifest
    rows = sum(table["rows"] for table in manifest["tables"].values())
    files = manifest["files"]
    lines = [
        f"{made.row.name}: {rows:,} rows and {files['count']:,} files ({files['bytes'] / 1024**2:,.1f} MB), "
        f"{made.row.bytes / 1024**2:,.1f} MB in all."
    ]
    if files["missing"]:
        lines.append(f"{len(files['missing'])} lost files are left out; the manifest names them.")
    if manifest["masterKeys"]:
        lines.append(f"To use its stored secrets you need MASTER_KEY with the key {', '.join(manifest['masterKeys'])}.")
    if not made.row.is_encrypted:
        lines.append("The backup is not encrypted: whoever reads it reads all conversations.")
    if deleted := made.pruned.deleted:
        lines.append(f"Deleted {len(deleted)} older: {', '.join(deleted[:3])}{' …' if deleted[3:] else ''}.")
    if made.pruned.problem:
        lines.append(f"Older backups could not be deleted: {made.pruned.problem}")
    lines += [f"{name} has another size than when it was written: do not rely on it." for name in made.pruned.damaged]
    return lines
