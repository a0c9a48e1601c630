"""Whom a credential is for: the scheme, host and port of a URL, in one form."""

from __future__ import annotations

from a2a.types import AgentCard

from apps.remote import cards, connecting
from apps.remote.errors import BadCard
from outbound import Forbidden


def origin_of(url: str) -> str:
    """`scheme://host:port` of a URL, with the port written out; "" for what is no URL that may be called."""
    try:
        return cards.origin(url)
    except Forbidden:
        return ""


def origin_of_card(card: AgentCard) -> str:
    """Where the agent is called; "" where it offers no interface that we speak."""
    try:
        return origin_of(connecting.choose(card).url)
    except BadCard:
        return ""


def is_plain(origin: str) -> bool:
    """Can others read on the way what is sent there?"""
    return origin.startswith("http://")
