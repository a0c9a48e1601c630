"""`./manage.py register_agent SLUG --handler dotted.path:Class [--access public] [--sign-artifacts]`."""

from argparse import BooleanOptionalAction
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentkit import HandlerError
from apps.agents.models import Agent
from apps.agents.registration import explain, register_hosted


class Command(BaseCommand):
    help = "Registers or updates an agent that this platform hosts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--handler", required=True, metavar="dotted.path:Name")
        parser.add_argument("--access", choices=Agent.Access.values)
        parser.add_argument(
            "--sign-artifacts", action=BooleanOptionalAction, help="does it sign what it delivers? default: no"
        )

    def handle(self, *args: Any, slug: str, handler: str, **options: Any) -> None:
        policies = {name: options[name] for name in ("access", "sign_artifacts") if options[name] is not None}
        try:
            agent = register_hosted(slug, handler, **policies)
        except HandlerError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(explain(error)) from error
        self.stdout.write(f"{agent.name} is registered at /a2a/{agent.slug} ({agent.get_access_display()}).")
