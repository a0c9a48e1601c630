"""Checks of a remote agent.

`inspect_agent` fetches its card or calls its address, and may send a probe message; `check_access` tests credentials.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from apps.agents.models import Agent
from apps.record.models import TaskState
from apps.remote import a2a_client, circuit_breaker
from apps.remote.a2a_client import Peer
from apps.remote.agent_cards import card_shapes
from apps.remote.errors import CircuitOpen, CutOff, Misbehaved, Refused, RemoteError, Unauthorized
from apps.remote.execution.task_follower import event_task
from apps.remote.execution.translation import is_settled, state_of
from apps.remote.models import Check, RemoteAgent
from parley import db, outbound
from parley.outbound import Exchange, Limits, OutboundError
from parley.registry import added

log = logging.getLogger("parley.remote")

JSON = dict[str, Any]

CARD_BYTES = 1024 * 1024
CHECK_HEADERS = {"Accept": "application/json", "User-Agent": "Parley"}

ANSWERED_STATES = (TaskState.COMPLETED, TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
POLL_SECONDS = 0.5
CANCEL_SECONDS = 5.0  # for the open task of a probe

ACCESS_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `error` is a sentence for operators, or "".

    `answers`: did the agent answer at all? If so, it may still work.
    """

    kind: Check.Kind
    milliseconds: int
    error: str = ""
    answers: bool = True

    @property
    def ok(self) -> bool:
        return not self.error


class AgentDown(Exception):
    """A server in front of the agent says that the agent is not there."""


class BadAnswer(Exception):
    """The agent's answer is wrong."""


async def inspect_agent(remote: RemoteAgent, probe: str) -> list[Finding]:
    checks: list[Awaitable[Finding | None]] = [_check_from_outside(remote)]
    if probe:
        checks.append(_check_by_probe(remote.agent, probe))
    return [finding for finding in await asyncio.gather(*checks) if finding is not None]


async def _check_from_outside(remote: RemoteAgent) -> Finding:
    """Of an agent that runs here, whether its process starts."""
    if remote.agent.folder:
        return await _timed_check(Check.Kind.ADDRESS, added["agent_socket"](remote.agent))
    limits = Limits(seconds=settings.REMOTE_CHECK_TIMEOUT, bytes=CARD_BYTES)
    async with outbound.exchange(limits) as way:
        if remote.card_url:
            return await _timed_check(Check.Kind.CARD, _check_card(way, remote))
        return await _timed_check(Check.Kind.ADDRESS, _check_address(way, remote.origin))


async def _check_card(way: Exchange, remote: RemoteAgent) -> None:
    conditions = {"If-None-Match": remote.etag, "If-Modified-Since": remote.last_modified}
    headers = CHECK_HEADERS | {name: value for name, value in conditions.items() if value}
    async with way.send("GET", remote.card_url, headers) as answer:
        if answer.status == 304:
            return
        if answer.status != 200:
            raise _status_error(answer.status, "Its card is not to be had")
        content = await answer.read()
    try:
        card = json.loads(content.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError):
        raise BadAnswer("What it serves as its card is not JSON.") from None
    if not isinstance(card, dict) or not card_shapes.is_card_like(card_shapes.unwrapped(card)):
        raise BadAnswer("What it serves as its card is none.")


async def _check_address(way: Exchange, url: str) -> None:
    async with way.send("GET", url, CHECK_HEADERS) as answer:
        if answer.status >= 500 and answer.status != 501:
            raise _status_error(answer.status, "Its address is out of order")


def _status_error(status: int, what: str) -> Exception:
    sentence = f"{what}: the answer is HTTP {status}."
    return AgentDown(sentence) if status >= 500 else BadAnswer(sentence)


async def _check_by_probe(agent: Agent, text: str) -> Finding | None:
    """None while its circuit breaker is open."""
    try:
        return await _timed_check(Check.Kind.PROBE, send_probe(agent, text))
    except CircuitOpen:
        return None


