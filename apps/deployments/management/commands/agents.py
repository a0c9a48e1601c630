"""`parley agents add FOLDER | log SLUG | secret SLUG NAME`: agents in an environment and process of their own."""

import asyncio
import getpass
import sys
import time
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from agentkit import HandlerError
from agentkit.command.folders import slug_of
from agentkit.command.packing import Packed, pack_folder
from apps.agents.models import Agent
from apps.agents.registration import error_text
from apps.deployments import confinement, processes, registering
from apps.deployments.models import Deployment
from apps.remote.errors import RemoteError
from parley.faces.commands import QuickCommand
from parley.outbound import OutboundError

SHOWN_SECONDS = 0.5


class Command(QuickCommand):
    help = "Adds an agent from a folder (parley agents add), shows its log, or gives it a secret."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        add = acts.add_parser("add", help="register the agent of a folder, or a new version of it")
        add.add_argument("folder", help="a folder with agent.yaml, or a git address: https://…/repo.git#folder")
        add.add_argument("--slug", default="", help="its name in addresses; default: the folder's")
        add.add_argument("--access", choices=Agent.Access.values)
        add.add_argument(
            "--candidate", action="store_true", help="a new version is not current yet: its page lets sessions try it"
        )
        add.add_argument("--watch", action="store_true", help="do it again whenever a file changes, until Ctrl-C")
        log = acts.add_parser("log", help="show what its process printed on this machine")
        log.add_argument("slug")
        secret = acts.add_parser("secret", help="set a secret that its agent.yaml names, from standard input")
        secret.add_argument("slug")
        secret.add_argument("name", help="such as OPENAI_API_KEY")

    def handle(self, *args: Any, act: str, **options: Any) -> None:
        try:
            getattr(self, f"_{act}")(**options)
        except (HandlerError, RemoteError, OutboundError) as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(error_text(error)) from error

    def _add(
        self, folder: str, slug: str, access: str | None, *, watch: bool, candidate: bool = False, **_: Any
    ) -> None:
        with registering.checked_out(folder) as found:
            slug = slug or slug_of(found.resolve().name)
            packed = pack_folder(found)
            self._deploy(slug, packed, access or "", candidate)
            while watch:
                time.sleep(SHOWN_SECONDS)
                try:
                    if (changed := pack_folder(found)).digest != packed.digest:
                        packed = changed
                        self._deploy(slug, packed, "", candidate)
                except (CommandError, HandlerError, OSError) as error:  # while somebody writes
                    self.stderr.write(str(error))

    def _deploy(self, slug: str, packed: Packed, access: str, candidate: bool) -> None:
        """Raises CommandError."""
        begun = registering.begin(slug, packed, access=access, as_candidate=candidate)
        self.stdout.write(f"Packed {packed.files} files, {len(packed.archive) // 1024 + 1} KiB.")
        if not asyncio.run(registering.deploy(begun.pk, lambda line: self.stdout.write(f"- {line}"))):
            self.stdout.write("- a worker makes it")
            while Deployment.objects.unfinished().filter(pk=begun.pk).exists():
                time.sleep(SHOWN_SECONDS)
        begun.refresh_from_db()
        if begun.agent is None:
            raise CommandError(begun.problem)
        agent = Agent.objects.select_related("current_version").get(pk=begun.agent.pk)
        newest = agent.versions.order_by("-number").first()
        if candidate and newest is not None and newest.pk != agent.current_version_id:
            self.stdout.write(f"{newest} can be tried. The current version stays.")
            return
        number = agent.current_version.number if agent.current_version else 1
        where = f"/a2a/{agent.slug} ({agent.get_access_display()})"
        self.stdout.write(f"{agent.name} is registered at {where}, version {number}.")
        if gap := confinement.gap():
            self.stdout.write(gap)

    def _log(self, slug: str, **_: Any) -> None:
        agent = self._agent(slug)
        place = processes.Place.of(agent)
        if place is None:
            raise CommandError(f"{slug} has no folder.")
        self.stdout.write(place.log(), ending="")

    def _secret(self, slug: str, name: str, **_: Any) -> None:
        value = getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        registering.set_secret(self._agent(slug), name, value, None)
        self.stdout.write(f"{slug} has {name} from its next message on.")

    def _agent(self, slug: str) -> Agent:
        agent = Agent.objects.select_related("current_version").filter(slug=slug).first()
        if agent is None:
            raise CommandError(f"There is no agent {slug}.")
        return agent
