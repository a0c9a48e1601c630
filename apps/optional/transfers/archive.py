"""A person's data as one ZIP: profile, keys, credentials without their secrets, and every session with its files."""

from __future__ import annotations

import datetime
import json
import logging
import zipfile
from collections.abc import Callable
from itertools import batched
from typing import IO, Any
from zipfile import ZipFile

from allauth.account.models import EmailAddress
from allauth.idp.oidc.models import Client, Token
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.db.models import F
from django.utils import timezone

from apps.accounts.audit_models import ActorKind, AuditEntry
from apps.accounts.models import ApiKey, Membership, User
from apps.agents.models import DRAFT_PREFIX, Agent, AgentVersion
from apps.automation.models import Schedule
from apps.conversations.public_links.downloads import UniqueNames, bundle_of_session, write_entry
from apps.conversations.public_links.models import Share
from apps.conversations.public_links.transcripts import markdown_of
from apps.credentials.models import Credential
from apps.notifications.models import Channel, Notification, WebhookSigning
from apps.payments.models import PaymentBudget
from apps.record import lineage
from apps.record.content.parts import pieces_joined
from apps.record.events import JSON, EventType
from apps.record.models import Context, ContextQuerySet, Message
from apps.record.reading.lookup import DamagedArchive, restored
from apps.remote.models import RemoteCredential
from parley.registry import added

log = logging.getLogger("parley.export")

SESSIONS_AT_ONCE = 50
MESSAGES_AT_ONCE = 100
MOST_ACTS = 50_000  # of the audit
README = """\
This is your data from Parley, as of {at}.

profile.json    your profile and settings
keys.json       your API keys, without the keys themselves
credentials.json what you gave to agents, without the secrets
sign_in.json    your addresses, second factors, browsers and programs
workspaces.json your workspaces and roles
activity.json   what the audit says that you did, the newest {most_acts:,} acts
elsewhere.json  what you wrote in sessions of others
made.json       the agents and plans whose newest version you wrote
payments.json   your budgets that pay by themselves, without wallets and their secrets
schedules.json  what starts by itself for you
webhooks.json   what events of other systems start for you
notifications.json where you are told of your sessions, without addresses and secrets, and what was sent lately
shares.json     your links to sessions, without the links themselves
{of_apps}\
sessions/       a folder for each session, archived ones included:
  session.md    to read
  session.json  the messages, tasks and your feedback
  files/        what agents delivered, every version
  sent/         the files that you sent
"""


Watch = Callable[[int], None]
"""Called between pieces with the number of sessions that are written. It may raise, which ends the archive."""


def sessions_of(person: User) -> ContextQuerySet:
    """Those of all workspaces that the person is a member of, without tries of an agent's draft."""
    rooms = Membership.objects.filter(user=person, workspace__deleted_at=None).values("workspace")
    return (
        Context.objects.filter(owner=person, workspace__in=rooms, deleted_at=None)
        .listed()
        .exclude(agent__slug__startswith=DRAFT_PREFIX)
    )


def write_archive(person: User, file: IO[bytes], watch: Watch) -> None:
    """Write the person's ZIP. A session that cannot be read completely is named in it. Raises what `watch` raises."""
    folders, missing, done = UniqueNames(), list[str](), 0
    with ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        made = f"{timezone.now():%Y-%m-%d %H:%M} UTC"
        others = [found for write in added["personal_data"] for found in write(person)]
        of_apps = "".join(f"{name:<15} {words}\n" for name, words, _ in others if words)
        _add_text(archive, "README.txt", README.format(at=made, most_acts=MOST_ACTS, of_apps=of_apps))
        for name, content in (_about(person) | {name: content for name, _, content in others}).items():
            try:
                _add_content(archive, name, content, lambda: watch(done))
            except FileNotFoundError:
                log.exception("%s could not be exported", name)
                missing.append(f"{name}\n")
        own = sessions_of(person)
        for keys in batched(list(own.order_by("created_at", "pk").values_list("pk", flat=True)), SESSIONS_AT_ONCE):
            for context in own.filter(pk__in=keys).select_related("agent").order_by("created_at", "pk"):
                folder = f"sessions/{folders.unique(f'{context.created_at:%Y-%m-%d} {str(context)[:60]}')}/"
                try:
                    _add_session(archive, folder, context, lambda: watch(done))  # noqa: B023
                except (DamagedArchive, FileNotFoundError, Context.DoesNotExist):
                    log.exception("session %s could not be exported completely", context.pk)
                    missing.append(f"{folder}\n")
                done += 1
                watch(done)
        if missing:
            _add_text(archive, "incomplete.txt", "These could not be read completely:\n" + "".join(missing))


