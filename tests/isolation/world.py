"""Two workspaces with one of everything that an address, a query or a body can name."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sqlite3
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from allauth.idp.oidc.models import Client as Program
from allauth.idp.oidc.models import Token
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone
from fido2.utils import websafe_encode

from agentkit import Artifact, AuthRequired, Completed, ToolResult
from agentkit.llm import approvals
from apps.a2a.models import PushConfig
from apps.accounts import workspaces
from apps.accounts.models import ApiKey, Membership, User, Workspace
from apps.accounts.people import invitations
from apps.accounts.permissions import Role
from apps.accounts.principals import READ, WRITE, Principal
from apps.agents.definitions import Definition
from apps.agents.models import Agent
from apps.agents.registration import register_hosted, register_model
from apps.automation import incoming, schedules
from apps.automation.models import IncomingWebhook, Schedule, ScheduledRun
from apps.conversations.forks.forking import fork
from apps.conversations.public_links import shares
from apps.conversations.queue import messages as queue
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions import commands, deletion, marks
from apps.conversations.uploads import resumable
from apps.credentials.models import AuthType, Credential
from apps.deployments.models import Deployment
from apps.doors.links import link_to
from apps.doors.turns import File
from apps.engine import accept
from apps.engine.turns.assignment import Assignment
from apps.engine.turns.questions import slot_of
from apps.model_agents import pictures
from apps.notifications import wording
from apps.notifications.models import Channel, Notification, WebhookSigning
from apps.optional.channels.models import ChatAccount
from apps.optional.comparing import comparing
from apps.optional.comparing.comparing import Answerer
from apps.optional.evaluations.models import Example
from apps.optional.knowledge import indexing, sources
from apps.optional.knowledge.models import AgentCollection, Collection, Source
from apps.optional.knowledge.passages import Piece
from apps.optional.mcp.resources import uri_of
from apps.optional.projects import files, projects
from apps.optional.projects.models import Project
from apps.optional.prompts.models import Prompt
from apps.optional.transfers.models import Export
from apps.payments.models import BudgetPayment, PaymentBudget
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.plans.running.runs import begin_run
from apps.record.content import blobs
from apps.record.content.composing import compose
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task
from apps.remote.execution.snapshots import file_link
from apps.remote.models import RemoteCredential
from tests.clients import telling
from tests.clients.passkeys import Passkey
from tests.isolation import features, rows
from tests.working import begin, end, say

ECHO = "examples.agents.echo:Echo"
PASSWORD = "correct horse"
PICTURE = b"\x89PNG\r\n\x1a\n"


@dataclass
class Place:
    """A workspace, its people, and the ids of what is in it.

    Attributes:
        mark: in every text of the workspace; nobody else may ever read it.
        ids: by what they name, such as "session" or "share token".
    """

    mark: str
    workspace: Workspace
    people: dict[Role, User]
    ids: dict[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> User:
        return self.people[Role.OWNER]

    @property
    def principal(self) -> Principal:
        return self.owner.principal_in(self.workspace.pk)


def open_place(mark: str) -> Place:
    """A workspace with a member of each role, who all work in it."""
    people = {
        role: User.objects.create_user(f"{role}@{mark}.example", PASSWORD, name=f"{mark} {role}") for role in Role
    }
    owner = people[Role.OWNER]
    made = workspaces.create_workspace(owner.principal, f"{mark} team")
    for role, person in people.items():
        Membership.objects.update_or_create(user=person, workspace=made, defaults={"role": role})
        User.objects.filter(pk=person.pk).update(current_workspace=made)
    return Place(mark, made, {role: User.objects.get(pk=person.pk) for role, person in people.items()})


def said(text: str, **more: Any) -> dict[str, Any]:
    return telling.said(text, **more)


def fill(place: Place, echo: Agent) -> None:
    """One of everything."""
    _fill_agents(place)
    _fill_sessions(place, echo)
    _fill_waiting(place, echo)
    _fill_plans(place)
    _fill_account(place, echo)
    _fill_notifications(place)
    for one in features.viewsets():
        place.ids[one.resource.noun] = features.make(one, place.principal, f"{place.mark} {one.resource.noun}").pk
    prompt = Prompt.objects.get(pk=place.ids["prompt"])
    place.ids["command of prompt"], place.ids["version of prompt"] = prompt.slug, prompt.versions.get().pk
    at = {"channel_id": place.ids["chat_channel"], "external_id": f"{place.mark} person"}
    place.ids["chat_account"] = ChatAccount.objects.create(user=place.owner, name=f"{place.mark} chat", **at).pk
    _fill_project(place)
    _fill_collection(place)


def _fill_collection(place: Place) -> None:
    """A file of the collection, which is newer than the one of the project's files, and a passage of it."""
    mark, collection = place.mark, Collection.objects.get(pk=place.ids["collection"])
    Collection.objects.filter(pk=collection.pk).update(created_at=timezone.now())
    part = {"text": f"{mark} file of the collection", "filename": f"{mark}.txt"}
    source = sources.add_file(place.principal, collection, part)
    indexing.replace_passages(source, [Piece(f"{mark} passage of the universe")], state=Source.State.READY)
    place.ids["source"], place.ids["passage"] = source.pk, source.passages.get().ref
    AgentCollection.objects.create(collection=collection, agent=Agent.objects.get(slug=place.ids["agent"]))