async def _timed_check(kind: Check.Kind, check: Awaitable[None]) -> Finding:
    began, error, answers = time.perf_counter(), "", True
    try:
        await check
    except CircuitOpen:
        raise
    except (BadAnswer, outbound.TooLarge, outbound.Misleading, Misbehaved, Refused, Unauthorized) as bad_answer:
        error = str(bad_answer)
    except (AgentDown, OutboundError, RemoteError) as no_answer:
        error, answers = str(no_answer), False
    return Finding(kind, round(1000 * (time.perf_counter() - began)), error, answers)


async def send_probe(agent: Agent, text: str) -> None:
    """Send the agent a message and wait for any answer. Raises BadAnswer and RemoteError."""
    await db.run(circuit_breaker.admit, agent)
    try:
        await _await_answer(agent, text)
    except RemoteError as error:
        await db.run(circuit_breaker.record_failure, agent, error)
        raise
    await db.run(circuit_breaker.record_success, agent)


async def _await_answer(agent: Agent, text: str) -> None:
    if agent.current_version is None:
        raise BadAnswer("It has no card by which it could be called.")
    async with a2a_client.connect_for(agent, None, checking=True) as peer:
        task: JSON = {}
        try:
            async with asyncio.timeout(settings.REMOTE_PROBE_TIMEOUT):
                async for update in _task_updates(peer, text):
                    task = update
        except TimeoutError:
            within = f"the probe within {settings.REMOTE_PROBE_TIMEOUT:g} s."
            raise (
                BadAnswer(f"It did not finish with {within}") if task else CutOff(f"It did not answer {within}")
            ) from None
        finally:
            await _cancel_if_open(peer, task)
    if task and (state := state_of(task["status"])) not in ANSWERED_STATES:
        raise BadAnswer(f"It answered the probe with the state {state}.")


async def _task_updates(peer: Peer, text: str) -> AsyncGenerator[JSON]:
    """Yields the task whenever its status changes, until it settles; nothing if a message is the answer."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    task: JSON = {}
    wanted = {"historyLength": 0} | ({} if peer.streams else {"returnImmediately": True})
    async with aclosing(peer.send(message, wanted)) as events:
        async for event in events:
            if "message" in event:
                return
            if (update := event_task(event)) and update["status"]:
                task = update
                yield task
    if not task:
        raise Misbehaved("It ended its answer to the probe without saying anything.")
    while not is_settled(task):
        await asyncio.sleep(POLL_SECONDS)
        task = await peer.get(task["id"], 0)
        yield task


async def _cancel_if_open(peer: Peer, task: JSON) -> None:
    if not task or ((state := state_of(task["status"])) and state.is_terminal):
        return
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            await peer.cancel(task["id"])
    except (RemoteError, TimeoutError) as error:
        log.debug("the task %s of a probe could not be canceled: %s", task["id"], error)


@dataclass(frozen=True, slots=True)
class AccessResult:
    """Does the agent accept our credentials? `sentence` is for operators."""

    is_allowed: bool
    sentence: str


async def check_access(agent: Agent) -> AccessResult:
    """Ask the agent for a task that does not exist: "not found" means that the credentials are accepted.

    Uses the shared credentials. Agents that check credentials only for messages pass this test with any.
    """
    if agent.current_version is None:
        return AccessResult(False, "The agent has no card yet.")
    try:
        async with asyncio.timeout(settings.REMOTE_CONNECT_SECONDS + ACCESS_SECONDS):
            async with a2a_client.connect_for(agent, None, checking=True) as peer:
                await peer.get(str(uuid.uuid4()))
    except Unauthorized as refused:
        return AccessResult(False, f"{agent} does not let Parley in. {refused}")
    except TimeoutError:
        return AccessResult(False, f"{agent} did not answer in time.")
    except RemoteError as error:
        if getattr(error, "reason", "") != "TASK_NOT_FOUND":
            return AccessResult(False, f"{agent} could not be asked. {error}")
    how = " with this." if peer.is_authenticated else ", and asks for nothing."
    return AccessResult(True, f"{agent} lets Parley in{how}")
