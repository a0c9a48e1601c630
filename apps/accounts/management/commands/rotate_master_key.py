"""`./manage.py rotate_master_key`: the second half of changing `MASTER_KEY`."""

from typing import Any

from django.core.management.base import CommandError

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.people.sign_in import reencrypt_second_factors
from apps.accounts.secrets.encryption import encrypted_fields, reencrypt
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = (
        "Encrypts all secrets in the database with the first key of MASTER_KEY. To change the key, put a new one in "
        "front (MASTER_KEY=new,old), restart, run this command, and remove the old key. It is safe to run it again."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        renewed = unreadable = 0
        for count in (*map(reencrypt, encrypted_fields()), reencrypt_second_factors()):
            renewed += count.renewed
            unreadable += count.unreadable
            self.stdout.write(f"{count.column}: {count.renewed} encrypted with the new key")
            if count.unreadable:
                self.stderr.write(f"{count.column}: {count.unreadable} could not be read. {count.reason}")
        audit.record(AuditAction.SECRETS_REENCRYPTED, details={"renewed": renewed, "unreadable": unreadable})
        if unreadable:
            raise CommandError(f"{unreadable} values were not changed. Keep the old keys in MASTER_KEY.", returncode=1)
