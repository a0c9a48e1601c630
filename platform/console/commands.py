"""A base of fast management commands."""

from django.core.management.base import BaseCommand


class QuickCommand(BaseCommand):
    """A command without Django's system checks, which double the start time.

    `serve`, `check`, `migrate` and workers run them.
    """

    requires_system_checks: list[str] = []
