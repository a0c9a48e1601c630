"""How much an agent may say in a turn. It is measured before anything is copied, so that memory stays bounded too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from agentkit import AgentFailure, Chunk, Completed, Emission, Outcome, Token, WholeAnswer
from apps.record.events import JSON

TOKENS = ""  # whose bytes are counted as those of one artifact


class TooLarge(AgentFailure):
    """An agent said more than it may: the turn ends with this failure, whatever the handler makes of it."""


class Bounds:
    """What was said in one turn, counted in bytes."""

    def __init__(self) -> None:
        self.exceeded: TooLarge | None = None
        self._artifacts: Counter[str] = Counter()

    def admit(self, emission: Emission) -> None:
        """Count an emission. Raises TooLarge where it is too much, and for everything after that."""
        if self.exceeded is not None:
            raise self.exceeded
        if isinstance(emission, Token):
            self._add(TOKENS, "answer", len(emission.text))
        elif isinstance(emission, WholeAnswer):
            self._artifacts.pop(TOKENS, None)
            self._add(TOKENS, "answer", len(emission.text))
        elif isinstance(emission, Chunk):
            if not emission.append:
                self._artifacts.pop(emission.artifact_id, None)
            self._add(emission.artifact_id, emission.name, size_of(emission.parts, settings.MAX_ARTIFACT_BYTES))
        elif size_of(vars(emission), settings.MAX_SAYING_BYTES) > settings.MAX_SAYING_BYTES:
            self._refuse(
                f"What an agent says on the way may have {_amount(settings.MAX_SAYING_BYTES)}; this one said more.",
                "too_large",
            )

    def check(self, outcome: Outcome, memory: JSON) -> None:
        """Look at how a turn ends. Raises TooLarge."""
        if self.exceeded is not None:
            raise self.exceeded
        for artifact in outcome.artifacts if isinstance(outcome, Completed) else ():
            size = size_of(artifact.parts, settings.MAX_ARTIFACT_BYTES)
            self._add(artifact.artifact_id, artifact.name, size)
        most = settings.MAX_SAYING_BYTES
        asked = (getattr(outcome, name, None) for name in ("schema", "value", "metadata"))
        if size_of(list(asked), most) > most:
            self._refuse(f"A question may have {_amount(most)}; this one has more.", "question_too_large")
        if size_of(memory, most) > most:
            self._refuse(f"A task's memory may have {_amount(most)}; this one has more.", "memory_too_large")
        if size_of(outcome.parts, settings.MAX_ARTIFACT_BYTES) > settings.MAX_ARTIFACT_BYTES:
            self._refuse(
                f"A message may have {_amount(settings.MAX_ARTIFACT_BYTES)}; this one has more.", "message_too_large"
            )

    def _add(self, artifact: str, name: str, size: int) -> None:
        self._artifacts[artifact] += size
        if self._artifacts[artifact] > settings.MAX_ARTIFACT_BYTES:
            most = _amount(settings.MAX_ARTIFACT_BYTES)
            self._refuse(f"An artifact may have {most}; {name[:100]!r} has more. Deliver less, or a link.")
        if self._artifacts.total() > settings.MAX_TURN_BYTES:
            most = _amount(settings.MAX_TURN_BYTES)
            self._refuse(f"The artifacts of a turn may have {most} together; these have more. Deliver less, or links.")

    def _refuse(self, why: str, code: str = "artifact_too_large") -> None:
        self.exceeded = TooLarge(why, code)
        raise self.exceeded


def size_of(value: Any, most: int) -> int:
    """About how many bytes a value has as JSON, with base64 decoded; counting ends soon after `most`."""
    size, left = 0, [value]
    while left and size <= most:
        one = left.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            size += len(one)
            raw = one.get("raw")
            size -= len(raw) // 4 if isinstance(raw, str) else 0
            left += [*one.keys(), *one.values()]
        elif isinstance(one, Iterable) and not isinstance(one, bytes):
            left += one
            size += 1
        else:
            size += 8
    return size


def _amount(size: int) -> str:
    return f"{size // 1024**2} MB" if size >= 1024**2 else f"{size} bytes"
