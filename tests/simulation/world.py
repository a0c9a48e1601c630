"""People, workers, a sweeper and followers on one SQLite database, in an order that a seed chooses.

Each actor runs the product's own code in a greenlet, and stops before every statement outside a transaction. There
the scheduler chooses who goes on, lets time pass, or kills an actor; it kills within transactions, too. The broker
loses, doubles and reorders. Time is the scheduler's, by the database's clock. The same seed gives the same history.
"""

from __future__ import annotations

import datetime
import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from greenlet import getcurrent, greenlet

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Progress, Rejected
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel, claim, jobs
from apps.record import lineage
from apps.record.errors import Refusal
from apps.record.events import JSON
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Context, Message, Task
from apps.record.reading import notifications
from apps.record.runs import LeaseLost
from tests.emptying import empty_log
from tests.working import chunk, end, say

OUTCOMES = [
    Completed("done"),
    Completed("done", [Artifact.text("report", "text")]),
    Failed("no"),
    Rejected("never"),
    InputRequired("which?", slot="word"),
    AuthRequired("who?"),
]
REST = 3_000  # steps, within which all work ends
TICK = datetime.timedelta(milliseconds=1)  # between two readings of the clock


class Killed(BaseException):
    """The process of an actor ends here."""


@dataclass
class Sent:
    """A message, and what its sender was told: nothing if it was killed before."""

    agent: Agent
    message: JSON
    receipt: accept.Receipt | None = None
    refusals: int = 0


@dataclass
class Followed:
    """A context's events as a follower has seen them."""

    context: uuid.UUID
    seen: list[tuple[int, str]] = field(default_factory=list)


Actor = Callable[["World"], None]


