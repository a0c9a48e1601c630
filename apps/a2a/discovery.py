"""Cards at their well-known paths (A2A 1.0 §8.2, 0.3 §5.3), signed, for caches to keep and to ask again cheaply.

At `agent-card.json` a card is of 1.0, and of 0.3 for who names that version; at `agent.json` it is of 0.3.
"""

from __future__ import annotations

import datetime

from django.db.models import Max
from django.http import HttpRequest
from django.http.response import HttpResponseBase

import db
from apps.a2a import versions
from apps.a2a.callers import check_access, find_agent
from apps.a2a.documents import document, read_only
from apps.a2a.errors import JSON, AgentNotFound, ExtendedAgentCardNotConfigured, Unauthenticated
from apps.a2a.old.cards import old_card
from apps.accounts.credentials import principal_of
from apps.accounts.principals import Principal
from apps.agents import card_signatures, cards, directory
from apps.agents.models import Agent
from apps.record.errors import UnsupportedOperation


@read_only
async def agent_card(request: HttpRequest, slug: str, is_old: bool = False) -> HttpResponseBase:
    """`GET /a2a/<slug>/.well-known/agent-card.json`. One that is not listed shows it to who may use it."""
    agent, card, changed = await db.run(_signed_card, request.headers.get("Authorization", ""), slug)
    return _response(request, card, changed, is_old=is_old, private=is_private(agent))


@read_only
async def platform_card(request: HttpRequest, is_old: bool = False) -> HttpResponseBase:
    """`GET /.well-known/agent-card.json`: a card for all agents that everybody may see."""
    card, changed = await db.run(find_listed)
    return _response(request, card, changed, is_old=is_old, private=False)


def extended_card(principal: Principal, agent: Agent) -> JSON:
    """What only callers with credentials are told (A2A 1.0 §3.1.11), signed too.

    Raises UnsupportedOperation, Unauthenticated, ExtendedAgentCardNotConfigured.
    """
    if not agent.has_extended_card:
        raise UnsupportedOperation("This agent has no extended card: its card says so.")
    if not principal.is_known:
        raise Unauthenticated(
            'The extended card is for known callers. Send an API key as "Authorization: Bearer <key>".'
        )
    if not agent.extended_card:
        raise ExtendedAgentCardNotConfigured
    return card_signatures.signed(cards.extended_card(agent), agent)


def find_listed() -> tuple[JSON, datetime.datetime]:
    """The platform's card, signed by it, and when any agent was last changed, also one that it no longer shows.

    Raises AgentNotFound where there is none to show.
    """
    agents = list(Agent.objects.listed().order_by("name", "pk"))
    if not agents:
        raise AgentNotFound("There is no agent here that everybody may see.")
    newest: datetime.datetime = Agent.objects.aggregate(newest=Max("updated_at"))["newest"]
    return card_signatures.signed(directory.card(agents), None), card_signatures.changed_at(newest, None)


def find_shown(authorization: str, slug: str) -> Agent:
    """The agent whose card may be seen. Raises BadCredentials, Unauthenticated, AgentNotFound.

    How to sign in stands in the card, so that the card of an agent for known callers is open to all.
    """
    agent = find_agent(slug)
    if is_private(agent):
        check_access(principal_of(authorization), agent)
    return agent


def is_private(agent: Agent) -> bool:
    """Is there nothing of the agent to be seen by those who may not use it?"""
    return not agent.is_listed


def _signed_card(authorization: str, slug: str) -> tuple[Agent, JSON, datetime.datetime]:
    agent = find_shown(authorization, slug)
    signed = card_signatures.signed(cards.card(agent), agent)
    return agent, signed, card_signatures.changed_at(agent.updated_at, agent)


def _response(
    request: HttpRequest, card: JSON, changed: datetime.datetime, *, is_old: bool, private: bool
) -> HttpResponseBase:
    """The card in the version that is asked for. Raises AgentNotFound where old clients reach nobody."""
    old = is_old or versions.named(request) == versions.OLD
    shown, validator = (old_card(card), "") if old else (card, card_signatures.validator(card))
    return document(request, shown, validator=validator, changed=changed, private=private, vary=versions.HEADER)
