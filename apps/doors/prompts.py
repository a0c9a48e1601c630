"""The library of prompts as protocols offer it, if an app has one (`prompt_library` of `parley.registry`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apps.accounts.principals import Principal
from parley.registry import added


@dataclass(frozen=True, slots=True)
class PromptVariable:
    """`about`: what it takes, in a sentence; may be empty."""

    name: str
    about: str
    required: bool


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    """`name` is unique among those that a caller can use."""

    name: str
    title: str
    description: str
    variables: Sequence[PromptVariable]


class Library(Protocol):
    def offered_to(self, principal: Principal) -> list[OfferedPrompt]:
        """What the caller can use, in the order of its names."""

    def render(self, principal: Principal, name: str, values: Mapping[str, str]) -> tuple[OfferedPrompt, str] | None:
        """The prompt of this name, and its text with these values; None if there is none. Raises InvalidFields."""


def library() -> Library | None:
    """None if no app has one."""
    found: Library | None = added.get("prompt_library")
    return found