def _add_content(archive: ZipFile, name: str, content: Any, watch: Callable[[], None]) -> None:
    """JSON, or the file of a stored part. Raises FileNotFoundError."""
    if isinstance(content, dict) and "stored" in content:
        _add_part(archive, name, content, timezone.now(), watch)
    else:
        _add_json(archive, name, content)


def _add_session(archive: ZipFile, folder: str, context: Context, watch: Callable[[], None]) -> None:
    restored(context)
    watch()
    _add_text(archive, f"{folder}session.md", markdown_of(context))
    names, said = UniqueNames(), list[JSON]()
    for message in lineage.messages(context).order_by("index").iterator(MESSAGES_AT_ONCE):
        shown = []
        for part in pieces_joined(message.parts):
            if "stored" in part or "raw" in part:
                name = f"sent/{names.unique(part.get('filename') or 'file')}"
                _add_part(archive, folder + name, part, message.created_at, watch)
                part = {key: part[key] for key in ("filename", "mediaType") if key in part} | {"file": name}
            shown.append(part)
        said.append(_message(message, shown))
        watch()
    _add_json(archive, f"{folder}session.json", _session_json(context, said))
    for name, part, made in bundle_of_session(context, every_version=True).entries():
        _add_part(archive, f"{folder}files/{name}", part, made, watch)


def _add_part(archive: ZipFile, name: str, part: JSON, made: datetime.datetime, watch: Callable[[], None]) -> None:
    for _ in write_entry(archive, name, part, made):
        watch()


def _add_text(archive: ZipFile, name: str, text: str) -> None:
    archive.writestr(name, text.encode(errors="replace"))


def _add_json(archive: ZipFile, name: str, value: Any) -> None:
    """Times and ids as text."""
    as_text = lambda one: one.isoformat() if hasattr(one, "isoformat") else str(one)  # noqa: E731
    _add_text(archive, name, json.dumps(value, ensure_ascii=False, indent=2, default=as_text) + "\n")


def _message(message: Message, parts: list[JSON]) -> JSON:
    return {
        "index": message.index,
        "role": message.role,
        "at": message.created_at,
        "task": message.task_id,
        "parts": parts,
    }


def _session_json(context: Context, said: list[JSON]) -> JSON:
    tasks = lineage.tasks(context).order_by("created_at", "pk").values("id", "agent__slug", "state", "created_at")
    rated = lineage.events(context).filter(type=EventType.FEEDBACK).order_by("index")
    return {
        "id": context.pk,
        "title": context.title,
        "agent": context.agent.slug,
        "createdAt": context.created_at,
        "updatedAt": context.updated_at,
        "archivedAt": context.archived_at,
        "project": context.project,
        "messages": said,
        "tasks": list(tasks),
        "feedback": [{"task": one.task_id, "at": one.at, **one.payload} for one in rated],
    }


