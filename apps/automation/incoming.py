"""Incoming webhooks: events of other systems that start an agent or a plan.

`receive` writes a row for each event, once by the sender's id. A job of the webhook then fills the templates and starts
the work, event by event. A row's key is its message's idempotency key, so it starts once.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.accounts.resources import Act, NotNeeded, Resource, deleting, pausing, resuming
from apps.accounts.secrets import webhook_signatures
from apps.agents.models import Agent
from apps.automation import targets
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.record.content import strict_json
from apps.record.errors import InvalidFields, NotAccepting, Refusal, UnsupportedOperation
from apps.record.events import JSON
from parley import templating
from parley.db import sql
from parley.templating import Source, TemplateProblem, TemplateProblems
from parley.work import WorkList

log = logging.getLogger("parley.automation")

PAUSED = "The webhook was paused."
TRIED_FOR = datetime.timedelta(hours=1)  # while limits are reached
STARTED_AT_ONCE = 100  # events by one job of a webhook
SWEPT_AFTER = datetime.timedelta(seconds=10)  # the event's own message comes first
MOST_TEMPLATES = 100  # in the inputs
CONDITION, TEXT, INPUTS = ("onlyIf",), ("text",), ("inputs",)  # where templates are
WHOLE_EXPRESSION = re.compile(r"\s*\{\{((?:(?!\}\}|\{\{).)*)\}\}\s*", re.DOTALL)
SIGNATURES_VALID = datetime.timedelta(seconds=2 * webhook_signatures.TOLERANCE_SECONDS)  # also of a sender ahead of us
LONGEST_ID = 200  # characters
MOST_HEADERS, LONGEST_HEADER = 40, 500
SECRET_HEADER = re.compile(r"authorization|cookie|signature|token|secret|api-?key|forwarded|-real-ip", re.IGNORECASE)

type Path = tuple[str | int, ...]
State = IncomingEvent.State


class TooManyWebhooks(UnsupportedOperation):
    """You have as many incoming webhooks as one person may have. Delete one first."""


EDITED = ("agent", "name", "text", "inputs", "only_if", "signature", "updated_at")


def save(principal: Principal, webhook: IncomingWebhook) -> IncomingWebhook:
    """Check and save a new or changed webhook of the caller. A new one without a secret gets a random one.

    Raises InvalidFields, TooManyWebhooks.
    """
    if webhook.agent is None or principal.user_id is None or principal.workspace_id is None:
        raise InvalidFields([("agent", targets.NO_AGENT)])
    if problems := webhook_signatures.option_problems(webhook.scheme, webhook.signature or {}):
        raise InvalidFields([(f"signature.{name}".rstrip("."), sentence) for name, sentence in problems])
    check_templates(webhook)
    if not webhook._state.adding:
        webhook.save(update_fields=EDITED)
        return webhook
    webhook.owner_id, webhook.workspace_id = principal.user_id, principal.workspace_id
    webhook.secret = _checked_secret(webhook, webhook.secret)
    with sql.write_transaction():
        User.objects.select_for_update().get(pk=principal.user_id)  # two at once must not exceed the limit
        own = IncomingWebhook.objects.filter(owner=principal.user_id, workspace=principal.workspace_id)
        if own.count() >= settings.INCOMING_WEBHOOKS_PER_PERSON:
            raise TooManyWebhooks
        webhook.save()
    return webhook


def _checked_secret(webhook: IncomingWebhook, secret: str) -> str:
    if secret and (problem := webhook_signatures.secret_problem(webhook.scheme, secret)):
        raise InvalidFields([("secret", problem)])
    return secret or webhook_signatures.new_secret(webhook.scheme)


def replace_secret(webhook: IncomingWebhook, secret: str = "") -> IncomingWebhook:
    """Give it this secret, or a random one. The one before counts for another day. Raises InvalidFields.

    If it is replaced again within that day, the oldest, which the sender still has, counts on.
    """
    now, new = sql.database_time(), _checked_secret(webhook, secret)
    if webhook.old_secret_until is None or webhook.old_secret_until <= now:
        webhook.old_secret, webhook.old_secret_until = webhook.secret, now + webhook_signatures.GRACE
    webhook.secret = new
    webhook.save(update_fields=["secret", "old_secret", "old_secret_until", "updated_at"])
    return webhook


def pause(webhook: IncomingWebhook, principal: Principal) -> IncomingWebhook:
    """Events are still accepted and shown, but start nothing. Raises NotNeeded."""
    if not IncomingWebhook.objects.filter(pk=webhook.pk, paused_at=None).update(paused_at=sql.database_time()):
        raise NotNeeded("It is paused already.")
    return webhook


def resume(webhook: IncomingWebhook, principal: Principal) -> IncomingWebhook:
    """Raises NotNeeded."""
    if not IncomingWebhook.objects.filter(pk=webhook.pk, paused_at__isnull=False).update(paused_at=None):
        raise NotNeeded("It is not paused.")
    return webhook


PAUSE = pausing(pause, "an incoming webhook", "Events are still accepted and listed, but start nothing.")
RESUME = resuming(resume, "a paused incoming webhook", "Events that came during the pause start nothing.")
DELETE: Act[IncomingWebhook] = deleting("an incoming webhook and its events", "The tasks that it started stay.")
WEBHOOKS = Resource("webhooks", "webhook", IncomingWebhook, save, (PAUSE, RESUME, DELETE), ("agent",))


def address_of(webhook: IncomingWebhook) -> str:
    return f"{settings.PUBLIC_BASE_URL}/hooks/{webhook.pk}"


# Templates


@dataclass(frozen=True, slots=True)
class Filled:
    """What an event makes of the templates. `ignored` says why it starts nothing, or is ""."""

    text: str = ""
    inputs: JSON = field(default_factory=dict)
    ignored: str = ""


def check_templates(webhook: IncomingWebhook) -> None:
    """Raises InvalidFields for a template that cannot be read."""
    sources = _checked_sources(webhook)
    found = zip(sources, templating.read(list(sources.values())), strict=True)
    if problems := [(_dotted(path), said) for path, said in found if isinstance(said, str)]:
        raise InvalidFields(problems)


def _checked_sources(webhook: IncomingWebhook) -> dict[Path, Source]:
    """All templates. Raises InvalidFields if they are too many or too large."""
    problems, sources = [], _sources(webhook)
    if strict_json.size_of(webhook.inputs) > targets.MAX_INPUT_BYTES:
        problems.append(("inputs", f"Must have at most {targets.MAX_INPUT_BYTES // 1024} KiB."))
    if sum(path[:1] == INPUTS for path in sources) > MOST_TEMPLATES:
        problems.append(("inputs", f"Must have at most {MOST_TEMPLATES} texts."))
    if problems:
        raise InvalidFields(problems)
    return sources


def _sources(webhook: IncomingWebhook) -> dict[Path, Source]:
    """By the paths of their fields, the condition first. A text that is one expression keeps the type of its value."""
    found: dict[Path, Source] = {CONDITION: Source(webhook.only_if, True)} if webhook.only_if else {}
    found |= {TEXT: Source(webhook.text)} if webhook.text else {}
    for path, source in _texts_of(webhook.inputs, INPUTS):
        whole = WHOLE_EXPRESSION.fullmatch(source)
        found[path] = Source(whole[1], True) if whole else Source(source)
    return found


def _texts_of(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from _texts_of(one, (*path, name))


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def _names(body: Any, headers: Mapping[str, str], event_id: str, kind: str) -> JSON:
    return {"body": body, "headers": headers, "event": {"id": event_id, "type": kind}}


def fill(webhook: IncomingWebhook, body: Any, headers: Mapping[str, str], event_id: str, kind: str) -> Filled:
    """The message and the inputs that an event starts the work with. Raises TemplateProblem.

    Without templates an agent gets the event as data.
    """
    sources, names = _sources(webhook), _names(body, headers, event_id, kind)
    values = templating.work_out(list(sources.values()), names, condition=_condition_at(webhook)) if sources else []
    return _filled(webhook, dict(zip(sources, values, strict=False)), names)


async def preview(webhook: IncomingWebhook, body: Any, headers: Mapping[str, str], kind: str) -> Filled:
    """What `fill` would give for a sample, without waiting in a thread. Raises InvalidFields."""
    sources, names = _checked_sources(webhook), _names(body, headers, "sample", kind)
    try:
        values = await templating.work_out_async(list(sources.values()), names, condition=_condition_at(webhook))
        return _filled(webhook, dict(zip(sources, values, strict=False)), names)
    except TemplateProblems as found:
        paths = list(sources)
        raise InvalidFields([(_dotted(paths[at]), sentence) for at, sentence in found.problems]) from None
    except TemplateProblem as problem:
        raise InvalidFields([("inputs", str(problem))]) from None


def _condition_at(webhook: IncomingWebhook) -> int:
    return 0 if webhook.only_if else -1


def _filled(webhook: IncomingWebhook, values: Mapping[Path, Any], names: JSON) -> Filled:
    """Raises TemplateProblem."""
    if webhook.only_if and not values[CONDITION]:
        return Filled(ignored="The condition does not hold for it.")
    text, inputs = str(values.get(TEXT, "")), _with_values(webhook.inputs, values, INPUTS)
    is_plan = webhook.agent is not None and webhook.agent.kind == Agent.Kind.PLAN
    if not text.strip() and not inputs and not is_plan:
        kind = names["event"]["type"]
        inputs = {"event": kind, "body": names["body"]} if kind else {"body": names["body"]}
    try:
        filled = Filled(strict_json.to_storable(text), strict_json.to_storable(inputs))
        size = strict_json.size_of(filled.inputs)
    except ValueError as error:  # such as NaN
        raise TemplateProblem(f"The inputs cannot be kept: {error}") from None
    if size > targets.MAX_INPUT_BYTES:
        raise TemplateProblem(f"The inputs have more than {targets.MAX_INPUT_BYTES // 1024} KiB.")
    return filled


def _with_values(value: Any, values: Mapping[Path, Any], path: Path) -> Any:
    """The inputs with the values of their templates."""
    if isinstance(value, dict):
        return {name: _with_values(one, values, (*path, name)) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_values(one, values, (*path, at)) for at, one in enumerate(value)]
    return values[path] if isinstance(value, str) else value


# Events


def find_webhook(key: uuid.UUID | None) -> IncomingWebhook | None:
    """The webhook at this address."""
    found = IncomingWebhook.objects.select_related("agent").filter(owner__is_active=True)
    return found.filter(pk=key).first() if key else None


def may_be_signed(webhook: IncomingWebhook, headers: Mapping[str, str]) -> bool:
    """Before a body is received: is the token right, or is there a signature to be checked?"""
    keys = _keys(webhook, sql.database_time())
    return webhook_signatures.may_be_signed(webhook.scheme, keys, headers, webhook.signature)


def is_signed(webhook: IncomingWebhook, headers: Mapping[str, str], body: bytes) -> bool:
    """Did one of the webhook's secrets sign the request?"""
    now = sql.database_time()
    keys, at = _keys(webhook, now), now.timestamp()
    return webhook_signatures.is_signed(webhook.scheme, keys, headers, body, at, webhook.signature)


