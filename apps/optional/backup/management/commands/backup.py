"""`./manage.py backup FILE`."""

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.housekeeping import backups
from apps.operators import heartbeats
from apps.optional.backup.operations import REFUSALS, Choices, Manifest, Secret, check_possible, write_backup
from parley.faces.commands import ProgressLine, QuickCommand


class Command(QuickCommand):
    help = (
        "Writes the database, stored files and archived sessions into one file, as they are at one moment. "
        "Parley goes on serving meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="the new file, such as parley-2030-01-31.tar; - for standard output")
        secret = parser.add_mutually_exclusive_group()
        secret.add_argument("--passphrase-file", type=Path, metavar="F", help="encrypt with this file's passphrase")
        secret.add_argument("--encrypt-to", type=Path, metavar="KEYFILE", help="encrypt with this file's key")
        parser.add_argument(
            "--with-keys", action="store_true", help="also MASTER_KEY and SECRET_KEY; needs an encrypted backup"
        )
        parser.add_argument("--skip-missing-files", action="store_true", help="leave out stored files that are lost")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        progress = ProgressLine()
        try:
            if file == "-" and sys.stdout.isatty():
                raise CommandError("A backup is not shown in a terminal. Name a file, or send it to another program.")
            choices = Choices(chosen_secret(options, "encrypt_to"), options["with_keys"], options["skip_missing_files"])
            path = None if file == "-" else Path(file).absolute()
            check_possible(path, choices)
            details = {"encrypted": choices.secret is not None, "keys": choices.with_keys}
            audit.record(AuditAction.BACKUP_MADE, object=audit.Subject("file", label=file), details=details)
            place = str(path.parent) if path else "standard output"
            with backups.noted(place, path.name if path else "-", is_encrypted=choices.secret is not None) as row:
                manifest = write_backup(path, choices, progress)
                row.bytes = path.stat().st_size if path else 0
        except REFUSALS as refusal:
            raise CommandError(str(refusal)) from refusal
        finally:
            progress.clear()
        if settings.BACKUP_HEARTBEAT_URL:
            heartbeats.tell(settings.BACKUP_HEARTBEAT_URL)
        for line in _summary(manifest, is_encrypted=choices.secret is not None):
            self.stderr.write(line)


def chosen_secret(options: dict[str, Any], key_option: str) -> Secret | None:
    """The secret of `--passphrase-file`, or of the option for a key file. Raises CannotOpen."""
    if path := options["passphrase_file"]:
        return Secret.read(path, is_passphrase=True)
    return Secret.read(options[key_option], is_passphrase=False) if options[key_option] else None


def _summary(manifest: Manifest, *, is_encrypted: bool) -> list[str]:
    rows = sum(table["rows"] for table in manifest["tables"].values())
    files = manifest["files"]
    lines = [f"{rows:,} rows and {files['count']:,} files ({files['bytes'] / 1024**2:,.1f} MB)."]
    if files["missing"]:
        lines.append(f"{len(files['missing'])} lost files are left out; the manifest names them.")
    if manifest["masterKeys"]:
        lines.append(f"To use its stored secrets you need MASTER_KEY with the key {', '.join(manifest['masterKeys'])}.")
    if not is_encrypted:
        lines.append("The backup is not encrypted: whoever reads it reads all conversations.")
    return lines
