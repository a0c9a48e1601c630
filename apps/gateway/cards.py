"""The cards of remote agents."""

from uuid import UUID

from a2a.types import AgentCard
from google.protobuf import json_format

from apps.agents.models import AgentVersion

_cards: dict[UUID, AgentCard] = {}


def card_of(version: AgentVersion) -> AgentCard:
    """The card that a version of a remote agent was approved with."""
    if version.pk not in _cards:
        _cards[version.pk] = json_format.ParseDict(version.content["card"], AgentCard())
    return _cards[version.pk]
