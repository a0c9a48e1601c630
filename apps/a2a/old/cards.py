"""An agent's card as A2A 0.3 has it."""

from __future__ import annotations

from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.types import a2a_pb2
from a2a.utils.errors import VersionNotSupportedError
from google.protobuf import json_format

from apps.a2a.errors import JSON, AgentNotFound

PROTOCOL_VERSION = "0.3.0"


def old_card(card: JSON) -> JSON:
    """The card of 0.3 for a card of 1.0. Signatures are left out: they are of another text.

    Raises AgentNotFound for a card that names no interface of 0.3.
    """
    unsigned = {name: value for name, value in card.items() if name != "signatures"}
    try:
        converted = to_compat_agent_card(json_format.ParseDict(unsigned, a2a_pb2.AgentCard()))
    except VersionNotSupportedError:
        raise AgentNotFound("No agent is to be reached here by A2A 0.3. Ask for the card of one agent.") from None
    shown = converted.model_dump(mode="json", by_alias=True, exclude_none=True)
    main = {"url": shown["url"], "transport": shown["preferredTransport"]}
    return shown | {
        "protocolVersion": PROTOCOL_VERSION,
        "additionalInterfaces": [main, *shown.get("additionalInterfaces", ())],
    }
