"""Whom a message is for: it may begin with another agent's name, `@slug`."""

from __future__ import annotations

import re

from django.conf import settings

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.web.shell import find_agent

MENTION = re.compile(r"\s*@([a-z0-9][a-z0-9-]*)(?=\s|\Z)")


def mentioned_agent(principal: Principal, agent: Agent, words: str) -> Agent | None:
    """The other agent that the message begins with, if the caller may use it.

    The Assistant and the router read names themselves.
    """
    named = MENTION.match(words)
    if named is None or named[1] == agent.slug or agent.slug in (settings.DEFAULT_AGENT, settings.ROUTER_AGENT):
        return None
    return find_agent(principal, named[1])
