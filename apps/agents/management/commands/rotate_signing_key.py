"""`./manage.py rotate_signing_key SLUG` or `--platform`, with `--algorithm` and `--revoke`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.agents.identities.signing import revoke_key, rotate_key
from apps.agents.models import Agent, SigningKey
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = (
        "Creates a new signing key for an agent or for the platform, and prints its id. Old signatures can still be "
        "verified, unless you use --revoke."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        owner = parser.add_mutually_exclusive_group(required=True)
        owner.add_argument("slug", nargs="?", help="slug of the agent")
        owner.add_argument("--platform", action="store_true", help="rotate the platform's own key")
        parser.add_argument("--algorithm", choices=SigningKey.Algorithm.values, default=SigningKey.Algorithm.EDDSA)
        parser.add_argument("--revoke", action="store_true", help="revoke the old key, because it may have leaked")

    def handle(self, *args: Any, slug: str | None, algorithm: str, **options: Any) -> None:
        agent = Agent.objects.filter(slug=slug).first() if slug else None
        if slug and agent is None:
            raise CommandError(f"There is no agent {slug}.")
        old = SigningKey.objects.of(agent).current().defer("private").first()
        new = rotate_key(agent, algorithm)
        if old and options["revoke"]:
            revoke_key(old)
        self.stdout.write(new.kid)
