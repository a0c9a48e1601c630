"""Commands that operators type, and scripts call in turn: each starts as fast as it can."""

from django.core.management.base import BaseCommand


class QuickCommand(BaseCommand):
    """A command that does not look over the code first.

    Django's system checks load every page and every form, which takes as long as all else that a start does. They find
    mistakes of the code and the settings: `serve`, `check`, `migrate` and a worker that starts have them found.
    """

    requires_system_checks: list[str] = []