PROFILE_FIELDS = [
    "email",
    "name",
    "date_joined",
    "last_login",
    "time_zone",
    "theme",
    "notify_ended",
    "notify_questions",
]
KEY_FIELDS = ("name", "prefix", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")


CHANNEL_FIELDS = (
    "type", "name", "kinds", "agents", "digest", "questions_at_once", "is_on", "problem", "created_at",
)  # fmt: skip
NOTIFICATION_FIELDS = ("channel__name", "context", "task", "kind", "state", "reason", "created_at", "finished_at")
SHARE_FIELDS = ("upto", "title", "with_artifacts", "with_branches", "created_at", "expires_at", "revoked_at")
WEBHOOK_FIELDS = (
    "name", "agent__slug", "scheme", "signature", "text", "inputs", "only_if", "paused_at", "last_event_at",
    "created_at",
)  # fmt: skip
BUDGET_FIELDS = (
    "name", "is_on", "network", "asset", "payment_limit", "period_limit", "period", "spent", "period_began",
    "created_at",
)  # fmt: skip
SCHEDULE_FIELDS = (
    "name", "agent__slug", "text", "inputs", "kind", "cron", "every_seconds", "at", "time_zone", "sessions",
    "session", "project", "overlap", "catch_up", "next_at", "paused_at", "created_at",
)  # fmt: skip
ACT_FIELDS = ("at", "action", "object_type", "object_label", "address", "user_agent")


def _sign_in(person: User) -> dict[str, Any]:
    tokens = Token.objects.filter(user=person, type__in=Token.Type)
    return {
        "addresses": list(EmailAddress.objects.filter(user=person).values("email", "verified", "primary")),
        "secondFactors": list(Authenticator.objects.filter(user=person).values("type", "created_at", "last_used_at")),
        "accounts": list(SocialAccount.objects.filter(user=person).values("provider", "uid", "last_login")),
        "programs": [
            *tokens.values("client__name", "type", "scopes", "created_at", "expires_at"),
            *Client.objects.filter(owner=person).values("name", "type", "created_at"),
        ],
        "browsers": list(UserSession.objects.filter(user=person).values("ip", "user_agent", "created_at")),
    }


def _written_elsewhere(person: User) -> list[JSON]:
    """Their messages in other people's sessions, which are shared with their workspaces."""
    rooms = Membership.objects.filter(user=person).values("workspace")
    shared = Context.objects.filter(is_shared=True, workspace__in=rooms).exclude(owner=person)
    written = Message.objects.filter(context__in=shared, author=person).order_by("context", "index")
    return [dict(one) for one in written.values("context", "index", "created_at", "parts")]


def _made(person: User) -> list[JSON]:
    """Definitions have no secrets: those are in a table of their own."""
    rooms = Membership.objects.filter(user=person).values("workspace")
    own = AgentVersion.objects.filter(author=person, agent__workspace__in=rooms, agent__current_version=F("pk"))
    fields = ("agent__slug", "agent__kind", "number", "created_at", "content")
    return [dict(one) for one in own.order_by("agent__slug").values(*fields)]


def _notifications(person: User) -> JSON:
    """Addresses are left out, too: those of Slack and of browsers are secrets."""
    channels = list(Channel.objects.filter(user=person).order_by("created_at").values(*CHANNEL_FIELDS))
    slugs = {str(key): slug for key, slug in Agent.objects.visible_to(person.principal).values_list("pk", "slug")}
    for one in channels:
        one["agents"] = {slugs[key]: kinds for key, kinds in one["agents"].items() if key in slugs}
    told = Notification.objects.filter(channel__user=person).order_by("-created_at").values(*NOTIFICATION_FIELDS)
    signing = WebhookSigning.objects.filter(user=person).values("rotated_at").first()
    return {"channels": channels, "sent": list(told), "webhookSecret": signing}


def _about(person: User) -> dict[str, Any]:
    principal = person.principal
    given = Credential.objects.visible_to(principal).usable().order_by("given_at")
    remote = RemoteCredential.objects.visible_to(principal).untold().order_by("updated_at")
    return {
        "profile.json": {name: getattr(person, name) for name in PROFILE_FIELDS},
        "keys.json": list(ApiKey.objects.visible_to(principal).order_by("created_at").values(*KEY_FIELDS)),
        "sign_in.json": _sign_in(person),
        "workspaces.json": list(Membership.objects.filter(user=person).values("workspace__name", "role", "created_at")),
        "activity.json": list(
            AuditEntry.objects.filter(actor_kind=ActorKind.USER, actor_key=str(person.pk))
            .order_by("-number")
            .values(*ACT_FIELDS)[:MOST_ACTS]
        ),
        "elsewhere.json": _written_elsewhere(person),
        "made.json": _made(person),
        "schedules.json": list(Schedule.objects.filter(owner=person).order_by("created_at").values(*SCHEDULE_FIELDS)),
        "payments.json": list(PaymentBudget.objects.filter(owner=person).order_by("created_at").values(*BUDGET_FIELDS)),
        "webhooks.json": list(person.incoming_webhooks.order_by("created_at").values(*WEBHOOK_FIELDS)),
        "notifications.json": _notifications(person),
        "shares.json": list(
            Share.objects.filter(context__owner=person).order_by("created_at").values("context", *SHARE_FIELDS)
        ),
        "credentials.json": [
            *given.values("agent__slug", "service", "auth_type", "given_at", "last_used_at"),
            *remote.values("agent__slug", "scheme", "kind", "updated_at", "last_used_at"),
        ],
    }
