"""The cards of remote agents: reading what one says, and what of it Parley goes by."""

from __future__ import annotations

import uuid
from typing import Any

import rfc8785
from a2a.types import AgentCard, AgentInterface
from google.protobuf.json_format import ParseDict

import outbound
from apps.agents.models import AgentVersion
from apps.record import strict_json
from apps.remote import card_03, card_shape
from apps.remote.connecting import interfaces
from apps.remote.connecting.interfaces import BINDINGS, VERSIONS, version_of
from apps.remote.errors import BadCard
from outbound import targets

JSON = dict[str, Any]

TOLD = 8  # problems of a card that are told at once
CACHED = 1_000

LOOSE_MODES = {"text": "text/plain", "data": "application/json", "json": "application/json", "file": "*/*"}
"""What cards call media types and are none."""

_cards: dict[uuid.UUID, AgentCard] = {}


def card_of(version: AgentVersion) -> AgentCard:
    """The card of a version of a remote agent, read once in a process. It is shared: do not change it."""
    if (card := _cards.get(version.pk)) is None:
        if len(_cards) >= CACHED:
            _cards.clear()
        card = _cards[version.pk] = ParseDict(version.content["card"], AgentCard(), ignore_unknown_fields=True)
    return card


def parsed(text: bytes) -> JSON:
    """The card that a text holds, as it stands there. Raises BadCard."""
    try:
        card = strict_json.read(text)
    except strict_json.NotStrict as error:
        raise BadCard(f"This is no agent card. {error}") from None
    if not isinstance(card, dict):
        raise BadCard("This is no agent card. It must be a JSON object.")
    return card


def read(card: JSON) -> JSON:
    """A card of 1.0 or 0.3 as a card of 1.0: checked, its texts cleaned, without its signatures.

    Raises BadCard with a sentence for each field that is wrong, and where it offers no interface that Parley speaks.
    """
    unsigned = {name: one for name, one in card.items() if name != "signatures"}
    told, problems = card_03.converted(unsigned) if card_03.is_old(card) else (unsigned, [])
    if not problems:
        told, problems = card_shape.shaped(told)
    if not problems:
        problems = _wrong_addresses(told)
    if problems:
        more = f" And {len(problems) - TOLD} more." if len(problems) > TOLD else ""
        raise BadCard(f"The card cannot be used. {' '.join(problems[:TOLD])}{more}")
    rfc8785.dumps(told)  # `card_shape` lets nothing pass that has no canonical form
    if not usable(told):
        offered = ", ".join(f"{one['protocolBinding']} {one['protocolVersion']}" for one in told["supportedInterfaces"])
        raise BadCard(
            f"The agent offers {offered or 'no interface'}. Parley speaks {' and '.join(BINDINGS)}, "
            f"each in the versions {' and '.join(VERSIONS)} of A2A."
        )
    return told


def usable(card: JSON) -> list[JSON]:
    """The interfaces by which the agent can be called, in its own order of preference.

    They are at one origin, that of the first: an agent's credentials are for one place.
    """
    spoken = [one for one in card["supportedInterfaces"] if is_spoken(one)]
    return [one for one in spoken if origin(one["url"]) == origin(spoken[0]["url"])]


def is_spoken(interface: JSON) -> bool:
    """Is it in a binding and a version that Parley speaks?"""
    version = version_of(AgentInterface(protocol_version=interface["protocolVersion"]))
    return interface["protocolBinding"] in BINDINGS and bool(version)


def origin_of(card: JSON) -> str:
    """Where the agent is called."""
    return origin(usable(card)[0]["url"])


def origin(url: str) -> str:
    """The origin of a URL, with its port: `https://agents.example:443`. Raises outbound.Forbidden for what is none."""
    targets.read(url)
    return interfaces.origin_of(url)


def stated(card: JSON) -> JSON:
    """The fields of Agent that the card says.

    Streams and webhooks are this platform's own and work for every agent, whatever the remote one does; text is let
    through to all, for many cards list only what they take besides.
    """
    return {
        "name": _short(card["name"], 120),
        "description": card["description"],
        "version": _short(card["version"], 40),
        "skills": [_skill(one) for one in card["skills"]],
        "input_modes": list(dict.fromkeys([*_modes(card["defaultInputModes"]), "text/plain"])),
        "output_modes": _modes(card["defaultOutputModes"]) or ["text/plain"],
        "capabilities": {"streaming": True, "pushNotifications": True},
    }


def _skill(skill: JSON) -> JSON:
    """A skill as our own card shows it: it has a tag at least, and no security of its own."""
    shown = {name: value for name, value in skill.items() if name != "securityRequirements"}
    modes = {name: _modes(shown[name]) for name in ("inputModes", "outputModes") if shown.get(name)}
    return {**shown, **modes, "tags": [tag for tag in skill["tags"] if tag] or ["general"]}


def _modes(modes: list[str]) -> list[str]:
    told = [LOOSE_MODES.get(mode, mode if "/" in mode else f"{mode}/*") for mode in modes if mode]
    return list(dict.fromkeys(told))


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _wrong_addresses(card: JSON) -> list[str]:
    """What keeps interfaces that Parley could speak from being called, judged without a look-up."""
    wrong = []
    for index, one in enumerate(card["supportedInterfaces"]):
        if is_spoken(one):
            try:
                outbound.guard().check(one["url"])
            except outbound.Forbidden as error:
                wrong.append(f"supportedInterfaces[{index}].url: {error}")
    return wrong