def _fill_project(place: Place) -> None:
    """Instructions and a file of the project, and a session in it."""
    mark, project = place.mark, Project.objects.get(pk=place.ids["project"])
    project.instructions = f"{mark} instructions"
    projects.save(place.principal, project)
    file = {"text": f"{mark} project file", "filename": f"{mark}.txt"}
    place.ids["project file"] = files.add(place.principal, project, file).pk
    commands.move_session(place.principal, place.ids["session"], project.pk)


def _fill_agents(place: Place) -> None:
    mark = place.mark
    agent = register_hosted(f"closed-{mark}", ECHO)
    fields = {"name": f"{mark} agent", "description": f"{mark} description", "mcp_tools": "agent"}
    Agent.objects.filter(pk=agent.pk).update(workspace=place.workspace, access=Agent.Access.WORKSPACE, **fields)
    place.ids["agent"] = agent.slug
    own = register_model(
        f"own-{mark}",
        Definition.read({"name": f"{mark} own", "description": f"{mark} own.", "instructions": f"{mark} told."}),
        workspace=place.workspace,
        owner=place.owner,
        access=Agent.Access.OWNER,
    )
    pictures.keep(own, PICTURE)
    place.ids["own agent"] = own.slug
    definition = {
        "name": f"{mark} plan",
        "description": f"{mark} plan.",
        "steps": {"one": {"agent": "echo", "message": f"{mark} step"}},
    }
    place.ids["plan"] = register_plan(f"plan-{mark}", PlanDefinition.read(definition), author=place.owner).slug


