"""Which addresses belong to the public internet: the global unicast ones, and no others.

The registries: https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

IPAddress = IPv4Address | IPv6Address

METADATA: frozenset[IPAddress] = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
        ),
    )
)
"""Where clouds hand out credentials to whoever asks from within."""

UNICAST_6 = IPv6Network("2000::/3")  # all that was ever given out as global unicast
CLOSED_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which carries any IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)


def is_public(address: IPAddress) -> bool:
    """Is it a global unicast address, and not one that stands for another or serves machines of a cloud?

    Nothing with a zone is: it means an interface of this machine.
    """
    if address in METADATA:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in CLOSED_4)
    return address.scope_id is None and address in UNICAST_6 and not any(address in network for network in CLOSED_6)
