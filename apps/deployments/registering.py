"""Registers an agent from its folder: stores the folder, starts its process, reads its card."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from agentkit import HandlerError
from agentkit.command.folders import Description
from agentkit.command.packing import Packed
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.people.erasure import Remains
from apps.accounts.principals import Principal
from apps.accounts.resources import Resource
from apps.agents import versions
from apps.agents.models import DEPLOYMENT, Agent, AgentVersion
from apps.agents.registration import error_text
from apps.deployments import processes
from apps.deployments.models import AgentSecret, Deployment, Folder
from apps.deployments.processes import Place
from apps.record.execution import Run
from apps.record.models import Context
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
LEASE, EXTEND_SECONDS = datetime.timedelta(minutes=2), 20.0
AT_ONCE = 4  # environments that a process's keeper makes at a time
LOG_BYTES = 16 * 1024  # of what it printed, which a deployment keeps
UNUSED_FOR = datetime.timedelta(hours=1)  # since a folder was deployed, before it may be deleted
KEPT_FOR = datetime.timedelta(days=90)  # what is known of a deployment
State = Deployment.State

type Json = dict[str, Any]
type Say = Callable[[str], None]
type Secrets = dict[str, str]


@dataclass(frozen=True, slots=True)
class Deployed(Preview):
    """A folder's agent, before it is registered; `digest` is the folder's."""

    digest: str = ""

    @property
    def content(self) -> Json:
        return {"kind": str(Agent.Kind.REMOTE), "card": self.card, "signature": {"state": "unsigned"},
                DEPLOYMENT: self.digest}  # fmt: skip


def begin(
    slug: str,
    packed: Packed,
    *,
    access: str = "",
    as_candidate: bool = False,
    secrets: Secrets | None = None,
    author: User | None = None,
) -> Deployment:
    """Store a folder that shall become the agent `slug`, or its newest version. A worker does it: see `deploy`.

    The same once more, while it waits and no newer one takes its place, is the same deployment. `secrets` are the
    agent's once its process runs.
    `as_candidate`: the version of an agent that is there is not current yet: a rollout can try it.
    Raises ValidationError.
    """
    if unnamed := (secrets or {}).keys() - set(packed.description.secrets):
        raise ValidationError({"secrets": f"agent.yaml names no secret {min(unnamed)}. Add it to `secrets` there."})
    if Agent.objects.filter(slug=slug).exclude(kind=Agent.Kind.REMOTE).exists():
        raise ValidationError({"slug": f"{slug} is an agent of another kind. Choose another slug."})
    asked = {"slug": slug, "digest": packed.digest, "access": access, "as_candidate": as_candidate}
    begun = Deployment(
        **asked,
        size=len(packed.archive),
        files=packed.files,
        secrets=json.dumps(secrets) if secrets else None,
        author=author,
    )
    begun.full_clean()
    folder = Folder(digest=packed.digest, archive=packed.archive)
    with write_transaction():  # what deletes folders waits for the row, and sees then that it is used
        Folder.objects.bulk_create([folder], update_conflicts=True, unique_fields=["digest"], update_fields=["used_at"])
        waiting = None if secrets else Deployment.objects.unfinished().filter(**asked, secrets__isnull=True).first()
        if waiting is not None and not _newer_than(waiting).exists():
            return waiting
        begun.save()
    return begun


async def deploy(key: uuid.UUID, tell: Say = lambda line: None) -> bool:
    """Makes the agent of a folder, whose process must start and answer with a card. False if it does not wait.

    `tell` hears its progress.
    """
    found = await db.run(_claim, key)
    if found is None:
        return False
    said = list[str]()

    def say(line: str) -> None:
        said.append(line)
        tell(line)
        db.later(found.extend, LEASE, progress="\n".join(said))  # this is the event loop's thread

    try:
        ending = await _register(found, say)
    except Lost:
        return True
    except (HandlerError, RemoteError, OutboundError) as error:
        ending = {"problem": str(error)}
    except ValidationError as error:
        ending = {"problem": error_text(error)}
    except Exception:
        log.exception("%s could not be deployed", found)
        ending = {"problem": "It could not be deployed. The server's log says why."}
    await db.run(_end, found, {"state": State.FAILED, "progress": "\n".join(said)} | ending)
    return True


DEPLOYMENTS = WorkList("deployments", "deployments.deploy", deploy, Deployment, at_once=AT_ONCE)
RESOURCE = Resource("deployments", "deployment", Deployment, related=("agent",))


class Lost(Exception):
    """Another process has claimed the deployment."""


def _claim(key: uuid.UUID) -> Deployment | None:
    rows = Deployment.objects.select_related("author").filter(pk=key)
    return next(iter(rows.claim(LEASE, state=State.WORKING)), None)


def _end(found: Deployment, ending: Json) -> None:
    printed = Place(found.slug, found.digest).log(LOG_BYTES)
    found.release(finished_at=timezone.now(), log=printed, secrets=None, **ending)
    if ending["state"] == State.DONE:
        processes.prune(found.slug, folders_in_use(ending["agent"]))


def folders_in_use(agent: Agent) -> set[str]:
    """The digests of those that sessions, a rollout or runs of the agent use."""
    begun = (
        Context.objects.filter(agent=agent, deleted_at=None)
        .order_by()
        .values_list("agent_version", flat=True)
        .distinct()
    )
    used = {versions.version_in_session(agent, number) for number in (None, *begun)}
    if agent.rollout_id is not None:
        used.add(versions.version_at(versions.candidate_of(agent.rollout_id)))
    runs = Run.objects.unfinished().filter(task__agent=agent).values_list("input__agent__version", flat=True)
    used.update(agent.versions.filter(pk__in=[key for key in runs if key]))
    return {version.folder for version in used if version is not None}


async def _register(found: Deployment, say: Say) -> Json:
    """What the deployment has then. Raises Lost, HandlerError, ValidationError, RemoteError, OutboundError."""
    place = await db.run(_place_of, found)
    card = await _while_held(found, _start(place, say))
    described = await asyncio.to_thread(Description.read, place.home / "code")
    read = _described(card, described, found.slug)
    deployed = Deployed(read, CardSignature(SignatureStatus.UNSIGNED), found.digest)
    return await db.run(_save, found, deployed, described)


def _place_of(found: Deployment) -> Place:
    known = Agent.objects.filter(slug=found.slug).first()
    secrets: Secrets = json.loads(found.secrets or "{}")
    since = f"{known.updated_at if known else ''} {found.pk if secrets else ''}"
    return Place(found.slug, found.digest, known.pk if known else None, since, tuple(secrets.items()))


def _save(found: Deployment, deployed: Deployed, described: Description) -> Json:
    """Raises HandlerError, ValidationError."""
    with write_transaction():
        if _newer_than(found).exists():
            raise HandlerError(f"A newer folder of {found.slug} took its place.")
        is_new = not Agent.objects.filter(slug=found.slug).exists()
        first = {name: getattr(described, name) for name in ("access", "mcp_tools")} if is_new else {}
        chosen: dict[str, Any] = first | ({"access": found.access} if found.access else {})
        policies = {name: value for name, value in chosen.items() if value}
        version = _version_of(found, deployed, policies)
        agent = version.agent
        for name, value in json.loads(found.secrets or "{}").items():
            set_secret(agent, name, value, found.author)
    return {"state": State.DONE, "agent": agent, "version": version.number}


def _newer_than(found: Deployment) -> models.QuerySet[Deployment]:
    """Those that take its place: a candidate does not take that of a version that becomes current."""
    newer = Deployment.objects.filter(slug=found.slug, created_at__gt=found.created_at).exclude(state=State.FAILED)
    return newer if found.as_candidate else newer.filter(as_candidate=False)


def _version_of(found: Deployment, deployed: Deployed, policies: dict[str, Any]) -> AgentVersion:
    """Raises ValidationError."""
    known = Agent.objects.filter(slug=found.slug).first() if found.as_candidate else None
    if known is not None:
        return versions.propose_version(known, deployed.content, author=found.author)
    made = registration.save(found.slug, deployed, author=found.author, update=True, **policies).current_version
    assert made is not None
    return made


async def _while_held[T](found: Deployment, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that may take longer than the lease, which is extended. Raises Lost, and what `work` does."""
    doing = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({doing}, timeout=EXTEND_SECONDS))[0]:
            if not await db.run(found.extend, LEASE):
                raise Lost
        return doing.result()
    finally:
        doing.cancel()