def _fill_sessions(place: Place, echo: Agent) -> None:
    """A private, a shared and a deleted session, a fork, files, links, a rating and a webhook."""
    ids, mark, principal = place.ids, place.mark, place.principal
    for name in ("session", "shared session", "deleted session"):
        sent = accept.accept(principal, echo, _with_file(mark, name))
        words = Artifact([{"text": f"{mark} artifact"}], name=f"{mark} artifact", artifact_id=f"{mark}-{name[:2]}")
        ids[f"page of {name}"] = _show_page(begun := begin(sent.run), mark)
        end(begun, Completed(f"{mark} answer", [words]))
        commands.rename_session(principal, sent.context, f"{mark} {name}")
        ids[name], ids[f"task of {name}"], ids[f"run of {name}"] = sent.context, sent.task, sent.run
        ids[f"contextId of {name}"] = f"{mark}-{name}"
        ids[f"message of {name}"] = Message.objects.get(context=sent.context, role="user").pk
        ids[f"artifact of {name}"] = words.artifact_id
    talk = Context.objects.get(pk=ids["session"])
    ids["file"] = Message.objects.get(pk=ids["message of session"]).parts[1]["stored"]["sha256"]
    ids["contextId"] = talk.context_id
    ids["fork"] = fork(principal, talk, talk.last_event, reason="fork", title=f"{mark} fork").pk
    share, ids["share token"] = shares.create_share(
        principal, talk.pk, lifetime=datetime.timedelta(days=1), with_artifacts=True
    )
    ids["share"] = share.pk
    webhook = PushConfig.objects.create(
        task_id=ids["task of session"], config_id=f"hook-{mark}", url=f"https://{mark}.invalid/", token=f"{mark} token"
    )
    ids["webhook"] = webhook.config_id
    rating = commands.parse_feedback("5", f"{mark} rating")
    commands.give_feedback(principal, echo, str(ids["task of session"]), rating)
    marks.update_mark(principal, talk.pk, pinned=True)
    commands.share_session(principal, ids["shared session"], Context.Sharing.WORKSPACE)
    deletion.delete_session(principal, ids["deleted session"])
    snapshot = {"message": {"parts": [{"text": f"{mark} linked", "mediaType": "text/plain"}]}, "until": 2**33}
    run = Run.objects.get(pk=ids["run of session"])
    Run.objects.filter(pk=run.pk).update(input={**run.input, "sent": snapshot})
    ids["file link"] = file_link(run.pk, 0, 2**33, "a").rsplit("/", 2)[1]
    made = File(ids["task of session"], ids["artifact of session"], 0, "a", "text/plain")
    ids["resource of session"] = uri_of(ids["task of session"], ids["artifact of session"], 0)
    ids["link to a file"] = link_to(made, talk.pk).rsplit("/", 2)[1]
    asked = Message.objects.get(pk=ids["message of session"])
    ids["response"] = f"resp_{ids['task of session'].hex}_{asked.index}"


def _show_page(begun: Assignment, mark: str) -> int:
    """A tool's result with a page (MCP Apps); gives its event's index."""
    app = {"server": f"https://{mark}.example/mcp", "uri": "ui://a", "html": f"{mark} page", "agent": begun.agent.pk}
    app |= {"ui": {"csp": {}, "prefersBorder": True}, "arguments": {}, "result": {"said": mark}}
    say(begun, ToolResult("call", "tool", f"{mark} result", app=app))
    return Event.objects.get(task=begun.task, type=EventType.AGENT_TOOL_RESULT).index


def _with_file(mark: str, name: str) -> dict[str, Any]:
    message = said(f"{mark} question in the {name}", contextId=f"{mark}-{name}")
    file = {"text": f"{mark} file\n" * 30_000, "filename": f"{mark}.txt", "mediaType": "text/plain"}
    return {**message, "parts": blobs.store_large([*message["parts"], file])}


FILE_FORM = {"type": "string", "format": "binary", "title": "File"}


def _fill_waiting(place: Place, echo: Agent) -> None:
    """A question, an approval, a request for a credential, a queued message and an upload."""
    ids, mark, principal = place.ids, place.mark, place.principal
    sample = {"filename": "sample.txt", "mediaType": "text/plain", "text": mark}
    slot = {"name": "which", "schema": {**FILE_FORM, "x-samples": [sample]}}
    asked = telling.asked(place.owner, echo, slot, f"{mark} which?")
    ids["session that asks"], ids["task that asks"] = asked.context, asked.task
    queue.enqueue(principal, Context.objects.get(pk=asked.context), compose([{"text": mark}]))
    ids["queued message"] = QueuedMessage.objects.get(context=asked.context).pk
    approval = telling.asked(place.owner, echo, _call(mark), f"{mark} may I?")
    ids["session of the call"], ids["task of the call"] = approval.context, approval.task
    wanted = accept.accept(principal, echo, said(f"{mark} wants"))
    end(begin(wanted.run), AuthRequired(f"{mark} key?", service=f"{mark} service", auth_type="api_key"))
    url = Task.objects.get(pk=wanted.task).status_message["metadata"]["url"]
    ids["credential link"] = url.rpartition("/")[2]
    ids["upload"] = resumable.begin_upload(principal, f"{mark}.bin", 2).pk


