"""Messages to a task at work, and stopping it after a step: an extension of A2A (`docs/extensions/steering-v1.md`)."""

from __future__ import annotations

from typing import Any

ENDING = "/ext/steering/v1"  # of the extension's URI, whatever comes before it
URI = f"https://agentkit.invalid{ENDING}"

type Json = dict[str, Any]


def extension() -> Json:
    """Its entry in the card of a steerable agent."""
    described = "A task at work reads messages that come meanwhile, and can stop after a step."
    return {"uri": URI, "description": described, "params": {"unread": "returned"}}


def uri_in(message: Json) -> str:
    """The extension's URI, as the message writes it; "": it does not use the extension."""
    return next((one for one in message.get("extensions") or () if str(one).endswith(ENDING)), "")


def stops_after_step(params: Json) -> bool:
    """Does this CancelTask only ask the task to stop after its step?"""
    metadata = params.get("metadata")
    if not isinstance(metadata, dict):
        return False
    asked = next((value for name, value in metadata.items() if str(name).endswith(ENDING)), None)
    return isinstance(asked, dict) and asked.get("afterStep") is True
