"""What may be called although it is not on the public internet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from outbound.addresses import METADATA, IPAddress
from outbound.targets import address_of, is_name

PORT = re.compile(r"(?P<host>\[[^\]]+\]|[^:]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Networks, and hosts (names or addresses) with or without a port."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    hosts: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def read(cls, entries: Iterable[str]) -> Allowed:
        """From entries such as `10.0.0.0/8`, `fd00::/8`, `models.internal`, `127.0.0.1:11434`, `[::1]:8080`.

        Raises ValueError for an entry that is none of these.
        """
        networks, hosts = [], set()
        for entry in filter(None, map(str.strip, entries)):
            if "/" in entry:
                networks.append(ip_network(entry))
            else:
                hosts.add(_host(entry))
        return cls(tuple(networks), frozenset(hosts))

    def names(self, host: str, port: int) -> bool:
        """Is this host named, alone or with this port?"""
        return not self.hosts.isdisjoint({(host, None), (host, port)})

    def opens(self, host: str, address: IPAddress, port: int) -> bool:
        """May `address`, to which `host` led, be called? A metadata address must be named itself."""
        if self.names(str(address), port):
            return True
        if address in METADATA:
            return any(network.num_addresses == 1 and address in network for network in self.networks)
        return self.names(host, port) or any(address in network for network in self.networks)

    def __or__(self, other: Allowed) -> Allowed:
        return Allowed(self.networks + other.networks, self.hosts | other.hosts)

    @property
    def is_empty(self) -> bool:
        return not self.networks and not self.hosts


def _host(entry: str) -> tuple[str, int | None]:
    found = PORT.fullmatch(entry)
    host = (found["host"] if found else entry).removeprefix("[").removesuffix("]").lower()
    address = address_of(host)
    if address is None and not is_name(host):
        raise ValueError(f"{entry!r} is no network, host or host:port, such as 10.0.0.0/8 or models.internal:11434.")
    return str(address or host), int(found["port"]) if found else None
