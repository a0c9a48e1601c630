"""Notes in the audit which private addresses the settings allow: they change without a person who signs in."""

from __future__ import annotations

from django.conf import settings

from apps.accounts import audit
from apps.accounts.audit import Subject
from apps.accounts.audit_models import AuditAction, AuditEntry


def note_settings() -> None:
    """An entry if OUTBOUND_ALLOW differs from what the newest such entry says."""
    now = audit.plain({"allowed": sorted(settings.OUTBOUND_ALLOW)})
    newest = AuditEntry.objects.filter(action=AuditAction.ALLOWANCE_SETTING).order_by("-number").first()
    if now != (newest.details if newest else {"allowed": []}):
        audit.record(AuditAction.ALLOWANCE_SETTING, object=Subject("setting", label="OUTBOUND_ALLOW"), details=now)
