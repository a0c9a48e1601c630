"""What people choose: their channels, of what each is told, and the secrets that sign webhooks."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.people import mail
from apps.accounts.permissions import Permission
from apps.accounts.principals import READ, Principal
from apps.accounts.resources import Act
from apps.agents.models import Agent
from apps.notifications import push
from apps.notifications.models import Channel, Kind, WebhookSigning
from apps.record.errors import InvalidFields, UnsupportedOperation
from apps.record.models import Context
from parley import outbound
from parley.db.sql import write_transaction

MOST_CHANNELS = 20  # of one person
MOST_AGENTS = 100  # for which one channel differs
WATCHED_AT_ONCE = 500
NEEDS_READ = "A channel tells what sessions say, so this key also needs the scope tasks:read."
SOME_AGENTS = "This key is for some agents alone. A channel is told of all."
NO_MAIL = "This installation sends no e-mail. Ask an operator to set EMAIL_URL."
HAS_MAIL = "You are told by e-mail already. Change that channel."
NOT_SECURE = "Must begin with https://. Only private addresses that an operator allows may be called by http."
NO_AGENT = "There is no such agent."


class TooManyChannels(UnsupportedOperation):
    """You have as many channels as one person may have. Remove one first."""


def check_reach(principal: Principal) -> None:
    """A channel tells what the caller may read. Raises PermissionDenied."""
    if not principal.may(READ):
        raise PermissionDenied(NEEDS_READ)
    if principal.agents is not None:
        raise PermissionDenied(SOME_AGENTS)


def save(principal: Principal, channel: Channel) -> Channel:
    """Check and save a new or a changed channel of the caller. A new webhook gets a secret.

    A browser's second subscription replaces the first. There is one channel for mail. What a channel is told of agents
    that the caller does not see stays as it is.

    Raises InvalidFields, TooManyChannels, PermissionDenied.
    """
    check_reach(principal)
    channel.kinds = _in_order(channel.kinds)
    channel.agents = {key: _in_order(kinds) for key, kinds in channel.agents.items()}
    if channel.is_on:
        channel.problem = ""
    if channel._state.adding:
        _add(principal, channel)
    else:
        stored = Channel.objects.get(pk=channel.pk)
        seen = seen_agents(principal, stored.agents)
        hidden = {key: kinds for key, kinds in stored.agents.items() if key not in seen}
        if channel.agents.keys() - stored.agents.keys():
            _check_number(channel.agents.keys() - hidden.keys())
        channel.agents = hidden | channel.agents
        channel.save()
    note_switched(channel.user_id)
    return channel


def _add(principal: Principal, channel: Channel) -> None:
    """Raises InvalidFields, TooManyChannels."""
    assert principal.user_id is not None
    _check_number(channel.agents)
    type_ = channel.type
    channel.user_id = principal.user_id
    channel.workspace_id = principal.workspace_id if principal.key else None
    _check_address(type_, channel.url)
    if type_ == Channel.Type.PUSH:
        channel.url_hash = hashlib.sha256(channel.url.encode()).hexdigest()
        _check_keys(channel.push_keys)
    if type_ == Channel.Type.MAIL and not mail.can_send():
        raise InvalidFields([("type", NO_MAIL)])
    if type_ == Channel.Type.WEBHOOK:
        channel.rotate(timezone.now())
    own = Channel.objects.filter(user=channel.user_id)
    with write_transaction():
        User.objects.select_for_update().get(pk=channel.user_id)  # two at once must not exceed the limit
        if type_ == Channel.Type.MAIL and own.filter(type=type_).exists():
            raise InvalidFields([("type", HAS_MAIL)])
        if type_ == Channel.Type.PUSH:  # whoever used this browser before is not told here any more
            Channel.objects.filter(type=type_, url_hash=channel.url_hash).delete()
        if own.count() >= MOST_CHANNELS:
            raise TooManyChannels
        channel.save()


def _in_order(kinds: Iterable[str]) -> list[str]:
    chosen = set(kinds)
    return [kind for kind in Kind.values if kind in chosen]


def _check_number(agents: Sized) -> None:
    """Raises InvalidFields."""
    if len(agents) > MOST_AGENTS:
        raise InvalidFields([("agents", f"At most {MOST_AGENTS} agents can differ.")])


def kinds_by_agent(principal: Principal, chosen: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What `Channel.agents` holds, from slugs: a list of {agent, kinds}.

    Raises InvalidFields for an unknown agent, or too many.
    """
    _check_number(chosen)
    slugs = [one["agent"] for one in chosen]
    known = dict(Agent.objects.visible_to(principal).filter(slug__in=slugs).values_list("slug", "pk"))
    if not known.keys() >= set(slugs):
        raise InvalidFields([("agents", NO_AGENT)])
    return {str(known[one["agent"]]): one.get("kinds", []) for one in chosen}


