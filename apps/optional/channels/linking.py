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
CODE = re.compile(rf"[{LETTERS}]{{5}}-[{LETTERS}]{{5}}", re.IGNORECASE | re.ASCII)
VALID = datetime.timedelta(minutes=15)
LINKED = "You are linked to {}. Write your message."
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
    values = {"digest": _digest(code), "expires_at": sql.database_time() + VALID, "account": None}
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
    """What may be a code: a line of its own, such as below the subject of a letter. Or ""."""
    return next((line for one in text.splitlines() if CODE.fullmatch(line := one.strip())), "")


def redeem(channel: ChatChannel, inbound: Inbound, code: str) -> str:
    """Link the account that sent the code; returns what to tell its person.

    "" if there is no such code and the account is linked: then it is what they say. A repeat is told the same.
    """
    own = ChatAccount.objects.filter(channel=channel, external_id=inbound.person)
    with write_transaction():
        now, codes = sql.database_time(), LinkCode.objects.filter(digest=_digest(code))
        found = codes.select_related("user", "account").first()
        if found is None and own.exists():
            return ""
        if found is not None and found.account is not None and own.filter(pk=found.account.pk, user=found.user):
            return LINKED.format(found.user.short_name)
        # Of two who send it at once, one uses it.
        if found is None or not found.user.is_active or not codes.filter(expires_at__gt=now).update(expires_at=now):
            return WRONG_CODE.format(page_address())
        principal = found.user.principal_in(channel.workspace_id)
        if not principal.can(Permission.READ):
            return NOT_A_MEMBER
        values = {"user": found.user, "name": inbound.name[:200]}
        account, _ = ChatAccount.objects.update_or_create(channel=channel, external_id=inbound.person, defaults=values)
        codes.update(account=account)
        _record(AuditAction.CHAT_LINKED, account, principal)
    return LINKED.format(found.user.short_name)


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
