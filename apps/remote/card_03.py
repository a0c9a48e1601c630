"""Cards of A2A 0.3: what one says, said as 1.0 does, by the SDK's own conversion."""

from __future__ import annotations

from typing import Any

from a2a.compat.v0_3 import conversions, types
from google.protobuf.json_format import MessageToDict
from pydantic import ValidationError

from apps.remote import card_shape

JSON = dict[str, Any]

OLD = "0.3"
FLOWS = ("clientCredentials", "authorizationCode", "password", "implicit")  # of which 1.0 knows one; the first is ours
USUAL: JSON = {"capabilities": {}, "skills": [], "defaultInputModes": [], "defaultOutputModes": []}


def is_old(card: JSON) -> bool:
    """Is it a card of 0.3? It names one `url` where 1.0 lists interfaces."""
    return "url" in card and not (card.keys() & {"supportedInterfaces", "supported_interfaces"})


def converted(card: JSON) -> tuple[JSON, list[str]]:
    """The card as 1.0 says it, and a sentence for each field that is wrong (then the card is empty)."""
    card, problems = card_shape.tidied(card)
    if problems:
        return {}, problems
    try:
        read = types.AgentCard.model_validate({**USUAL, **_with_one_flow(card)})
    except ValidationError as error:
        return {}, [f"{_path(one['loc'])}: {one['msg']}." for one in error.errors(include_url=False)]
    made: JSON = MessageToDict(conversions.to_core_agent_card(read))
    made["supportedInterfaces"] = _interfaces(made["supportedInterfaces"])
    return made, []


def _interfaces(told: list[JSON]) -> list[JSON]:
    """The main interface first, each once; "0.3.0" is 0.3."""
    named: dict[tuple[str, str], JSON] = {}
    for one in told:
        version = OLD if one.get("protocolVersion", OLD).startswith(f"{OLD}.") else one.get("protocolVersion", OLD)
        key = (one.get("url", ""), one.get("protocolBinding", ""))
        named.setdefault(key, {**one, "protocolVersion": version})
    return list(named.values())


def _with_one_flow(card: JSON) -> JSON:
    """With one flow for each scheme of OAuth2, as in 1.0: that of programs where there is one."""
    schemes = card.get("securitySchemes")
    if not isinstance(schemes, dict):
        return card
    return {**card, "securitySchemes": {name: _one_flow(scheme) for name, scheme in schemes.items()}}


def _one_flow(scheme: Any) -> Any:
    flows = scheme.get("flows") if isinstance(scheme, dict) else None
    if not isinstance(flows, dict):
        return scheme
    told = [name for name in FLOWS if flows.get(name)]
    return {**scheme, "flows": {name: flows[name] for name in told[:1]}}


def _path(steps: tuple[int | str, ...]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path or "The card"
