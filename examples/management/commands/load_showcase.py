"""`./manage.py load_showcase`."""

from typing import Any

from console.commands import QuickCommand
from examples.first_login import FirstLogin
from examples.loading import AGENTS, PLANS, load


class Command(QuickCommand):
    help = "Makes the showcase's users and agents where they are missing; changes nothing that people changed."

    def handle(self, *args: Any, **options: Any) -> None:
        loaded = load()
        for problem in loaded.problems:
            self.stderr.write(self.style.WARNING(problem))
        slugs = ", ".join([*(shown.slug for shown in AGENTS), *PLANS])
        self.stdout.write(f"The showcase is loaded: {slugs}. Its logins are in {FirstLogin.path()}.")
