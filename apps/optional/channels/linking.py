"""Whose account at a platform is whose here.

A person makes a code on their page, where they are signed in, and sends it from the other account. So nobody can be
tricked into linking somebody else's account to theirs by a link.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import reverse

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, Resource
from apps.optional.channels.models import ChatAccount, ChatChannel, LinkCode
from apps.optional.channels.platforms import Inbound
from parley.db import sql
from parley.db.sql import write_transaction

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none that looks like another
CODE = re.compile(rf"(?<![\w-])([{LETTERS}]{{5}}-[{LETTERS}]{{5}})(?![\w-])", re.IGNORECASE)
VALID = datetime.timedelta(minutes=15)
WRONG_CODE = "This code is wrong, used or too old. Make a new one at {}."
NOT_A_MEMBER = "Your account is no member of the workspace of this channel. Ask one of its managers to invite you."


@dataclass(frozen=True, slots=True)
class Caller:
    """Who acts by what came in. A guest acts as the channel's owner, in temporary sessions."""

    principal: Principal
    is_guest: bool = False


def page_address() -> str:
    return f"{settings.PUBLIC_BASE_URL}{reverse('web:settings-chat-accounts')}"


def how_to_link(channel: ChatChannel) -> str:
    return (
        f"I do not know you yet. To talk to me, sign in at {page_address()}, make a code there, and send it to me. "
        "Then write your message again."
    )


def new_code(user: User) -> str:
    """A code for the person. The one before counts no more."""
    code = "-".join("".join(secrets.choice(LETTERS) for _ in range(5)) for _ in range(2))
    values = {"digest": _digest(code), "expires_at": sql.database_time() + VALID}
    LinkCode.objects.update_or_create(user=user, defaults=values)
    return code


def _digest(code: str) -> str:
    return hashlib.sha256(code.upper().encode()).hexdigest()


def caller_of(channel: ChatChannel, inbound: Inbound) -> Caller | None:
    """None for somebody who is not linked, unless the channel takes guests.

    Rights are those of now: without a role in the workspace, an account does nothing there.
    """
    linked = ChatAccount.objects.select_related("user").filter(channel=channel, external_id=inbound.person).first()
    if linked is not None:
        return Caller(linked.user.principal_in(channel.workspace_id)) if linked.user.is_active else None
    return Caller(channel.owner.principal_in(channel.workspace_id), is_guest=True) if channel.takes_guests else None


def code_in(text: str) -> str:
    """The code that a message has, or ""."""
    found = CODE.search(text)
    return found[1] if found else ""


def redeem(channel: ChatChannel, inbound: Inbound, code: str) -> str:
    """Link the account that sent the code; returns what to tell its person."""
    with write_transaction():
        valid = LinkCode.objects.filter(digest=_digest(code), expires_at__gt=sql.database_time())
        found = valid.select_related("user").first()
        # Of two who send it at once, one deletes it.
        if found is None or not found.user.is_active or not valid.filter(user=found.user).delete()[0]:
            return WRONG_CODE.format(page_address())
        principal = found.user.principal_in(channel.workspace_id)
        if not principal.can(Permission.READ):
            return NOT_A_MEMBER
        values = {"user": found.user, "name": inbound.name[:200]}
        account, _ = ChatAccount.objects.update_or_create(channel=channel, external_id=inbound.person, defaults=values)
        _record(AuditAction.CHAT_LINKED, account, principal)
    return f"You are linked to {found.user.short_name}. Write your message."


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """What an archive of the person's data has of this app, without secrets."""
    channels = ChatChannel.objects.filter(owner=person).order_by("created_at", "pk")
    accounts = ChatAccount.objects.select_related("channel").filter(user=person).order_by("created_at", "pk")
    made = [{"name": one.name, "platform": one.platform, "createdAt": one.created_at.isoformat()} for one in channels]
    linked = [
        {
            "platform": one.channel.platform,
            "account": one.external_id,
            "name": one.name,
            "linkedAt": one.created_at.isoformat(),
        }
        for one in accounts
    ]
    yield (
        "chats.json",
        "your chat channels, and your accounts that are linked to some",
        {"channels": made, "accounts": linked},
    )


def _unlink(account: ChatAccount, principal: Principal) -> ChatAccount:
    _record(AuditAction.CHAT_UNLINKED, account, principal)
    account.delete()
    return account


def _record(action: AuditAction, account: ChatAccount, principal: Principal) -> None:
    subject = audit.Subject("chats.chataccount", str(account.pk), account.channel.platform)
    details = {"platform": account.channel.platform, "channel": str(account.channel_id)}
    audit.record(action, actor=principal, object=subject, workspace=account.channel.workspace_id, details=details)


UNLINK = Act[ChatAccount](
    "unlink",
    "Unlink",
    _unlink,
    "Unlink a chat account",
    "What is written from there acts as you no more. Sessions stay.",
    lambda _: "It was unlinked.",
    permission=Permission.READ,
    is_grave=True,
    records=True,
)
CHAT_ACCOUNTS = Resource(
    "chat-accounts",
    "chat_account",
    ChatAccount,
    acts=(UNLINK,),
    related=("channel", "user"),
    permission=Permission.READ,
)