def _keys(webhook: IncomingWebhook, now: datetime.datetime) -> list[str]:
    is_old_one_valid = webhook.old_secret_until is not None and webhook.old_secret_until > now
    return [webhook.secret, *([webhook.old_secret] if is_old_one_valid else [])]


def challenge_of(webhook: IncomingWebhook, body: Any) -> str | None:
    """What Slack wants to have repeated before it sends events to the address."""
    is_asked = webhook.scheme == webhook_signatures.SLACK and isinstance(body, dict)
    challenge = body.get("challenge") if is_asked and body.get("type") == "url_verification" else None
    return challenge if isinstance(challenge, str) else None


def receive(webhook: IncomingWebhook, headers: Mapping[str, str], body: Any, own_id: str = "") -> IncomingEvent | None:
    """Record an event, and have it started. An event that came before is returned as it is, if it is still kept.
    None if the webhook has been deleted meanwhile.

    `own_id` is its id if the sender gives none, so that a repeated call does not record it twice.
    """
    event_id, kind = _identity(webhook, headers, body)
    event_id = event_id or own_id or str(uuid.uuid4())
    fields = {"kind": kind, "body": body, "headers": kept_headers(headers), "received_at": sql.database_time()}
    if webhook.paused_at is not None:
        fields |= {"state": State.IGNORED, "reason": PAUSED}
    elif webhook.scheme == webhook_signatures.GITHUB and kind == "ping":
        fields |= {"state": State.IGNORED, "reason": "GitHub tried the address."}
    is_same = Q(event_id=event_id)
    scheme = webhook_signatures.scheme_of(webhook.scheme, webhook.secret, webhook.signature)
    if not scheme.signs_id:
        time = scheme.signed_time(headers)
        fields["digest"] = strict_json.digest_of([time, body] if time else body)
        is_same |= Q(digest=fields["digest"]) & (Q() if time else Q(state__in=(State.WAITING, State.STARTED)))
    same = IncomingEvent.objects.filter(is_same, webhook=webhook, is_repeat=False).order_by("received_at")
    with sql.write_transaction():
        # Two at once come one after the other.
        if not IncomingWebhook.objects.select_for_update(no_key=True).filter(pk=webhook.pk):
            return None
        if (earlier := same.first()) is not None:
            return earlier
        event = IncomingEvent.objects.create(webhook=webhook, event_id=event_id, **fields)
        IncomingWebhook.objects.filter(pk=webhook.pk).update(last_event_at=event.received_at)
        _start_later(event)
    return event