def seen_agents(principal: Principal, keys: Iterable[str]) -> dict[str, Agent]:
    """The agents with these keys, which are those in `Channel.agents`, as far as the caller sees them."""
    numbers = [int(key) for key in keys]
    found = Agent.objects.visible_to(principal).filter(pk__in=numbers) if numbers else ()
    return {str(agent.pk): agent for agent in found}


def _check_address(type_: str, url: str) -> None:
    """Raises InvalidFields."""
    if type_ == Channel.Type.MAIL:
        if url:
            raise InvalidFields([("url", "Letters go to the address that you sign in with. Leave this empty.")])
        return
    try:
        outbound.guard().vet_now(url)
    except outbound.OutboundError as refusal:
        raise InvalidFields([("url", str(refusal))]) from None
    if not url.startswith("https://") and not outbound.is_private(url):
        raise InvalidFields([("url", NOT_SECURE)])


def _check_keys(keys: str) -> None:
    """Raises InvalidFields."""
    given = json.loads(keys or "{}")
    try:
        push.Keys.read(given.get("p256dh", ""), given.get("auth", ""))
    except push.BadSubscription as error:
        raise InvalidFields([("keys", str(error))]) from None


def _remove(channel: Channel, principal: Principal) -> Channel:
    channel.delete()
    note_switched(channel.user_id)
    return channel


def _rotate(channel: Channel, principal: Principal) -> Channel:
    """Raises InvalidFields for another channel than a webhook, PermissionDenied."""
    check_reach(principal)
    if channel.type != Channel.Type.WEBHOOK:
        raise InvalidFields([("", "Only a webhook has a secret.")])
    channel.rotate(timezone.now())
    channel.save(update_fields=["secret", "previous_secret", "previous_until"])
    return channel


ROTATE = Act[Channel](
    "rotate",
    "Make a new secret",
    _rotate,
    "Give a webhook a new secret",
    "The old secret signs for a day beside the new one.",
    lambda _: "It has a new secret.",
    lambda channel: channel.type == Channel.Type.WEBHOOK,
    permission=Permission.READ,
    repeats=False,
)
REMOVE = Act[Channel](
    "delete",
    "Remove",
    _remove,
    "Remove a channel",
    "What waits for it is not sent.",
    lambda channel: f"{channel} is removed.",
    permission=Permission.READ,
    is_grave=True,
)


def stop(key: uuid.UUID, kind: str) -> bool:
    """Switch a kind off, or all, as a link in a letter asks. Returns False if there is no such channel any more."""
    channel = Channel.objects.filter(pk=key).first()
    if channel is None:
        return False
    if kind in Kind.values:
        channel.kinds = [one for one in channel.kinds if one != kind]
        channel.agents = {agent: [one for one in kinds if one != kind] for agent, kinds in channel.agents.items()}
        channel.notifications.waiting().filter(kind=kind).delete()
    else:
        channel.is_on = False
    channel.save(update_fields=["kinds", "agents", "is_on"])
    note_switched(channel.user_id)
    return True


def give_up(channel: Channel, why: str) -> None:
    """The receiver is gone: a browser's channel goes, others are switched off."""
    if channel.type == Channel.Type.PUSH:
        Channel.objects.filter(pk=channel.pk).delete()
    else:
        Channel.objects.filter(pk=channel.pk).update(is_on=False, problem=why)
    note_switched(channel.user_id)


def rotate_webhook_secret(user: int) -> str:
    """A new secret for the person's A2A webhooks, shown once; the one before signs, too, for a day."""
    with write_transaction():
        User.objects.select_for_update().get(pk=user)
        signing = WebhookSigning.objects.filter(user=user).first() or WebhookSigning(user_id=user)
        signing.rotated_at = timezone.now()
        secret = signing.rotate(signing.rotated_at)
        signing.save()
    return secret


def note_switched(user: int) -> None:
    """Note whether the person has a channel that is on. From the first on, all their sessions are watched."""
    has_any = Channel.objects.filter(user=user, is_on=True).exists()
    changed = User.objects.filter(pk=user, is_notified=not has_any).update(is_notified=has_any)
    if not (changed and has_any):
        return
    unwatched = Context.objects.filter(owner=user, is_watched=False, deleted_at=None, parent_task=None)
    while keys := list(unwatched.values_list("pk", flat=True)[:WATCHED_AT_ONCE]):
        Context.objects.filter(pk__in=keys).update(is_watched=True)
