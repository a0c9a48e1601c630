"""Reading a URL that somebody gave: one strict form, so that nobody downstream reads another host out of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from outbound.addresses import IPAddress
from outbound.errors import Forbidden

LONGEST = 2048  # characters of a URL
PORTS = {"http": 80, "https": 443}
UNFIT = re.compile(r"[^!-~]|[\\<>\"`{}|^]")  # anything but visible ASCII, and what no URL contains
NETLOC = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d{0,5}))?")
LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(?:\.{LABEL})*")
NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
INSIDE = ("localhost", "local", "internal", "localdomain", "home.arpa")  # names of a machine's own surroundings


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads. `host` is a lower-case name, or an address as `ipaddress` writes it."""

    host: str
    port: int
    address: IPAddress | None = None

    @property
    def is_inside(self) -> bool:
        """Does the name itself say that it is this machine or its surroundings?"""
        return self.address is None and any(self.host == name or self.host.endswith(f".{name}") for name in INSIDE)


def read(url: str) -> Target:
    """Where the URL leads. Raises Forbidden for one that is none, or that is written in an unusual way."""
    if len(url) > LONGEST or UNFIT.search(url):
        raise Forbidden(f"Must be a URL of at most {LONGEST} characters in plain ASCII; write other names in punycode.")
    try:
        split = urlsplit(url)
    except ValueError:
        raise Forbidden("Must be an absolute http or https URL.") from None
    if split.scheme not in PORTS or not split.netloc:
        raise Forbidden("Must be an absolute http or https URL.")
    if "@" in split.netloc:
        raise Forbidden("Must not contain a user name or password.")
    found = NETLOC.fullmatch(split.netloc)
    if found is None:
        raise Forbidden("Must name a host, and a port only as :8080.")
    port = int(found["port"] or PORTS[split.scheme])
    return reach(found["six"] or found["name"], port)


def reach(host: str, port: int) -> Target:
    """The target of a host and a port. Raises Forbidden for a host that is written in an unusual way."""
    if not 1 <= port <= 65535:
        raise Forbidden("The port must be from 1 to 65535.")
    if (address := address_of(host)) is not None:
        return Target(str(address), port, address)
    if not is_name(host.lower()):
        raise Forbidden("The host must be a name, an IPv4 address in dotted decimals, or an IPv6 address in brackets.")
    return Target(host.lower(), port)


def address_of(host: str) -> IPAddress | None:
    """The address that a host is, in its one plain form and without a zone; None for anything else."""
    try:
        return None if "%" in host else ip_address(host)
    except ValueError:
        return None


def is_name(host: str) -> bool:
    """Is it a host name? What ends in a number is an address in one of its old forms (127.1, 0x7f.1, 2130706433)."""
    return NAME.fullmatch(host) is not None and NUMBER.fullmatch(host.rpartition(".")[2]) is None