def _identity(webhook: IncomingWebhook, headers: Mapping[str, str], body: Any) -> tuple[str, str]:
    """The sender's id of an event, or "", and what it says happened."""
    scheme = webhook_signatures.scheme_of(webhook.scheme, webhook.secret, webhook.signature)
    about = body if isinstance(body, dict) else {}
    ids = [headers.get(name) for name in scheme.id_headers] + [about.get(name) for name in scheme.id_fields]
    event_id = next(filter(None, ids), "")
    kind: Any = headers.get(scheme.kind_header, "") if scheme.kind_header else about.get("type", "")
    if webhook.scheme == webhook_signatures.SLACK:
        inner = about.get("event")  # in an envelope
        kind = inner.get("type", "") if isinstance(inner, dict) else kind or about.get("command", "")
    known = event_id.replace("\0", "") if isinstance(event_id, str) else ""
    if len(known) > LONGEST_ID:
        known = hashlib.sha256(known.encode()).hexdigest()
    return known, kind[:LONGEST_ID] if isinstance(kind, str) else ""


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """By lower-case names, without secrets and what proxies add."""
    shown = {name.lower(): value for name, value in headers.items() if not SECRET_HEADER.search(name)}
    return {name: value[:LONGEST_HEADER] for name, value in list(shown.items())[:MOST_HEADERS]}


