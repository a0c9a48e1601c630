"""Registers an agent from its folder: stores the folder, starts its process, reads its card."""

from __future__ import annotations

import asyncio
import datetime
import logging
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.utils import timezone

from agentkit import HandlerError
from agentkit.command.folders import Description
from apps.accounts.models import User
from apps.agents import versions
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import error_text
from apps.agents.versions import DEPLOYMENT
from apps.deployments import processes
from apps.deployments.folders import Packed
from apps.deployments.models import Deployment, Folder
from apps.deployments.processes import Place
from apps.remote import registration
from apps.remote.agent_cards import cards
from apps.remote.agent_cards.card_verification import CardSignature
from apps.remote.agent_cards.cards import FetchedCard
from apps.remote.errors import BadCard, RemoteError
from apps.remote.models import RemoteAgent, SignatureStatus
from apps.remote.registration import Preview
from parley import db, outbound
from parley.db.sql import write_transaction
from parley.outbound import OutboundError
from parley.work import WorkList

log = logging.getLogger("parley.deployments")

HOST = "{}.agent.invalid"
"""In the addresses of a card: a name that nobody has. Its process is called at its socket."""
CARD_LIMITS = outbound.Limits(seconds=10.0, bytes=512 * 1024)
CLONE_SECONDS = 120.0
LEASE = datetime.timedelta(minutes=20)  # longer than any step of a setup
State = Deployment.State

type Json = dict[str, Any]
type Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Deployed(Preview):
    """A folder's agent, before it is registered; `digest` is the folder's."""

    digest: str = ""

    @property
    def content(self) -> Json:
        return {"kind": str(Agent.Kind.REMOTE), "card": self.card, "signature": {"state": "unsigned"},
                DEPLOYMENT: self.digest}  # fmt: skip


