"""Trying whether a remote agent lets Parley in, without giving it any work."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

from django.conf import settings

from apps.agents.models import Agent
from apps.remote import cards, connecting, credentials
from apps.remote.errors import RemoteError, Unauthorized

SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Knocked:
    """How it went, as a sentence for operators."""

    is_in: bool
    sentence: str


async def knock(agent: Agent) -> Knocked:
    """Ask the agent for a task that there is none of: whoever is told that was let in.

    It uses what is for everybody. An agent that looks at credentials only when it works lets everybody in here.
    """
    if agent.current_version is None:
        return Knocked(False, "The agent has no card yet.")
    try:
        async with asyncio.timeout(settings.REMOTE_CONNECT_SECONDS + SECONDS):
            auth = await credentials.auth_for(agent, None, checking=True)
            async with connecting.peer(cards.card_of(agent.current_version), auth=auth) as peer:
                await peer.get(str(uuid.uuid4()))
    except Unauthorized as refused:
        return Knocked(False, f"{agent} does not let Parley in. {refused}")
    except TimeoutError:
        return Knocked(False, f"{agent} did not answer in time.")
    except RemoteError as error:
        if getattr(error, "reason", "") != "TASK_NOT_FOUND":
            return Knocked(False, f"{agent} could not be asked. {error}")
    return Knocked(True, f"{agent} lets Parley in" + (" with this." if auth else ", and asks for nothing."))