def send_again(event: IncomingEvent) -> IncomingEvent:
    """Start the work again by the templates as they are now, as another event."""
    with sql.write_transaction():
        repeated = IncomingEvent.objects.create(
            webhook_id=event.webhook_id, event_id=event.event_id, kind=event.kind, body=event.body,
            headers=event.headers, is_repeat=True, repeats=event, received_at=sql.database_time(),
        )  # fmt: skip
        _start_later(repeated)
    return repeated


SEND_AGAIN = Act[IncomingEvent](
    "again",
    "Send again",
    lambda event, principal: send_again(event),
    "Send an event again",
    "The work starts again as the webhook's owner, by the templates as they are now.",
    lambda _: "It was sent again.",
    starts_work=True,
    repeats=False,
    icon="replay",
)
EVENTS = Resource(
    "events", "event", IncomingEvent, acts=(SEND_AGAIN,), related=("task",), order=("-received_at", "-id")
)


def _start_later(event: IncomingEvent) -> None:
    if event.state == State.WAITING:
        transaction.on_commit(lambda: EVENTS_TO_START.publish(event.webhook_id))


def start_events_of(webhook: uuid.UUID) -> int:
    """Starts the work of a webhook's events in order, until limits are reached. Returns how many started.

    Two jobs may do this at the same time: each event starts once.
    """
    waiting = IncomingEvent.objects.filter(webhook=webhook, state=State.WAITING)
    started = 0
    for key in list(waiting.order_by("received_at", "id").values_list("pk", flat=True)[:STARTED_AT_ONCE]):
        event = waiting.select_related("webhook__owner", "webhook__agent", "agent").filter(pk=key).first()
        if event is None:
            continue  # another job has started it
        try:
            started += _start(event)
        except Exception:
            log.exception("event %s could not start; the next sweep tries again", key)
            too_old = waiting.filter(pk=key, received_at__lt=_long_ago() - TRIED_FOR)
            too_old.update(state=State.FAILED, reason="It could not start because of an error here.")
            continue
        if event.state == State.WAITING and waiting.filter(pk=key).exists():
            break  # its owner's limits are reached
    return started


