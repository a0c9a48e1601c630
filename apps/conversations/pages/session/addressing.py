"""Whom a message is for: it may begin with another agent's name, `@slug`."""

from __future__ import annotations

import re

from django.conf import settings

from apps.accounts.principals import Principal
from apps.agents.models import Agent

MENTION = re.compile(r"\s*@([a-z0-9][a-z0-9-]*)(?=\s|\Z)")


def mentioned_agent(principal: Principal, agent: Agent, words: str) -> Agent | None:
    """The other agent that the message begins with, if the caller may use it; None if `agent` reads names itself."""
    named = MENTION.match(words)
    if named is None or named[1] == agent.slug or reads_names(agent):
        return None
    return Agent.objects.find_or_none(principal, named[1])


def reads_names(agent: Agent) -> bool:
    """Does it choose by the names in its messages, so that they stay its own?"""
    return agent.slug in (settings.DEFAULT_AGENT, settings.ROUTER_AGENT)
