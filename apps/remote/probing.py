"""The probe: a message that an operator chose, sent to a remote agent to see that it does its work."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from django.conf import settings

import db
from apps.agents.models import Agent
from apps.remote import breaker, cards, connecting, credentials
from apps.remote.connecting import Peer
from apps.remote.errors import CutOff, Misbehaved, RemoteError

log = logging.getLogger("parley.remote")

JSON = dict[str, Any]

PROPER = ("COMPLETED", "INPUT_REQUIRED", "AUTH_REQUIRED")  # states in which an agent has answered
OVER = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
POLL_SECONDS = 0.5
GOODBYE_SECONDS = 5.0  # for a task of a probe that is not over


class Unfit(Exception):
    """The agent answered, but not as it should; `str()` says what is wrong."""


async def ask(agent: Agent, text: str) -> None:
    """Send the agent a message and see that it answers it, in whatever words.

    Raises CircuitOpen, other RemoteErrors, Unfit.
    """
    await db.run(breaker.admit, agent)
    try:
        await _asked(agent, text)
    except RemoteError as error:
        await db.run(breaker.failed, agent, error)
        raise
    await db.run(breaker.succeeded, agent)


async def _asked(agent: Agent, text: str) -> None:
    if agent.current_version is None:
        raise Unfit("It has no card by which it could be called.")
    auth = await credentials.auth_for(agent, None, checking=True)
    async with connecting.peer(cards.card_of(agent.current_version), auth=auth) as peer:
        task: JSON = {}
        try:
            async with asyncio.timeout(settings.REMOTE_PROBE_TIMEOUT):
                async for state in _states(peer, text):
                    task = state
        except TimeoutError:
            within = f"the probe within {settings.REMOTE_PROBE_TIMEOUT:g} s."
            raise (
                Unfit(f"It did not finish with {within}") if task else CutOff(f"It did not answer {within}")
            ) from None
        finally:
            await _say_goodbye(peer, task)
    if task and _state(task) not in PROPER:
        raise Unfit(f"It answered the probe with the state {_state(task).lower()}.")


async def _states(peer: Peer, text: str) -> AsyncGenerator[JSON]:
    """The task as it goes on until it has ended or asks; nothing where a message is the answer."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    task: JSON = {}
    wanted = {"historyLength": 0} | ({} if peer.streams else {"returnImmediately": True})
    async with aclosing(peer.send(message, wanted)) as events:
        async for event in events:
            if "message" in event:
                return
            task = _task_of(event) or task
            yield task
    if not task:
        raise Misbehaved("It ended its answer to the probe without saying anything.")
    while not _is_answered(task):
        await asyncio.sleep(POLL_SECONDS)
        task = await peer.get(task["id"], 0)
        yield task


def _task_of(event: JSON) -> JSON:
    """What an event says of the task's state; {} for nothing."""
    if "task" in event:
        return {"id": event["task"]["id"], "status": event["task"]["status"]}
    if "statusUpdate" in event:
        return {"id": event["statusUpdate"]["taskId"], "status": event["statusUpdate"]["status"]}
    return {}


def _state(task: JSON) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def _is_answered(task: JSON) -> bool:
    return bool(task) and _state(task) in (*PROPER, *OVER)


async def _say_goodbye(peer: Peer, task: JSON) -> None:
    """A task that nobody will go on with is not left behind."""
    if not task or _state(task) in OVER:
        return
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            await peer.cancel(task["id"])
    except (RemoteError, TimeoutError) as error:
        log.debug("the task %s of a probe could not be canceled: %s", task["id"], error)