def _long_ago() -> datetime.datetime:
    return sql.database_time() - SWEPT_AFTER


def due_webhooks() -> QuerySet[IncomingEvent, Any]:
    """Those with events that wait longer than their own message takes."""
    waiting = IncomingEvent.objects.filter(state=State.WAITING, received_at__lt=_long_ago())
    return waiting.order_by().values_list("webhook", flat=True).distinct()


EVENTS_TO_START = WorkList(
    "incoming_events", "automation.start_events", start_events_of, IncomingWebhook, "received_at",
    due=due_webhooks, waiting=lambda: IncomingEvent.objects.filter(state=State.WAITING), swept_at_once=None,
)  # fmt: skip


def _start(event: IncomingEvent) -> bool:
    webhook = event.webhook
    if webhook.paused_at is not None and not event.is_repeat:
        return _settle(event, State.IGNORED, PAUSED) and False
    if event.agent_id is None and not _fill_row(event):
        return False
    try:
        # What outsiders wrote is not told what agents know of the owner, and adds nothing to it.
        receipt = targets.start(
            webhook.owner, webhook.workspace_id, event.agent, key=event.key, text=event.text, inputs=event.inputs,
            temporary=True,
        )  # fmt: skip
    except (QuotaExceeded, NotAccepting) as refusal:  # later it may start
        if sql.database_time() - event.received_at > TRIED_FOR:
            _settle(event, State.FAILED, str(refusal))
        return False
    except Refusal as refusal:
        _settle(event, State.FAILED, str(refusal))
        return False
    return _settle(event, State.STARTED, task_id=receipt.task)


def _fill_row(event: IncomingEvent) -> bool:
    """Write what the templates make of it, so that a repeated start has the same content. False if nothing starts."""
    webhook = event.webhook
    if webhook.agent is None:
        _settle(event, State.FAILED, "The agent or plan was deleted. Choose another, then send it again.")
        return False
    try:
        filled = fill(webhook, event.body, event.headers, event.event_id, event.kind)
    except TemplateProblem as problem:
        _settle(event, State.FAILED, f"A template failed: {problem} Change it, then send the event again.")
        return False
    if filled.ignored:
        _settle(event, State.IGNORED, filled.ignored)
        return False
    waits = IncomingEvent.objects.filter(pk=event.pk, state=State.WAITING, agent=None)
    if not waits.update(agent=webhook.agent, text=filled.text, inputs=filled.inputs):
        return False  # another job starts it
    event.agent, event.text, event.inputs = webhook.agent, filled.text, filled.inputs
    return True


def _settle(event: IncomingEvent, state: State, reason: str = "", **fields: object) -> bool:
    event.state, event.reason = state, reason[:500]
    waits = IncomingEvent.objects.filter(pk=event.pk, state=State.WAITING)
    return bool(waits.update(state=state, reason=event.reason, **fields))


def forget_events() -> int:
    """Deletes old events of incoming webhooks, and those beyond the newest of one.

    What waits stays, and what would start again if its signed delivery came again.
    """
    now = sql.database_time()
    settled = IncomingEvent.objects.exclude(state=State.WAITING)
    settled = settled.exclude(digest__gt="", received_at__gt=now - SIGNATURES_VALID)
    oldest = now - datetime.timedelta(days=settings.INCOMING_EVENT_DAYS)
    deleted = sql.delete_in_batches(settled.filter(received_at__lt=oldest))
    for webhook in list(IncomingWebhook.objects.values_list("pk", flat=True)):
        of_one = settled.filter(webhook=webhook).order_by("-received_at", "-id")
        last = of_one.values_list("received_at", flat=True)[settings.INCOMING_EVENTS_KEPT - 1 :].first()
        deleted += sql.delete_in_batches(of_one.filter(received_at__lt=last)) if last else 0
    return deleted
