"""What a turn does once, however often it is repeated: outside effects at most once, steps until they have a result.

Both are claimed before and settled after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol
from uuid import uuid4

from agentkit.errors import AgentFailure

MAX_NAME, MAX_KEY = 100, 200  # characters
MAX_WHY = 500  # characters of a step's error in the log


class EffectUnknown(AgentFailure):
    """An effect began earlier, and nobody knows whether it happened. If you do not catch it, your task fails."""

    def __init__(self, name: str, key: str) -> None:
        super().__init__(
            f"It is not known whether “{name}” ({key}) happened: the work was interrupted. Check before you try again.",
            "effect_unknown",
            metadata={"effect": name, "key": key},
        )
        self.name = name
        self.key = key


class NotDone(AgentFailure):
    """Raise it in an effect that surely did not happen: it may run again. If nobody catches it, the task fails."""

    def __init__(self, message: str = "It was not done.", code: str = "not_done") -> None:
        super().__init__(message, code)


@dataclass(frozen=True)
class Claim:
    """What a host says of an effect: `new` is yours to run, `done` has a result, `unknown` began and did not end."""

    id: str
    name: str
    state: Literal["new", "done", "unknown"]
    result: Any = None


class Effects(Protocol):
    """A host's ledger of a task's effects. What it says is stored when its methods return."""

    async def claim(self, name: str, key: str, instead_of: str | None = None) -> Claim:
        """Claim an effect that nobody has begun, or that the claim `instead_of` left unknown."""

    async def settle(self, claim: Claim, result: Any) -> Any:
        """Store a result. Returns it as later attempts will get it. Raises ValueError if it is not JSON."""

    async def release(self, claim: Claim, why: str) -> None:
        """Forget a claim whose effect did not happen."""


type Act = Callable[[], Awaitable[Any]]


async def perform(effects: Effects | None, name: str, key: str, run: Act, find: Act | None) -> Any:
    """See `TaskContext.effect`."""
    if effects is None:
        raise AgentFailure("An effect needs a task: let select_response_type choose one for this message.", "no_task")
    _check(name, key)
    held = await effects.claim(name, key)
    if held.state == "unknown" and find is not None:
        try:
            return await effects.settle(held, await find())
        except NotDone:
            held = await effects.claim(name, key, instead_of=held.id)
    if held.state == "done":
        return held.result
    if held.state == "unknown":
        raise EffectUnknown(name, key)
    try:
        result = await run()
        return await asyncio.shield(
            effects.settle(held, result)
        )  # what happened is stored, also if the turn is stopped
    except NotDone as not_done:
        await effects.release(held, str(not_done))
        raise


async def remember(effects: Effects | None, name: str, key: str, run: Act) -> Any:
    """See `TaskContext.step`."""
    if effects is None:
        return await run()
    _check(name, key)
    held = await effects.claim(name, key)
    if held.state == "unknown":  # cut off
        held = await effects.claim(name, key, instead_of=held.id)
    if held.state == "done":
        return held.result
    try:
        result = await run()
    except Exception as error:
        await effects.release(held, f"{type(error).__name__}: {error}"[:MAX_WHY])
        raise
    return await asyncio.shield(effects.settle(held, result))


def _check(name: str, key: str) -> None:
    if not (0 < len(name) <= MAX_NAME and 0 < len(key) <= MAX_KEY):
        raise ValueError(f"It has a name of 1 to {MAX_NAME} characters and a key of 1 to {MAX_KEY}.")


type WaitFor = Callable[[Coroutine[Any, Any, Any]], Any]
type Doing = Callable[..., Coroutine[Any, Any, Any]]
"""`perform` or `remember`."""


def do_in_thread(
    do: Doing, effects: Effects | None, wait_for: WaitFor, finish: WaitFor, name: str, key: str, *acts: Any
) -> Any:
    """`do` with plain functions, which run in this thread. Only the host's methods run on its event loop.

    `finish` waits also where the turn was stopped.
    """
    work = do(effects and _FromThread(effects, wait_for, finish), name, key, *(act and as_act(act) for act in acts))
    try:
        return asyncio.run(work)
    finally:
        work.close()


def as_act(act: Callable[[], Any]) -> Act:
    async def acting() -> Any:
        return act()

    return acting


@dataclass(frozen=True)
class _FromThread:
    """Effects whose methods block instead of awaiting."""

    effects: Effects
    wait_for: WaitFor
    finish: WaitFor

    async def claim(self, name: str, key: str, instead_of: str | None = None) -> Claim:
        claim: Claim = self.wait_for(self.effects.claim(name, key, instead_of))
        return claim

    async def settle(self, claim: Claim, result: Any) -> Any:
        return self.finish(self.effects.settle(claim, result))

    async def release(self, claim: Claim, why: str) -> None:
        self.finish(self.effects.release(claim, why))


@dataclass
class RememberedEffects:
    """A ledger in memory, for tests: give the same one to each attempt of a turn."""

    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)

    async def claim(self, name: str, key: str, instead_of: str | None = None) -> Claim:
        held = self.claims.get((name, key))
        if held is not None and held.id != instead_of:
            return held
        made = Claim(str(uuid4()), name, "new")
        self.claims[name, key] = replace(made, state="unknown")
        return made

    async def settle(self, claim: Claim, result: Any) -> Any:
        done = replace(claim, state="done", result=result)
        self.claims |= {at: done for at, one in self.claims.items() if one.id == claim.id}
        return result

    async def release(self, claim: Claim, why: str) -> None:
        self.claims = {at: one for at, one in self.claims.items() if one.id != claim.id}