def slug_of(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")


def begin(slug: str, packed: Packed, *, access: str = "", author: User | None = None) -> Deployment:
    """Store a folder that shall become the agent `slug`, or its newest version. A worker does it: see `deploy`.

    Raises ValidationError.
    """
    fields = {"archive": packed.archive, "size": len(packed.archive), "files": packed.files}
    with write_transaction():
        stored = Folder.objects.get_or_create(digest=packed.digest, defaults=fields)[0]
        begun = Deployment(slug=slug, folder=stored, access=access, author=author)
        begun.full_clean(exclude=["folder"])
        begun.save()
    return begun


def deploy(key: uuid.UUID, tell: Say = lambda line: None) -> bool:
    """Makes the agent of a folder, whose process must start and answer with a card. False if it does not wait.

    `tell` hears its progress.
    """
    rows = Deployment.objects.select_related("author").filter(pk=key)
    found = next(iter(rows.claim(LEASE, state=State.WORKING)), None)
    if found is None:
        return False
    said = list[str]()

    def say(line: str) -> None:
        said.append(line)
        tell(line)
        db.later(found.extend, LEASE, progress="\n".join(said))  # this is the event loop's thread

    try:
        agent = _register(found, say)
        ending: Json = {"state": State.DONE, "agent": agent}
        processes.prune(found.slug)
    except (HandlerError, RemoteError, OutboundError) as error:
        ending = {"problem": str(error)}
    except ValidationError as error:
        ending = {"problem": error_text(error)}
    except Exception:
        log.exception("%s could not be deployed", found)
        ending = {"problem": "It could not be deployed. The server's log says why."}
    ended = {"state": State.FAILED, "finished_at": timezone.now(), "progress": "\n".join(said)}
    found.release(**(ended | ending))
    return True


DEPLOYMENTS = WorkList("deployments", "deployments.deploy", deploy, Deployment)


def _register(found: Deployment, say: Say) -> Agent:
    """Raises HandlerError, ValidationError, RemoteError, OutboundError."""
    known = Agent.objects.filter(slug=found.slug).first()
    since = str(known.updated_at) if known else ""
    place = Place(found.slug, found.folder_id, known.pk if known else None, since)
    card = asyncio.run(_start(place, say))
    described = Description.read(place.home / "code")
    newer = Deployment.objects.filter(slug=found.slug, created_at__gt=found.created_at).exclude(state=State.FAILED)
    if newer.exists():
        raise HandlerError(f"A newer folder of {found.slug} took its place.")
    read = _described(card, described, found.slug)
    deployed = Deployed(read, CardSignature(SignatureStatus.UNSIGNED), found.folder_id)
    first = {} if known else {name: getattr(described, name) for name in ("access", "mcp_tools")}
    policies = first | ({"access": found.access} if found.access else {})
    policies = {name: value for name, value in policies.items() if value}
    return registration.save(found.slug, deployed, author=found.author, update=True, **policies)


def restore(version: AgentVersion, *, author: User | None, note: str) -> AgentVersion:
    """Of agents with a folder (`restorers`). Raises ValidationError."""
    content = version.content
    if DEPLOYMENT not in content:
        raise ValidationError({"version": "The agent's own card defines it. Load the card again instead."})
    with write_transaction():
        registration.apply_card(version.agent, content["card"])
        remote = RemoteAgent.objects.get(agent=version.agent)
        registration.trust_card(remote, content)
        remote.save()
        return versions.save_version(version.agent, content, author=author, note=note)


async def _start(place: Place, say: Say) -> Json:
    """The card of the folder's agent, whose process runs then."""
    path = await processes.socket_at(place, say)
    async with (
        outbound.Exchange(outbound.guard(), CARD_LIMITS, socket=path) as way,
        way.send("GET", f"http://{HOST.format('its')}{cards.WELL_KNOWN_PATHS[0]}", {}) as answer,
    ):
        if answer.status != 200:
            raise BadCard(f"The agent's server answers with {answer.status} instead of its card.")
        return cards.parse_card(await answer.read())


def _described(card: Json, described: Description, slug: str) -> FetchedCard:
    """The card as agent.yaml has it, at an address of its own. Raises BadCard."""
    addressed = {**card, **({"url": _at_its_socket(card["url"], slug)} if "url" in card else {})}
    for name in ("supportedInterfaces", "additionalInterfaces"):
        if isinstance(stated := card.get(name), list):
            addressed[name] = [{**one, "url": _at_its_socket(one.get("url"), slug)} for one in stated]
    read, notes = cards.read_card(addressed)
    for name in ("name", "description", "version"):
        read[name] = getattr(described, name) or read[name]
    if described.starters:
        read["skills"] = read["skills"] or [{"id": "talk", "name": read["name"], "description": read["description"]}]
        read["skills"][0] = {"tags": ["general"], **read["skills"][0], "examples": described.starters}
    return FetchedCard(read, card, tuple(notes))


def _at_its_socket(url: object, slug: str) -> str:
    """The address with a host of its own: its path is what the process knows."""
    return f"http://{HOST.format(slug)}/{urlsplit(str(url)).path.lstrip('/')}"


@contextmanager
def checked_out(source: str) -> Iterator[Path]:
    """The folder at a path, or a fresh clone of a git address (`https://…/repo.git#folder`). Raises HandlerError."""
    if not re.match(r"(https?|ssh|git|file)://|git@", source):
        if not Path(source).is_dir():
            raise HandlerError(f"There is no folder {source}.")
        yield Path(source)
        return
    git = shutil.which("git")
    if git is None:
        raise HandlerError("git is missing on this machine.")
    address, _, inside = source.partition("#")
    with tempfile.TemporaryDirectory() as made:
        at = Path(made, re.sub(r"\.git$", "", address.rstrip("/").rpartition("/")[2]) or "agent")
        command = [git, "clone", "--quiet", "--depth", "1", "--", address, str(at)]
        try:
            done = subprocess.run(  # noqa: S603 not a shell; its options end before the address
                command, capture_output=True, text=True, timeout=CLONE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise HandlerError(f"{address} was not cloned within {CLONE_SECONDS:.0f} s.") from None
        if done.returncode:
            raise HandlerError(f"{address} cannot be cloned: {done.stderr.strip().splitlines()[-1:]}")
        found = (at / inside).resolve()
        if not found.is_relative_to(at.resolve()) or not found.is_dir():
            raise HandlerError(f"{address} has no folder {inside}.")
        yield found
