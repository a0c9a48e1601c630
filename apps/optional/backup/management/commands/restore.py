"""`./manage.py restore FILE`."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from apps.optional.backup.management.commands.backup import chosen_secret
from apps.optional.backup.management.commands.verify_record import add_sample, compare
from apps.optional.backup.operations import (
    REFUSALS,
    Manifest,
    read_keys,
    restore_backup,
    stored_at,
    verify_backup,
)
from apps.record.execution import Run
from parley.faces.commands import ProgressLine, QuickCommand


class Command(QuickCommand):
    help = (
        "Fills an empty database and an empty DATA_DIR with a backup, verifies it, and compares the sessions with "
        "their logs. Everything is restored, or nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="the backup: a path, or s3://BUCKET/FOLDER/FILE.tar")
        secret = parser.add_mutually_exclusive_group()
        secret.add_argument("--passphrase-file", type=Path, metavar="F", help="the file of the passphrase")
        secret.add_argument("--decrypt-with", type=Path, metavar="KEYFILE", help="the key file")
        parser.add_argument(
            "--keys-to", type=Path, metavar="F", help="only write the keys of a backup made with --with-keys"
        )
        parser.add_argument(
            "--without-master-key", action="store_true", help="restore though stored secrets cannot be read here"
        )
        parser.add_argument("--verify-only", action="store_true", help="only read the backup to its end and compare it")
        add_sample(parser)
        parser.add_argument(
            "--no-verify", dest="sample", action="store_const", const=0, help="do not compare sessions with their logs"
        )

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        progress = ProgressLine()
        try:
            backup, secret = stored_at(str(file)), chosen_secret(options, "decrypt_with")
            if options["keys_to"]:
                self._write_keys(options["keys_to"], read_keys(backup, secret))
                return
            if options["verify_only"]:
                self.stdout.write(_verified(verify_backup(backup, secret, progress)))
                return
            manifest = restore_backup(backup, secret, progress, without_master_key=options["without_master_key"])
            self.stdout.write(_restored(manifest))
        except REFUSALS as refusal:
            raise CommandError(str(refusal)) from refusal
        finally:
            progress.clear()
        compare(self, options["sample"], progress)
        self.stdout.write(_next_steps())

    def _write_keys(self, path: Path, keys: dict[str, str]) -> None:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        with open(handle, "w") as out:
            out.writelines(f"{name}={value}\n" for name, value in keys.items())
        self.stdout.write(f"The keys are in {path}. Set them in the environment or in .env, then restore.")


def _verified(manifest: Manifest) -> str:
    rows = sum(table["rows"] for table in manifest["tables"].values())
    return (
        f"The backup is whole: {rows:,} rows and {manifest['files']['count']:,} files of {manifest['madeAt'][:19]} UTC,"
        f" of Parley {manifest['parley']} on {manifest['vendor']}."
    )


def _restored(manifest: Manifest) -> str:
    rows = sum(table["rows"] for table in manifest["tables"].values())
    return (
        f"Restored {rows:,} rows and {manifest['files']['count']:,} files of {manifest['madeAt'][:19]} UTC,"
        f" of Parley {manifest['parley']}."
    )


def _next_steps() -> str:
    start = "./manage.py serve" if settings.EMBEDDED else "./manage.py prepare, then web processes, workers and beat"
    unfinished = Run.objects.unfinished().count()
    lines = ["", "Next:", f"  1. Start Parley ({start}). Everybody signs in again; API keys work as before."]
    if unfinished:
        lines.append(f"     {unfinished} unfinished runs go on by themselves, as after a crash.")
    lines.append("  2. Do not run the old installation beside it: both would call the same webhooks and agents.")
    return "\n".join(lines)
