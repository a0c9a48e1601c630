"""How much one template may do: its loops, its time, and what it puts together on the way are counted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

SECONDS = 2.0  # of the processor's time: a busy machine fails nobody's template
MOST_TURNS = 100_000  # of all loops together
LARGEST = 1_000_000  # characters of a text, or values of a list with what is in it, that is put together on the way
MOST = 100 * LARGEST  # of all that together
MOST_BITS = 4_096  # of a number
LONG_NAME = 100  # characters
LONGEST_SOUGHT = 100  # characters that each character of a text is compared with, where nothing can stop it meanwhile

SIZED = (str, Mapping, list, tuple)


class TooMuch(Exception):
    """A template goes on for too long, or makes too much."""


@dataclass
class Time:
    """How long templates may take that share it, in seconds of the processor's time."""

    left: float = SECONDS


@dataclass
class _Budget:
    """What one template may still take."""

    until: float
    turns: int = MOST_TURNS
    left: int = MOST
    sizes: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def take(self) -> None:
        self.turns -= 1
        if self.turns < 0:
            raise TooMuch(f"it goes round more than {MOST_TURNS:,} times")
        self.look()

    def look(self) -> None:
        if time.thread_time() > self.until:
            raise TooMuch(f"it takes longer than {SECONDS:g} s")

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TooMuch(f"it puts together more than {MOST:,} characters and values in all")

    def size(self, value: Any) -> int:
        """Of how many values it is made, however deep: what is put twice into a list counts twice."""
        if isinstance(value, str):
            return 1 + len(value) // 16
        if id(value) not in self.sizes:
            self.look()
            self.spend(len(value))
            within = chain(value.values(), filter(_is_large, value)) if isinstance(value, Mapping) else value
            size = 1 + len(value) + sum(self.size(one) for one in within if isinstance(one, SIZED))
            self.sizes[id(value)] = (value, size)  # held, for its id to stay its own
        return self.sizes[id(value)][1]


def _is_large(name: Any) -> bool:
    """Does a name in a mapping count? Those that people write do not."""
    return not isinstance(name, str) or len(name) > LONG_NAME


_budget: ContextVar[_Budget] = ContextVar("_budget")


@contextmanager
def budget(shared: Time | None = None) -> Iterator[None]:
    """The budget of whatever a template does within; of its time what is left of `shared`, if that is given."""
    given, begun = shared or Time(), time.thread_time()
    token = _budget.set(_Budget(begun + given.left))
    try:
        yield
    finally:
        _budget.reset(token)
        given.left -= time.thread_time() - begun


def look() -> None:
    """Raises TooMuch where it has gone on for too long."""
    _budget.get().look()


def take() -> None:
    """One step more. Raises TooMuch where it was one too many."""
    _budget.get().take()


def fits(made: Any) -> Any:
    """Raises TooMuch for a number, or a list, that is too large, and where all that was made is too much together."""
    if isinstance(made, int) and made.bit_length() > MOST_BITS:
        raise TooMuch("it makes too large a number")
    if isinstance(made, str):
        _budget.get().spend(len(made))
    if isinstance(made, Mapping | list | tuple):
        check_size(_budget.get().size(made))
    return made


def check_size(size: int) -> None:
    if size > LARGEST:
        raise TooMuch(f"it puts together more than {LARGEST:,} characters or values")


def check_sought(name: str, *sought: Any) -> None:
    if any(isinstance(one, str) and len(one) > LONGEST_SOUGHT for one in sought):
        raise TooMuch(f"`{name}` takes at most {LONGEST_SOUGHT} characters to look for")
