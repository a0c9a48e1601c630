"""Saving, trying and deleting guardrails.

Managers declare those of a workspace. Who owns agents may declare some for these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Kind
from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import MANAGE, Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents.models import Agent
from apps.engine.turns.guards import Way
from apps.optional.guardrails.checking import Rail, RailGuard
from apps.optional.guardrails.models import Guardrail
from apps.record.content.decisions import found_in
from apps.record.errors import InvalidFields, Refusal, UnsupportedOperation
from apps.record.events import JSON
from parley.db.sql import write_transaction

MOST_RAILS = 100  # of a workspace


class OnlyYourAgents(Refusal):
    """Name agents of your own, or ask a manager of the workspace: they declare guardrails for all agents."""

    kind = Kind.FORBIDDEN


class TooManyRails(UnsupportedOperation):
    """This workspace has as many guardrails as one may have. Delete some first."""


def save(principal: Principal, rail: Guardrail) -> Guardrail:
    """Save a new or a changed guardrail of the caller's workspace.

    Raises InvalidFields, OnlyYourAgents, TooManyRails, ObjectNotUpdated.
    """
    _check_fields(rail)
    _check_agents(principal, rail)
    is_new = rail._state.adding
    with write_transaction():
        if is_new:
            if Guardrail.objects.filter(workspace=principal.workspace_id).count() >= MOST_RAILS:
                raise TooManyRails
            rail.owner_id, rail.workspace_id = principal.user_id, principal.workspace_id
            rail.save()
        else:
            fields = [one.name for one in rail._meta.concrete_fields if one.editable or one.name == "updated_at"]
            rail.save(update_fields=fields)
        _audit(AuditAction.GUARDRAIL_CREATED if is_new else AuditAction.GUARDRAIL_CHANGED, rail, principal)
    return rail


def _check_fields(rail: Guardrail) -> None:
    """What fits together. Raises InvalidFields."""
    try:
        rail.clean()
    except ValidationError as problem:
        raise InvalidFields([(_camel(name), said[0]) for name, said in problem.message_dict.items()]) from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(one.title() for one in rest)


def _check_agents(principal: Principal, rail: Guardrail) -> None:
    """Raises InvalidFields, OnlyYourAgents."""
    named = set(rail.agents)
    found = {one.slug: one for one in Agent.objects.visible_to(principal).filter(slug__in=named)}
    if missing := sorted(named - found.keys()):
        raise InvalidFields([("agents", f"There is no agent {missing[0]} that you may use.")])
    plans = [one.slug for one in found.values() if one.kind == Agent.Kind.PLAN]
    if plans and rail.direction != Guardrail.Direction.IN:
        hint = f"{plans[0]} is a plan: it answers with what its steps said. Name the agents of its steps instead."
        raise InvalidFields([("agents", hint)])
    if not principal.can(Permission.SETTINGS):
        owned = [one for one in found.values() if principal.owns(one.owner_id, one.workspace_id)]
        if not named or len(owned) < len(named):
            raise OnlyYourAgents


def _audit(action: AuditAction, rail: Guardrail, principal: Principal) -> None:
    """Without its name, words, patterns and questions, which say what a workspace hides."""
    details: JSON = {"direction": rail.direction, "looks_for": rail.check_kind, "action": rail.action}
    details |= {"agents": rail.agents, "on": rail.is_on, "only_watch": rail.only_watch}
    audit.record(action, actor=principal, object=audit.row_subject(rail), workspace=rail.workspace_id, details=details)


def _switch(rail: Guardrail, principal: Principal, *, is_on: bool) -> Guardrail:
    with write_transaction():
        if not Guardrail.objects.filter(pk=rail.pk, is_on=not is_on).exists():
            raise NotNeeded("It is on already." if is_on else "It is off already.")
        rail.is_on = is_on
        rail.save(update_fields=["is_on", "updated_at"])
        _audit(AuditAction.GUARDRAIL_CHANGED, rail, principal)
    return rail


def _delete(rail: Guardrail, principal: Principal) -> Guardrail:
    with write_transaction():
        _audit(AuditAction.GUARDRAIL_DELETED, rail, principal)
        rail.delete()
    return rail


ABOUT: JSON = {"scope": MANAGE, "permission": Permission.BUILD, "records": True}
TURN_OFF = Act[Guardrail](
    "turn-off", "Turn off", lambda rail, by: _switch(rail, by, is_on=False), "Turn a guardrail off",
    "It checks nothing until it is on again.", lambda _: "It is off.", lambda rail: rail.is_on, **ABOUT,
)  # fmt: skip
TURN_ON = Act[Guardrail](
    "turn-on", "Turn on", lambda rail, by: _switch(rail, by, is_on=True), "Turn a guardrail on again",
    "It checks from now on.", lambda _: "It is on.", lambda rail: not rail.is_on, **ABOUT,
)  # fmt: skip
DELETE = Act[Guardrail](
    "delete", "Delete", _delete, "Delete a guardrail with its decisions",
    "It checks nothing any more. What it decided stays in sessions.", lambda _: "It was deleted.", is_grave=True,
    **ABOUT,
)  # fmt: skip
GUARDRAILS = Resource(
    "guardrails", "guardrail", Guardrail, save, (TURN_OFF, TURN_ON, DELETE), ("owner",),
    permission=Permission.BUILD, scope=MANAGE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """What a guardrail would do with a text.

    Attributes:
        effect: `pass`, `block`, `redact`, `ask` or `fail`.
        text: as it would pass.
        says: for people: what it found, why, and what it would say.
    """

    effect: str
    text: str
    says: str
    counts: dict[str, int]
    ms: int


async def try_out(rail: Guardrail, text: str, way: Way) -> Trial:
    """Check a text as if the guardrail were on. Nothing is stored. Raises InvalidFields."""
    _check_fields(rail)
    acting = Rail(rail)
    found = await acting.examine([{"text": text}])
    verdict = await RailGuard([acting]).check(way, [{"text": text}]) if acting.checks(way) else None
    passed = str(verdict.parts[0]["text"]) if verdict else text
    ms = int(verdict.decisions[0]["ms"]) if verdict and verdict.decisions else 0
    counts = dict(found.counts) if verdict else {}
    if verdict is None:
        return Trial("pass", text, "It does not check in this direction.", counts, ms)
    if found.failed:
        return Trial("fail", passed, acting.sentence(way, found.counts, found.failed), counts, ms)
    if not counts:
        return Trial("pass", passed, found.reason or "It finds nothing.", counts, ms)
    says = verdict.blocked or verdict.asks or f"It finds {found_in({'counts': counts})}."
    if rail.only_watch:
        return Trial("pass", passed, f"{says} It only notes this.", counts, ms)
    return Trial(rail.action, passed, f"{says} {found.reason}".strip(), counts, ms)


FIELDS = ("id", "name", "direction", "check_kind", "action", "agents", "words", "patterns", "categories", "question")


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """The guardrails that the person made."""
    own = Guardrail.objects.filter(owner=person).order_by("created_at", "pk")
    yield "guardrails.json", "the guardrails that you made", list(own.values("workspace__name", "created_at", *FIELDS))
