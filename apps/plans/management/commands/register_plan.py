"""`./manage.py register_plan SLUG plan.yaml [--samples FOLDER] [--access …] [--owner EMAIL]`."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record.errors import InvalidFields
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Registers or updates a plan. Says what is wrong with one that cannot work."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("file", help="the plan as YAML or JSON")
        parser.add_argument(
            "--samples",
            type=Path,
            metavar="FOLDER",
            help="has the sample files that the plan names; default: the folder of the plan",
        )
        parser.add_argument("--access", choices=Agent.Access.values)
        parser.add_argument(
            "--owner", metavar="EMAIL", help="its owner, who must be able to use its agents; default: the installation"
        )

    def handle(self, *args: Any, slug: str, file: str, access: str | None, owner: str | None, **options: Any) -> None:
        author = User.objects.filter(email__iexact=owner).first() if owner else None
        if owner and author is None:
            raise CommandError(f"There is no user {owner}. Create one with create_user.")
        policies = {"access": access} if access else {}
        try:
            definition = PlanDefinition.from_yaml(Path(file).read_text(encoding="utf-8"))
            definition = definition.with_samples(options["samples"] or Path(file).parent)
            agent = register_plan(slug, definition, author=author, **policies)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} is not a text file that can be read.") from error
        except ValidationError as error:
            sentences = [f"{path}: {said}" for path, said in InvalidFields.of(error).violations]
            raise CommandError("\n".join([f"The plan {slug} was not registered:", *sentences])) from error
        self.stdout.write(f"{agent.name} is registered at /a2a/{agent.slug} ({agent.get_access_display()}).")
