"""`./manage.py runserver`: Daphne's. Its app is not installed: every command and worker would load a server."""

from daphne.management.commands.runserver import Command

__all__ = ["Command"]
