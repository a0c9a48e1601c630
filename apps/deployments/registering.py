"""Registers an agent from its folder: stores the folder, starts its process, reads its card."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from agentkit import HandlerError
from agentkit.command.folders import Description
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.deployments import folders, processes
from apps.deployments.folders import Packed
from apps.deployments.models import Deployment
from apps.deployments.processes import DEPLOYMENT
from apps.remote import registration
from apps.remote.agent_cards import cards
from apps.remote.agent_cards.card_verification import CardSignature
from apps.remote.agent_cards.cards import FetchedCard
from apps.remote.errors import BadCard
from apps.remote.models import SignatureStatus
from apps.remote.registration import Preview
from parley import outbound

HOST = "{}.agent.invalid"
"""In the addresses of a card: a name that nobody has. Its process is called at its socket."""
CARD_LIMITS = outbound.Limits(seconds=10.0, bytes=512 * 1024)
CLONE_SECONDS = 120.0

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


def add(slug: str, folder: Path, *, author: User | None = None, say: Say = print, **policies: Any) -> Agent:
    """Register the agent of a folder, or make the folder the newest version of the agent `slug`.

    For threads without an event loop. `slug` may be "": the folder's name. Its process must start and answer with a
    card; until then nothing is registered. `policies` are fields of Agent.
    Raises HandlerError, ValidationError, errors of `apps.remote.errors` and of `outbound`.
    """
    described = Description.read(folder)
    packed = folders.pack(folder)
    slug = slug or re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    known = Agent.objects.filter(slug=slug).first()
    store(packed, author)
    say(f"Packed {packed.files} files, {len(packed.archive) // 1024 + 1} KiB.")
    card = asyncio.run(_start(packed.digest, slug, known.pk if known else None, say))
    deployed = Deployed(
        _described(card, described, packed.digest), CardSignature(SignatureStatus.UNSIGNED), packed.digest
    )
    stated = {"access": described.access} if described.access and known is None else {}
    return registration.save(slug, deployed, author=author, update=True, **{**stated, **policies})


def store(packed: Packed, author: User | None = None) -> Deployment:
    """The stored folder; the same one again where it is known."""
    fields = {"archive": packed.archive, "size": len(packed.archive), "files": packed.files, "created_by": author}
    with transaction.atomic():
        return Deployment.objects.get_or_create(digest=packed.digest, defaults=fields)[0]


async def _start(digest: str, slug: str, agent: int | None, say: Say) -> Json:
    """The card of the folder's agent, whose process runs then."""
    path = await processes.socket_at(digest, slug, agent, lambda line: say(f"- {line}"))
    async with (
        outbound.Exchange(outbound.guard(), CARD_LIMITS, socket=path) as way,
        way.send("GET", f"http://{HOST.format('its')}{cards.WELL_KNOWN_PATHS[0]}", {}) as answer,
    ):
        if answer.status != 200:
            raise BadCard(f"The agent's server answers with {answer.status} instead of its card.")
        return cards.parse_card(await answer.read())


def _described(card: Json, described: Description, digest: str) -> FetchedCard:
    """The card as agent.yaml has it, at an address of its own. Raises BadCard."""
    addressed = {**card, **({"url": _at_its_socket(card["url"], digest)} if "url" in card else {})}
    for name in ("supportedInterfaces", "additionalInterfaces"):
        if isinstance(stated := card.get(name), list):
            addressed[name] = [{**one, "url": _at_its_socket(one.get("url"), digest)} for one in stated]
    read, notes = cards.read_card(addressed)
    for name in ("name", "description", "version"):
        read[name] = getattr(described, name) or read[name]
    if described.starters:
        read["skills"] = read["skills"] or [{"id": "talk", "name": read["name"], "description": read["description"]}]
        read["skills"][0] = {"tags": ["general"], **read["skills"][0], "examples": described.starters}
    return FetchedCard(read, card, tuple(notes))


def _at_its_socket(url: object, digest: str) -> str:
    """The address with a host of its own: its path is what the process knows."""
    return f"http://{HOST.format(digest[:16])}/{urlsplit(str(url)).path.lstrip('/')}"


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
