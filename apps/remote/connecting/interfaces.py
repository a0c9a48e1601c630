"""Which of the interfaces of a card is used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from a2a.types import AgentCard, AgentInterface

from apps.remote.errors import BadCard

JSONRPC, HTTP_JSON = "JSONRPC", "HTTP+JSON"
BINDINGS = (JSONRPC, HTTP_JSON)
VERSIONS = ("1.0", "0.3")
VERSION = re.compile(r"(\d{1,4}\.\d{1,4})(\.[0-9A-Za-z.+-]{1,40})?")


@dataclass(frozen=True, slots=True)
class Interface:
    """Where and how an agent is spoken to.

    Attributes:
        binding: "JSONRPC" or "HTTP+JSON".
        version: "1.0" or "0.3".
    """

    url: str
    binding: str
    version: str
    tenant: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port, lower-case: what a credential is bound to."""
        return origin_of(self.url)

    @property
    def is_old(self) -> bool:
        return self.version == "0.3"


def choose(card: AgentCard) -> Interface:
    """The first interface, in the agent's own order of preference, that Parley speaks. Raises BadCard."""
    for offered in card.supported_interfaces:
        version = version_of(offered)
        if offered.protocol_binding in BINDINGS and version:
            return Interface(offered.url, offered.protocol_binding, version, offered.tenant)
    raise BadCard("The agent's card names no interface that Parley speaks: JSONRPC or HTTP+JSON, of A2A 1.0 or 0.3.")


def version_of(interface: AgentInterface) -> str:
    """The version of A2A that is spoken there, a patch ignored (A2A 1.0 §3.6); "" for one that Parley does not speak.

    An interface that names none is of 1.0, which is the only version whose cards have interfaces of this shape.
    """
    found = VERSION.fullmatch(interface.protocol_version or "1.0")
    return found[1] if found and found[1] in VERSIONS else ""


def origin_of(url: str) -> str:
    """Scheme, host and port of an http or https URL, lower-case and with the port always there."""
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)
    host = (split.hostname or "").lower()
    return f"{split.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
