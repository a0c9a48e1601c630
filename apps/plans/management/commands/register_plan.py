"""`./manage.py register_plan SLUG plan.yaml [--access …] [--owner EMAIL]`."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from console.commands import QuickCommand


class Command(QuickCommand):
    help = "Registers or updates a plan, and says what is wrong with one that could not work."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("file", help="the plan as YAML or JSON")
        parser.add_argument("--access", choices=Agent.Access.values)
        parser.add_argument(
            "--owner", metavar="EMAIL", help="whose it is, with the agents that they may use; default: the installation"
        )

    def handle(self, *args: Any, slug: str, file: str, access: str | None, owner: str | None, **options: Any) -> None:
        author = User.objects.filter(email__iexact=owner).first() if owner else None
        if owner and author is None:
            raise CommandError(f"There is no user {owner}. Make one with create_user.")
        policies = {"access": access} if access else {}
        try:
            definition = PlanDefinition.from_yaml(Path(file).read_text(encoding="utf-8"))
            agent = register_plan(slug, definition, author=author, **policies)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} is no file with text.") from error
        except ValidationError as error:
            sentences = [f"{path}: {one}" for path, found in error.message_dict.items() for one in found]
            raise CommandError("\n".join([f"{slug} is not registered.", *sentences])) from error
        self.stdout.write(f"{agent.name} is registered at /a2a/{agent.slug} ({agent.get_access_display()}).")