def set_secret(agent: Agent, name: str, value: str, by: User | Principal | None) -> AgentSecret:
    """Give the agent's process a secret, from its next start on. Raises ValidationError."""
    secret = AgentSecret.objects.filter(agent=agent, name=name).first() or AgentSecret(agent=agent, name=name)
    secret.value = value
    secret.full_clean(exclude=["value"])
    with write_transaction():
        secret.save()
        audit.record(AuditAction.AGENT_SECRET_SET, actor=by, object=agent, details={"name": name})
    return secret


def remove_secret(secret: AgentSecret, by: Principal) -> None:
    with write_transaction():
        secret.delete()
        audit.record(AuditAction.AGENT_SECRET_REMOVED, actor=by, object=secret.agent, details={"name": secret.name})


def remains_of(person: User) -> Iterator[Remains]:
    """See `account_remains`."""
    if number := Deployment.objects.filter(author=person).count():
        yield Remains(
            "Agents' folders", number, f"deployed for the installation. Each is known for {KEPT_FOR.days} days."
        )


def delete_unused() -> int:
    """Deletes folders that no version and no running deployment needs, their homes, and what is known of old
    deployments. A folder that was deployed just now stays, with its home.
    """
    homes = processes.all_places()  # before the database is asked what is needed
    now = timezone.now()
    versions_ = AgentVersion.objects.annotate(folder_digest=KeyTextTransform(DEPLOYMENT, "content"))
    needed = versions_.filter(folder_digest__isnull=False).values_list("agent__slug", "folder_digest")
    waiting = Deployment.objects.unfinished().values_list("slug", "digest")  # asked for first: they become versions
    used = {(slug, digest) for rows in (waiting, needed) for slug, digest in rows}
    digests = {digest for _, digest in used}
    unused = Folder.objects.filter(used_at__lt=now - UNUSED_FOR).exclude(digest__in=digests)
    deleted, _ = unused.delete()
    Deployment.objects.filter(finished_at__lt=now - KEPT_FOR).delete()
    names = {processes.name_of(*one) for one in used}
    fresh = Folder.objects.filter(used_at__gte=now - UNUSED_FOR).values_list("digest", flat=True)
    ends = tuple(processes.name_of("", digest) for digest in fresh)  # asked for last: they are being deployed again
    gone = [home for home in homes if home.name not in names and not home.name.endswith(ends)]
    for home in gone:
        shutil.rmtree(home, ignore_errors=True)
    return deleted + len(gone)


def restore(version: AgentVersion, *, author: User | None, note: str) -> AgentVersion:
    """Of agents with a folder (`restorers`). Raises ValidationError."""
    content = version.content
    if not version.folder:
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
