"""What those who ask an agent are told, whatever they speak."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from tests.a2a.calling import JSON

UNKNOWN = "unknown"  # the reason of who knows no such operation


@dataclass(frozen=True)
class Told:
    """An answer: the result of an operation, or the reason why there is none."""

    result: JSON
    reason: str = ""


async def heard(stream: AsyncGenerator[tuple[int, Any]], begun: Callable[[], None]) -> list[Any]:
    """The events of a stream; `begun` is called once the first has come."""
    first = await anext(stream)
    begun()
    return [first[1]] + [event async for _, event in stream]
