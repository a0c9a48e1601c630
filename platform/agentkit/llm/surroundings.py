"""What a host gives to language models' work besides the models: the way to tool servers, and threads for tools."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any


def no_programs(command: str) -> bool:
    """May this command line be started as a tool server? None may."""
    return False


@dataclass(frozen=True)
class Surroundings:
    """Without a host, tools run in the event loop's own threads, and programs are not started.

    Attributes:
        http_client: makes an `httpx2.AsyncClient` from the keyword arguments of one.
        may_start: may this command line be started as a tool server?
        threads: where tools run that are not async.
    """

    http_client: Callable[..., Any] | None = None
    may_start: Callable[[str], bool] = no_programs
    threads: Executor | None = None


def use_surroundings(given: Surroundings) -> None:
    """Say, as a host, what language models work with; `Surroundings()` is what scripts have."""
    global _given
    _given = given


def surroundings() -> Surroundings:
    """As the host said."""
    return _given


_given = Surroundings()
