"""`./manage.py rotate_master_key`: the second half of changing `MASTER_KEY`."""

from typing import Any

from django.core.management.base import CommandError

from apps.accounts.encryption import encrypted_fields, reencrypt
from console.commands import QuickCommand


class Command(QuickCommand):
    help = (
        "Encrypts all secrets in the database under the first key of MASTER_KEY. To change the key: put a new one in "
        "front (MASTER_KEY=new,old), restart, run this, and take the old one away. It can be repeated."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = 0
        for field in encrypted_fields():
            count = reencrypt(field)
            unreadable += count.unreadable
            self.stdout.write(f"{count.column}: {count.renewed} encrypted anew")
            if count.unreadable:
                self.stderr.write(f"{count.column}: {count.unreadable} could not be read. {count.reason}")
        if unreadable:
            raise CommandError(f"{unreadable} values stay as they were. Keep the old keys in MASTER_KEY.", returncode=1)