class World:
    """A history in the making. `steps` counts statements and commits."""

    def __init__(self, seed: int, kills: float = 0.01) -> None:
        self.seed, self.kills = seed, kills
        self.dice, self._ids = random.Random(seed), random.Random(-seed)
        self.steps = 0
        self.now = datetime.datetime(2030, 1, 1)
        self.broker: list[uuid.UUID] = []
        self.sent: list[Sent] = []
        self.followed: list[Followed] = []
        self.deaths = 0
        self.ada = User.objects.get(email="ada@example.org").principal
        self.agents = list(Agent.objects.filter(slug__startswith="simulated-").order_by("slug"))
        self._hub = getcurrent()
        self._actors: dict[str, greenlet] = {}

    # The order of things

    @contextmanager
    def running(self) -> Iterator[None]:
        """The product's clock, broker, wake-ups and random numbers are the simulation's."""
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            connection.ensure_connection()
            connection.connection.create_function("strftime", -1, self._clock)
            stack.callback(connection.connection.create_function, "strftime", -1, None)
            stack.enter_context(connection.execute_wrapper(self._statement))
            patch.setattr(os, "urandom", self._ids.randbytes)  # of new ids
            for module in (claim, jobs):
                patch.setattr(module, "publish", self.publish)
            for name in ("notify", "stop"):
                patch.setattr(notifications, name, lambda *_, **__: self._step())
            yield

    def run(self, actors: dict[str, Actor], until: Callable[[], bool]) -> None:
        """Let the actors work in an order of chance. One that ends or is killed begins again."""
        try:
            while not until():
                name = self.dice.choice(list(actors))
                if name not in self._actors or self._actors[name].dead:
                    self._actors[name] = greenlet(lambda act=actors[name]: self._act(act), self._hub)
                self._actors[name].switch()
                if self.dice.random() < 0.02:
                    self.now += datetime.timedelta(seconds=self.dice.choice([0.1, 2, settings.RUN_LEASE_SECONDS + 1]))
        finally:  # also when an actor failed: those that stand in a transaction hold the writer's lock
            for actor in self._actors.values():
                if not actor.dead:
                    actor.throw(Killed)
            self._actors.clear()

    def _act(self, actor: Actor) -> None:
        try:
            actor(self)
        except Killed:
            self.deaths += 1

    def _clock(self, form: str, *of: str) -> str:
        self.now += TICK
        plus = sum(float(one.removesuffix(" seconds")) for one in of[1:])
        at = self.now + datetime.timedelta(seconds=plus)
        return at.isoformat(sep=" ", timespec="milliseconds")

    def _statement(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "record_" in sql or "strftime" in sql:  # others, such as of limits, are read by the wall clock
            self._step()
        return execute(sql, params, many, context)

    def _step(self) -> None:
        """Somebody else may go on here, or this actor ends."""
        self.steps += 1
        if getcurrent() is self._hub:
            return
        if not connection.in_atomic_block:
            self.pause()
        if self.dice.random() < self.kills:
            raise Killed

    def pause(self) -> None:
        self._hub.switch()

    # The broker

    def publish(self, run: uuid.UUID) -> None:
        self._step()  # between the commit and the message
        self.broker += [run] * self.dice.choice([0, 1, 1, 1, 1, 2])

    def take(self) -> uuid.UUID | None:
        return self.broker.pop(self.dice.randrange(len(self.broker))) if self.broker else None


# Actors


def person(world: World) -> None:
    """Sends, answers, cancels, and repeats what was not acknowledged."""
    unsure = [one for one in world.sent if one.receipt is None and one.refusals < 3]
    if unsure and world.dice.random() < 0.5:
        _send(world, world.dice.choice(unsure))
        return
    known = [one for one in world.sent if one.receipt is not None]
    kind = world.dice.random()
    if known and kind < 0.15:
        task = Task.objects.get(pk=world.dice.choice(known).receipt.task)  # type: ignore[union-attr]
        with suppress(Refusal):
            cancel.cancel_task(task)
        return
    message: JSON = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    agent = world.dice.choice(world.agents)
    if known and kind < 0.75:
        earlier = world.dice.choice(known)
        agent = earlier.agent
        if kind < 0.55:
            message["taskId"] = str(earlier.receipt.task)  # type: ignore[union-attr]
        else:
            context = Context.objects.get(pk=earlier.receipt.context)  # type: ignore[union-attr]
            message["contextId"] = context.context_id
    sent = Sent(agent, message)
    world.sent.append(sent)
    _send(world, sent)


def _send(world: World, sent: Sent) -> None:
    try:
        receipt = accept.accept(world.ada, sent.agent, sent.message)
    except Refusal:
        sent.refusals += 1
        return
    sent.receipt = receipt
    if receipt.run is not None:
        world.publish(receipt.run)


def worker(world: World) -> None:
    """Takes a run, speaks, and ends the turn, unless it loses its lease."""
    run = world.take()
    if run is None:
        world.pause()
        return
    with suppress(LeaseLost):
        assignment = claim.claim(run, f"worker {uuid.uuid4()}", alone=True)
        if assignment is None:
            return
        for number in range(world.dice.randrange(3)):
            if world.dice.random() < 0.5:
                say(assignment, chunk(f"part-{number}-{uuid.uuid4()}", "text"))
            else:
                say(assignment, Progress("working", number, 3))
            world.pause()
        following = end(assignment, world.dice.choice(OUTCOMES), memory={"turn": assignment.turn})
        if following is not None:
            world.publish(following)


def sweeper(world: World) -> None:
    jobs.sweep()


def follower(world: World) -> None:
    """Reads on from where it was, as streams do. A new one may begin."""
    if not world.followed or world.dice.random() < 0.05:
        known = [one.receipt.context for one in world.sent if one.receipt]
        if known:
            world.followed.append(Followed(world.dice.choice(known)))
    if not world.followed:
        world.pause()
        return
    one = world.dice.choice(world.followed)
    context = Context.objects.get(pk=one.context)
    after = one.seen[-1][0] if one.seen else 0
    one.seen += [(event.index, event.type) for event in lineage.events(context, after).order_by("index")]


ACTORS: dict[str, Actor] = {
    "person": person,
    "another person": person,
    "worker": worker,
    "second worker": worker,
    "third worker": worker,
    "sweeper": sweeper,
    "follower": follower,
}


def live(seed: int, steps: int, kills: float = 0.01) -> World:
    """A history of so many steps, and then of rest: nobody is killed until all work has ended or asks."""
    world = World(seed, kills)
    with world.running():
        world.run(ACTORS, lambda: world.steps >= steps)
        world.kills = 0.0
        for sent in [one for one in world.sent if one.receipt is None]:
            _send(world, sent)
        world.sent = [one for one in world.sent if one.receipt]  # the others were refused: nobody was promised anything
        resting = {name: actor for name, actor in ACTORS.items() if actor is not person}
        limit = world.steps + REST
        world.run(resting, lambda: _is_at_rest(world) or world.steps > limit)
    return world


def _is_at_rest(world: World) -> bool:
    return world.dice.random() < 0.05 and not Run.objects.unfinished().exists()


def register_agents() -> None:
    policies = [(on_busy, retry) for on_busy in ("enqueue", "interrupt", "reject") for retry in (True, False)]
    for number, (on_busy, retry_safe) in enumerate(policies):
        fields = {"on_busy": on_busy, "retry_safe": retry_safe, "attempts": 2}
        register_hosted(f"simulated-{number}", "examples.agents.echo:Echo", **fields)


def forget() -> None:
    """Delete what a history has left."""
    with transaction.atomic():
        empty_log()
    for model in (Accepted, Run, ArtifactRow, Message, Task, Context):
        model.objects.all()._raw_delete(connection.alias)
