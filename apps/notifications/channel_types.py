"""Services that people are told by: each is a call of an address that a person gives.

An app adds one in its `apps.py`, as `slack` is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from parley.registry import added

BUILT_IN = {"mail", "push", "webhook"}


@dataclass(frozen=True, slots=True)
class ChannelType:
    """A service.

    Attributes:
        name: in rows and in the client API, at most 20 characters.
        label: as people read it.
        choice: as the form offers it, if not by its label.
        body: what is posted, by a `wording.Notice`.
        headers: of the call.
        gone: statuses after which the address is given up.
    """

    name: str
    label: str
    body: Callable[[Any], bytes]
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    gone: tuple[int, ...] = (404, 410)
    choice: str = ""


def channel_types() -> dict[str, ChannelType]:
    """By name. Raises ImproperlyConfigured if two have one name."""
    found: tuple[ChannelType, ...] = added["channel_types"]
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found) or by_name.keys() & BUILT_IN:
        raise ImproperlyConfigured(f"Two types of channels have one name, of {', '.join(one.name for one in found)}.")
    return by_name
