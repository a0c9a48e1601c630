"""What people choose: their channels, of what each is told, and the secrets that sign webhooks."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

import outbound
from apps.accounts.models import User
from apps.accounts.people import mail
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.features.notifications import push
from apps.features.notifications.models import Channel, Kind, WebhookSigning
from apps.record.errors import InvalidFields, UnsupportedOperation
from apps.record.models import Context
from db.sql import write_transaction

MOST_CHANNELS = 20  # of one person
MOST_AGENTS = 100  # for which one channel differs
WATCHED_AT_ONCE = 500
NO_MAIL = "This installation sends no e-mail. Ask an operator to set EMAIL_URL."
HAS_MAIL = "You are told by e-mail already. Change that channel."
NOT_SECURE = "Must begin with https://. Only private addresses that an operator allows may be called by http."
NO_AGENT = "There is no such agent."


class TooManyChannels(UnsupportedOperation):
    """You have as many channels as one person may have. Remove one first."""


def add(principal: Principal, values: Mapping[str, Any]) -> tuple[Channel, str]:
    """Save a new channel of the caller; returns it and, for a webhook, its secret, which is shown once.

    `values`: type, name, url, keys (of a browser), and what `change` takes. A browser's second subscription replaces
    the first. There is one channel for mail.

    Raises InvalidFields, TooManyChannels.
    """
    assert principal.user_id is not None
    owner = User.objects.get(pk=principal.user_id)
    own = Channel.objects.filter(user=owner)
    type_ = Channel.Type(values["type"])
    channel = Channel(user=owner, type=type_, kinds=list(Kind.values))
    channel.workspace_id = principal.workspace_id if principal.key else None
    channel.url = _checked_url(type_, str(values.get("url") or ""))
    channel.url_hash = hashlib.sha256(channel.url.encode()).hexdigest() if type_ == Channel.Type.PUSH else ""
    if type_ == Channel.Type.PUSH:
        channel.push_keys = _checked_keys(values.get("keys") or {})
    if type_ == Channel.Type.MAIL and not mail.can_send():
        raise InvalidFields([("type", NO_MAIL)])
    _apply(principal, channel, values)
    secret = channel.rotate(timezone.now()) if type_ == Channel.Type.WEBHOOK else ""
    with write_transaction():
        User.objects.select_for_update().get(pk=owner.pk)  # two at once must not exceed the limit
        if type_ == Channel.Type.MAIL and own.filter(type=type_).exists():
            raise InvalidFields([("type", HAS_MAIL)])
        if type_ == Channel.Type.PUSH:  # whoever used this browser before is not told here any more
            Channel.objects.filter(type=type_, url_hash=channel.url_hash).delete()
        if own.count() >= MOST_CHANNELS:
            raise TooManyChannels
        channel.save()
    note_switched(owner.pk)
    return channel, secret


def change(principal: Principal, channel: Channel, values: Mapping[str, Any]) -> Channel:
    """Change name, is_on, kinds, agents (a list of {agent, kinds}), digest or questions_at_once.

    Raises InvalidFields.
    """
    _apply(principal, channel, values)
    channel.save()
    note_switched(channel.user_id)
    return channel


def _apply(principal: Principal, channel: Channel, values: Mapping[str, Any]) -> None:
    for name in ("name", "is_on", "kinds", "digest", "questions_at_once"):
        if name in values:
            setattr(channel, name, values[name])
    if values.get("is_on"):
        channel.problem = ""
    if "agents" in values:
        seen = agents_of(principal, [channel])
        others = {key: kinds for key, kinds in channel.agents.items() if key not in seen}  # of other workspaces
        channel.agents = others | _kinds_by_agent(principal, values["agents"])
    channel.kinds = [kind for kind in Kind.values if kind in channel.kinds]


def _kinds_by_agent(principal: Principal, chosen: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Raises InvalidFields for an agent that the caller cannot see."""
    if len(chosen) > MOST_AGENTS:
        raise InvalidFields([("agents", f"At most {MOST_AGENTS} agents can differ.")])
    known = dict(
        Agent.objects.visible_to(principal).filter(slug__in=[one["agent"] for one in chosen]).values_list("slug", "pk")
    )
    if any(one["agent"] not in known for one in chosen):
        raise InvalidFields([("agents", NO_AGENT)])
    return {str(known[one["agent"]]): [kind for kind in Kind.values if kind in one["kinds"]] for one in chosen}


def agents_of(principal: Principal, channels: Sequence[Channel]) -> dict[str, Agent]:
    """The agents for which channels differ, by the keys in `Channel.agents`, as far as the caller sees them."""
    keys = {int(key) for channel in channels for key in channel.agents}
    found = Agent.objects.visible_to(principal).filter(pk__in=keys) if keys else ()
    return {str(agent.pk): agent for agent in found}


def _checked_url(type_: Channel.Type, url: str) -> str:
    """Raises InvalidFields."""
    if type_ == Channel.Type.MAIL:
        if url:
            raise InvalidFields([("url", "Letters go to the address that you sign in with. Leave this empty.")])
        return ""
    try:
        outbound.guard().vet_now(url)
    except outbound.Forbidden as refusal:
        raise InvalidFields([("url", str(refusal))]) from None
    except outbound.OutboundError as error:
        raise InvalidFields([("url", str(error))]) from None
    if not url.startswith("https://") and not outbound.is_private(url):
        raise InvalidFields([("url", NOT_SECURE)])
    return url


def _checked_keys(keys: Mapping[str, Any]) -> str:
    """Raises InvalidFields."""
    given = {name: str(keys.get(name) or "") for name in ("p256dh", "auth")}
    try:
        push.Keys.read(**given)
    except push.BadSubscription as error:
        raise InvalidFields([("keys", str(error))]) from None
    return json.dumps(given)


def remove(channel: Channel) -> None:
    channel.delete()
    note_switched(channel.user_id)


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


def rotate(channel: Channel) -> str:
    """A new secret for a webhook; the one before signs, too, for a day. Raises InvalidFields for another channel."""
    if channel.type != Channel.Type.WEBHOOK:
        raise InvalidFields([("", "Only a webhook has a secret.")])
    secret = channel.rotate(timezone.now())
    channel.save(update_fields=["secret", "previous_secret", "previous_until"])
    return secret


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
