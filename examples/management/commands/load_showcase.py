"""`./manage.py load_showcase`."""

from typing import Any

from django.core.management.base import BaseCommand

from examples.showcase import AGENTS, PLANS, FirstLogin, load_showcase


class Command(BaseCommand):
    help = "Makes the showcase's users and agents where they are missing; changes nothing that people changed."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        loaded = load_showcase()
        for problem in loaded.problems:
            self.stderr.write(self.style.WARNING(problem))
        slugs = ", ".join([*(shown.slug for shown in AGENTS), *PLANS])
        self.stdout.write(f"The showcase is loaded: {slugs}. Its logins are in {FirstLogin.path()}.")
