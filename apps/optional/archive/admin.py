"""Operators archive and restore sessions."""

from typing import Any

from django.contrib import admin

from apps.operators.actions import admin_of
from apps.optional.archive.archiving import SESSIONS
from apps.record.models import Context

ContextAdmin: Any = admin_of(Context)


@admin.register(Context)
class ArchivingAdmin(ContextAdmin):
    resource = SESSIONS
    acts = SESSIONS.acts