def _call(mark: str) -> dict[str, Any]:
    """The question of a tool call that needs two people."""
    given = {"to": mark}
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    call = {"key": "k", "tool": "send", "kind": "mcp", "needs": 2, "schema": schema, "why": "", "decisions": []}
    slot = slot_of(approvals.question([{**call, "arguments": given, "proposed": given}]))
    assert slot is not None
    return slot


def _fill_plans(place: Place) -> None:
    agent = Agent.objects.get(slug=place.ids["plan"])
    sent = accept.accept(place.principal, agent, said(f"{place.mark} plan"))
    task = Task.objects.get(pk=sent.task)
    begin(sent.run)
    begin_run(task, agent.current_version)
    place.ids["plan run"], place.ids["session of the plan"] = task.pk, sent.context


def _fill_payments(place: Place) -> None:
    """A person's budget and the workspace's, and a payment."""
    fields = {"asset": "0xUSDC", "network": "base", "payment_limit": 1, "period_limit": 1}
    for owner in (None, place.owner):
        names = {"name": f"{place.mark} budget", "wallet": f"https://{place.mark}.example", "owner": owner}
        budget = PaymentBudget.objects.create(workspace=place.workspace, **names, **fields)
    place.ids["payment budget"] = budget.pk
    whose = {"workspace": place.workspace, "owner": place.owner, "task": uuid.uuid4(), "asked": 1}
    BudgetPayment.objects.create(budget=budget, reason=f"{place.mark} reason", state="failed", amount="1", **whose)


def _fill_account(place: Place, echo: Agent) -> None:
    """Keys, credentials, a passkey, a browser, a program and its token, an invitation, and an example."""
    ids, mark, owner = place.ids, place.mark, place.owner
    key, ids["key secret"] = ApiKey.issue(owner, f"{mark} key", workspace_id=place.workspace.pk)
    ids["key"], ids["key prefix"] = key.pk, key.prefix
    credential = Credential.objects.create(
        agent=echo, user=owner, service=f"{mark} mail", auth_type=AuthType.API_KEY, secret=f"{mark} secret"
    )
    ids["credential"] = credential.pk
    RemoteCredential.objects.create(agent=echo, user=owner, scheme=f"{mark}", secret=f"{mark} secret")
    _fill_payments(place)
    asked = {"publicKey": {"user": {"id": websafe_encode(b"1")}, "challenge": websafe_encode(b"challenge")}}
    data = {"name": f"{mark} passkey", "credential": json.loads(Passkey().created(asked))}
    ids["passkey"] = Authenticator.objects.create(user=owner, type="webauthn", data=data).pk
    browser = UserSession.objects.create(
        user=owner, ip="192.0.2.1", user_agent=f"{mark} browser", session_key=session_of(owner).session_key
    )
    ids["browser"] = browser.pk
    ids["program"] = _program(place).pk
    invitation, link = invitations.invite(owner, f"new@{mark}.example")
    ids["invitation"], ids["invitation link"] = invitation.pk, link.rpartition("/")[2]
    ids["workspace"], ids["member"] = place.workspace.pk, place.people[Role.MEMBER].pk
    Example.objects.create(agent=echo, text=f"{mark} example", created_by=owner)
    planned = Schedule(name=f"{mark} schedule", agent=echo, text=f"{mark} text", kind="interval", every_seconds=86400)
    rivals = [Answerer(echo), Answerer(Agent.objects.get(slug=ids["own agent"]))]
    compared = {"parts": [{"text": f"{mark} compared"}], "key": mark}
    ids["comparison"] = comparing.begin(place.principal, rivals, **compared)[0].pk
    ids["schedule"] = schedules.save(place.principal, planned).pk
    webhook = IncomingWebhook(name=f"{mark} webhook", agent=echo, scheme="bearer", text=f"{mark} template")
    ids["incoming webhook"] = incoming.save(place.principal, webhook).pk
    ids["incoming event"] = incoming.receive(webhook, {"Idempotency-Key": f"{mark} event"}, {"of": mark}).pk
    ScheduledRun.objects.create(schedule=planned, due_at=timezone.now(), state="failed", reason=f"{mark} reason")

    made = Export.objects.create(owner=owner, state="done", expires_at=timezone.now() + datetime.timedelta(days=1))
    Export.objects.filter(pk=made.pk).update(file=default_storage.save(f"exports/{mark}", ContentFile(mark.encode())))
    ids["export"] = made.pk
    ids["deployment"] = Deployment.objects.create(slug="echo", digest="0" * 64, size=1, files=1, author=owner).pk


