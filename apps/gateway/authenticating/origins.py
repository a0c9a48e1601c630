"""Whom a credential is for: the scheme, host and port of a URL, in one form."""

from __future__ import annotations

from urllib.parse import urlsplit

from a2a.types import AgentCard

from outbound import Forbidden, targets

SPOKEN = frozenset({"JSONRPC", "HTTP+JSON"})


def origin_of(url: str) -> str:
    """`scheme://host:port` of a URL, with the port written out; "" for what is no URL that may be called."""
    try:
        target = targets.read(url)
    except Forbidden:
        return ""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{urlsplit(url).scheme.lower()}://{host}:{target.port}"


def origin_of_card(card: AgentCard) -> str:
    """Where the agent is called: the origin of its first interface that we speak; "" where there is none."""
    return next((origin_of(one.url) for one in card.supported_interfaces if one.protocol_binding in SPOKEN), "")


def is_plain(origin: str) -> bool:
    """Can others read on the way what is sent there?"""
    return origin.startswith("http://")
