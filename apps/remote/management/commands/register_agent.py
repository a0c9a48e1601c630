"""`./manage.py register_agent SLUG --handler dotted.path:Class | --from agent.yaml | --card URL`, and policies."""

import json
from argparse import ArgumentTypeError, BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from agentkit import HandlerError
from apps.agents.definitions import Definition
from apps.agents.models import Agent
from apps.agents.registration import error_text, register_hosted, register_model
from apps.remote.errors import RemoteError
from apps.remote.registration import register_remote
from parley.faces.commands import QuickCommand
from parley.outbound import OutboundError

POLICIES = (
    "access",
    "sign_artifacts",
    "card_for_old_clients",
    "extended_card",
    "fallbacks",
    "listed",
    "category",
    "pinned",
    "mcp_tools",
    "time_limit",
)

RELOADS = "If its code changed, a running Parley uses the new code from the next message on."
RESTART = "If its code changed, restart the workers and the web servers to load it."


def read_json(name: str) -> Any:
    """Raises ArgumentTypeError."""
    try:
        return json.loads(Path(name).read_text())
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"Cannot read JSON from {name}.") from error


def read_text(name: str) -> str:
    """Raises ArgumentTypeError."""
    try:
        return Path(name).read_text()
    except (OSError, ValueError) as error:
        raise ArgumentTypeError(f"Cannot read text from {name}.") from error


class Command(QuickCommand):
    help = (
        "Registers or updates an agent: from a Python handler, from YAML (an agent without code), or from a remote "
        "agent's card."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--handler", metavar="package.module:Name", help="the Python class or function of the agent")
        what.add_argument(
            "--from", type=read_text, metavar="F", dest="definition", help="YAML file of an agent without code"
        )
        what.add_argument(
            "--card", metavar="URL|FILE", help="URL of a remote agent or its card, or a file with the card"
        )
        parser.add_argument("--access", choices=Agent.Access.values)
        parser.add_argument(
            "--fallback", action="append", dest="fallbacks", metavar="SLUG",
            help="agent that takes over when this one cannot be reached; repeat it for more, in order",
        )  # fmt: skip
        parser.add_argument(
            "--sign-artifacts", action=BooleanOptionalAction, help="sign the files that it produces; default: no"
        )
        parser.add_argument(
            "--extended-card", type=read_json, metavar="F", help="JSON file with details for callers with an API key"
        )
        parser.add_argument(
            "--card-for-old-clients",
            action=BooleanOptionalAction,
            help="let clients of A2A 0.3 read its card; default: no",
        )
        parser.add_argument(
            "--listed", action=BooleanOptionalAction, help="show it where people choose an agent; default: yes"
        )
        parser.add_argument("--category", metavar="NAME", help="its heading in lists")
        parser.add_argument(
            "--position", type=int, dest="pinned", metavar="N", help="pin it in lists, in this place; 1 is first"
        )
        parser.add_argument(
            "--mcp-tools", choices=Agent.McpTools.values, help="what MCP clients are offered at /mcp; default: off"
        )

        parser.add_argument(
            "--time-limit",
            type=float,
            metavar="SECONDS",
            help="the longest time for one turn; default: the handler's, or none for a remote agent",
        )

    def handle(self, *args: Any, slug: str, **options: Any) -> None:
        policies = {name: options[name] for name in POLICIES if options[name] is not None}
        is_known = options["handler"] and Agent.objects.filter(slug=slug, handler=options["handler"]).exists()
        try:
            agent = registered(slug, options, policies)
        except (HandlerError, RemoteError, OutboundError, ArgumentTypeError) as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(error_text(error)) from error
        self.stdout.write(f"{agent.name} is registered at /a2a/{agent.slug} ({agent.get_access_display()}).")
        for note in agent.remote.card_notes if options["card"] else []:
            self.stdout.write(f"- {note}")
        if is_known:
            self.stdout.write(RELOADS if settings.EMBEDDED else RESTART)


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