def _fill_notifications(place: Place) -> None:
    """A channel, a notification, and the secret of webhooks."""
    ids, mark, owner = place.ids, place.mark, place.owner
    address = {"type": "webhook", "url": f"https://{mark}.invalid/", "secret": f"whsec_{mark}"}
    told = {"kinds": ["asks"], "problem": f"{mark} problem"}
    channel = Channel.objects.create(user=owner, workspace=place.workspace, name=f"{mark} channel", **address, **told)
    ids["channel"] = channel.pk
    ids["link to stop"] = wording.stop_link(channel, wording.ALL).rpartition("/")[2]
    Notification.objects.create(
        channel=channel,
        context=ids["session"],
        task=ids["task of session"],
        event_index=1,
        kind="asks",
        state="failed",
        reason=f"{mark} reason",
        due_at=timezone.now(),
    )
    WebhookSigning.objects.create(user=owner, secret=f"whsec_{mark}")


def _program(place: Place) -> Program:
    made = Program(id=f"program-{place.mark}", name=f"{place.mark} program", owner=place.owner, type="confidential")
    made.set_scopes([READ, WRITE, "agent:echo"])
    made.set_grant_types(["client_credentials"])
    made.set_secret("a secret of the program")
    made.save()
    until = timezone.now() + datetime.timedelta(days=1)
    token = Token(client=made, user=place.owner, type=Token.Type.ACCESS_TOKEN, hash=place.mark, expires_at=until)
    token.set_scopes([READ])
    token.save()
    return made


def session_of(user: User) -> SessionStore:
    """A signed-in browser."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return session


@dataclass
class World:
    """Ours calls, and theirs is called. `watch`: all that is theirs."""

    ours: Place
    theirs: Place
    watch: rows.Watch


_known: tuple[World, sqlite3.Connection] | None = None


def once() -> World:
    """The same world for each module: made by the first one, whose rows and files the others copy (on SQLite).

    Tests between two modules may sweep the files.
    """
    global _known
    files, kept = default_storage.path(""), f"{os.environ['DATA_DIR']}/files of the two universes"
    if _known is None or connection.vendor != "sqlite":
        world = make(register_hosted("echo", ECHO, mcp_tools="agent"))
        if connection.vendor != "sqlite":
            return world
        _known = world, sqlite3.connect(":memory:", check_same_thread=False)
        connection.connection.backup(_known[1])
        shutil.copytree(files, kept)
    else:
        connection.ensure_connection()
        _known[1].backup(connection.connection)
        shutil.copytree(kept, files, dirs_exist_ok=True)
    return replace(_known[0], watch=replace(_known[0].watch, before=None))


def make(echo: Agent) -> World:
    ours = open_place("ouruniverse")
    fill(ours, echo)
    before = rows.keys()
    theirs = open_place("theiruniverse")
    fill(theirs, echo)
    for place in (ours, theirs):
        place.ids["address link"] = place.ids["password link"] = "no-link"
    ours.ids["agent of the task"], theirs.ids["agent of the task"] = echo.slug, theirs.ids["agent"]
    # A session that others of our workspace see, so that they ask by an id that they may name.
    commands.share_session(ours.principal, ours.ids["session"], Context.Sharing.WORKSPACE)
    return World(ours, theirs, rows.Watch.of(rows.added(before, rows.keys())))
