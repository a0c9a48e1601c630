"""`./manage.py register_agent SLUG --handler dotted.path:Class [--access public]`, and more policies."""

import json
from argparse import ArgumentTypeError, BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentkit import HandlerError
from apps.agents.models import Agent
from apps.agents.registration import explain, register_hosted

POLICIES = ("access", "sign_artifacts", "extended_card")


def read_json(name: str) -> Any:
    """What a file says. Raises ArgumentTypeError."""
    try:
        return json.loads(Path(name).read_text())
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"{name} is no file with JSON.") from error


class Command(BaseCommand):
    help = "Registers or updates an agent that this platform hosts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--handler", required=True, metavar="dotted.path:Name")
        parser.add_argument("--access", choices=Agent.Access.values)
        parser.add_argument(
            "--sign-artifacts", action=BooleanOptionalAction, help="does it sign what it delivers? default: no"
        )

        parser.add_argument(
            "--extended-card", type=read_json, metavar="F", help="JSON file of what only known callers are told"
        )

    def handle(self, *args: Any, slug: str, handler: str, **options: Any) -> None:
        policies = {name: options[name] for name in POLICIES if options[name] is not None}
        try:
            agent = register_hosted(slug, handler, **policies)
        except HandlerError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(explain(error)) from error
        self.stdout.write(f"{agent.name} is registered at /a2a/{agent.slug} ({agent.get_access_display()}).")
