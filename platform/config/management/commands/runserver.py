"""`./manage.py runserver`: Daphne's, for whoever types it out of habit.

Daphne's app, which brings it, is not installed: each command and each worker would load a server with it.
"""

from daphne.management.commands.runserver import Command

__all__ = ["Command"]
