"""`./manage.py register_agent SLUG --handler dotted.path:Class | --from agent.yaml | --card URL`, and policies."""

import json
from argparse import ArgumentTypeError, BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from agentkit import HandlerError
from apps.agents.definitions import Definition
from apps.agents.models import Agent
from apps.agents.registration import error_text, register_hosted, register_model
from apps.remote.errors import RemoteError
from apps.remote.registration import register_remote
from console.commands import QuickCommand
from outbound import OutboundError

POLICIES = ("access", "sign_artifacts", "extended_card", "fallbacks")


def read_json(name: str) -> Any:
    """Raises ArgumentTypeError."""
    try:
        return json.loads(Path(name).read_text())
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"{name} is no file with JSON.") from error


def read_text(name: str) -> str:
    """Raises ArgumentTypeError."""
    try:
        return Path(name).read_text()
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"{name} is no file with text.") from error


class Command(QuickCommand):
    help = (
        "Registers or updates an agent: one that this platform hosts, with a handler or without code, or a remote one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--handler", metavar="dotted.path:Name")
        what.add_argument("--from", type=read_text, metavar="F", dest="definition", help="YAML of one without code")
        what.add_argument("--card", metavar="URL|FILE", help="URL of a remote agent or of its card, or a file with it")
        parser.add_argument("--access", choices=Agent.Access.values)
        parser.add_argument(
            "--fallback", action="append", dest="fallbacks", metavar="SLUG",
            help="who takes its turns when it cannot be reached; several: the first first",
        )  # fmt: skip
        parser.add_argument(
            "--sign-artifacts", action=BooleanOptionalAction, help="does it sign what it delivers? default: no"
        )

        parser.add_argument(
            "--extended-card", type=read_json, metavar="F", help="JSON file of what only known callers are told"
        )

    def handle(self, *args: Any, slug: str, **options: Any) -> None:
        policies = {name: options[name] for name in POLICIES if options[name] is not None}
        try:
            agent = registered(slug, options, policies)
        except (HandlerError, RemoteError, OutboundError, ArgumentTypeError) as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(error_text(error)) from error
        self.stdout.write(f"{agent.name} is registered at /a2a/{agent.slug} ({agent.get_access_display()}).")


def registered(slug: str, options: dict[str, Any], policies: dict[str, Any]) -> Agent:
    """Raises HandlerError, RemoteError, OutboundError, ValidationError, ArgumentTypeError."""
    if options["handler"] is not None:
        return register_hosted(slug, options["handler"], **policies)
    if options["definition"] is not None:
        return register_model(slug, Definition.from_yaml(options["definition"]), **policies)
    card: str = options["card"]
    if card.startswith(("http://", "https://")):
        return register_remote(slug, url=card, update=True, **policies)
    return register_remote(slug, card=read_text(card), update=True, **policies)
