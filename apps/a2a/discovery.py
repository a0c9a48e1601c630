"""An agent's card at its well-known path (A2A 1.0 §8.2), signed, for caches to keep and to ask again cheaply."""

from __future__ import annotations

import datetime

from django.http import HttpRequest
from django.http.response import HttpResponseBase

import bridge
from apps.a2a.callers import check_access, find_agent
from apps.a2a.documents import document, read_only
from apps.a2a.errors import JSON, ExtendedAgentCardNotConfigured, Unauthenticated
from apps.accounts.credentials import principal_of
from apps.accounts.principals import Principal
from apps.agents import card_signatures, cards
from apps.agents.models import Agent
from apps.conversations.errors import UnsupportedOperation


@read_only
async def agent_card(request: HttpRequest, slug: str) -> HttpResponseBase:
    """`GET /a2a/<slug>/.well-known/agent-card.json`. An agent for named groups shows its card to them alone."""
    agent, shown, changed = await bridge.run(_card, request.headers.get("Authorization", ""), slug)
    validator = card_signatures.validator(shown)
    return document(request, shown, validator=validator, changed=changed, private=is_private(agent))


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
    return agent.access == Agent.Access.GROUPS


def _card(authorization: str, slug: str) -> tuple[Agent, JSON, datetime.datetime]:
    agent = find_shown(authorization, slug)
    return agent, card_signatures.signed(cards.card(agent), agent), card_signatures.changed_at(agent)
