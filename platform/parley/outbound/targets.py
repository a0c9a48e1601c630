"""Which URLs and addresses may be called.

A URL is parsed strictly, so that no other parser finds another host in it. Each address must be global unicast or
allowed. The registries: https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol
from urllib.parse import urlsplit

from parley.outbound.errors import Forbidden, Private, TooSlow, Unreachable

LOOK_UP_SECONDS = 5.0
NOT_OPEN = (
    "This address is in a private network, where Parley calls nothing. An operator can allow it in admin, under Private"
    " addresses, or with OUTBOUND_ALLOW."
)
NEVER_OPEN = "This is where a cloud gives its machines their credentials. Parley never calls it."

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_look_ups = ThreadPoolExecutor(16, thread_name_prefix="look-up")  # slow names would fill the loop's own


async def look_up(name: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_look_ups, _look_up, name, port)
    return list(dict.fromkeys(found))


def _look_up(name: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


class Allowances(Protocol):
    """What the host allows besides the configured addresses. It may change at any time."""

    def now(self) -> Allowed:
        """For threads. On an event loop, which it must not block, it may be a second old."""

    async def latest(self) -> Allowed: ...


class Guard:
    """Checks each call. Connect only to the addresses that it returns."""

    def __init__(
        self, allow: Allowed | None = None, resolve: Resolve = look_up, more: Allowances | None = None
    ) -> None:
        self._allow = allow or Allowed()
        self._resolve = resolve
        self._more = more

    def opening(self, entries: Iterable[str]) -> Guard:
        """A guard that also allows these (see `Allowed.read`)."""
        more = Allowed.read(entries)
        return self if more.is_empty else Guard(self._allow | more, self._resolve, self._more)

    async def allowed(self) -> Allowed:
        """All that may be called at this moment besides the internet."""
        return self._allow if self._more is None else self._allow | await self._more.latest()

    def _allowed_now(self) -> Allowed:
        return self._allow if self._more is None else self._allow | self._more.now()

    def check(self, url: str) -> Target:
        """The URL's target, without resolving its name. Raises Forbidden."""
        return _checked(parse_url(url), self._allowed_now())

    async def addresses(self, host: str, port: int) -> list[IPAddress]:
        """The checked addresses to connect to. Raises Forbidden, Unreachable, TooSlow."""
        return await self._addresses(target_of(host, port), await self.allowed())

    async def _addresses(self, target: Target, allowed: Allowed) -> list[IPAddress]:
        target = _checked(target, allowed)
        if target.address is not None:
            return [target.address]
        found = await self._resolved(target)
        for address in found:
            _refuse_closed(target, address, allowed)
        return found

    async def vet(self, url: str) -> None:
        """Check a URL and its addresses, without a call. Raises Forbidden, Unreachable, TooSlow."""
        target = parse_url(url)
        await self.addresses(target.host, target.port)

    def vet_now(self, url: str) -> None:
        """`vet` for threads without an event loop. It waits for no other thread."""
        asyncio.run(self._addresses(parse_url(url), self._allowed_now()))

    async def _resolved(self, target: Target) -> list[IPAddress]:
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                found = [ip_address(text) for text in await self._resolve(target.host, target.port)]
        except TimeoutError:
            raise TooSlow(f"Looking up {target.host} took longer than {LOOK_UP_SECONDS:g} s.") from None
        except (OSError, ValueError):
            found = []
        if not found:
            raise Unreachable(f"The name {target.host} cannot be resolved.")
        return found


def _checked(target: Target, allowed: Allowed) -> Target:
    """A local name is forbidden, unless it is allowed itself or may lead to an address that is.

    So nobody can save one that every call would refuse. Where this cannot be known, calls check its addresses.
    """
    if target.is_inside and not allowed.may_lead_to(target):
        raise Private(NOT_OPEN, target.entry)
    if target.address is not None:
        _refuse_closed(target, target.address, allowed)
    return target


def _refuse_closed(target: Target, address: IPAddress, allowed: Allowed) -> None:
    if is_public(address) or allowed.opens(target.host, address, target.port):
        return
    if embedded_address(address) in METADATA_ADDRESSES:
        raise Forbidden(NEVER_OPEN)
    raise Private(NOT_OPEN, target.entry)


MAX_URL_LENGTH = 2048
PORTS = {"http": 80, "https": 443}
FORBIDDEN_CHARACTERS = re.compile(r"[^!-~]|[\\<>\"`{}|^]")
NETLOC = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>\d{0,5}))?")
LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(?:\.{LABEL})*")
NUMERIC_LABEL = re.compile(r"\d+|0x[0-9a-f]*")
# RFC 6761, 6762, 7686, 8375, 9476, and what networks use within. `example` and `invalid` exist nowhere, so do no harm.
LOCAL_NAMES = (
    "localhost", "local", "internal", "localdomain", "home.arpa", "test", "onion", "alt", "lan", "intranet", "private",
    "corp", "home",
)  # fmt: skip
LOOPBACK: tuple[IPv4Address | IPv6Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


@dataclass(frozen=True, slots=True)
class Target:
    """A URL's host and port. `host` is a lower-case name, or an address as `ipaddress` writes it."""

    host: str
    port: int
    address: IPAddress | None = None

    @property
    def entry(self) -> str:
        """What allows this host and port (see `Allowed.read`)."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_inside(self) -> bool:
        """Is it a local name? One without a dot is."""
        return self.address is None and ("." not in self.host or self._is_under(*LOCAL_NAMES))

    @property
    def is_this_machine(self) -> bool:
        """Is it a name that leads to a loopback address always (RFC 6761 §6.3)?"""
        return self.address is None and self._is_under("localhost")

    def _is_under(self, *names: str) -> bool:
        return any(self.host == name or self.host.endswith(f".{name}") for name in names)


def parse_url(url: str) -> Target:
    """A URL's target. Raises Forbidden for an invalid URL or an unusual spelling."""
    if len(url) > MAX_URL_LENGTH or FORBIDDEN_CHARACTERS.search(url):
        raise Forbidden(
            f"Must be a URL of at most {MAX_URL_LENGTH} characters in plain ASCII; write other names in punycode."
        )
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
    return target_of(found["six"] or found["name"], port)


def is_private(url: str) -> bool:
    """Does the URL itself name a local name, or an address that is not public? Raises Forbidden for an invalid URL."""
    target = parse_url(url)
    return target.is_inside or (target.address is not None and not is_public(target.address))


def allowed_hosts(url: str) -> list[str]:
    """The entry that allows a URL's host and port (see `Allowed.read`); none for "". Raises Forbidden."""
    return [parse_url(url).entry] if url else []


def target_of(host: str, port: int) -> Target:
    """Raises Forbidden for an unusual host."""
    if not 1 <= port <= 65535:
        raise Forbidden("The port must be from 1 to 65535.")
    if (address := address_of(host)) is not None:
        return Target(str(address), port, address)
    if not is_name(host.lower()):
        raise Forbidden("The host must be a name, an IPv4 address in dotted decimals, or an IPv6 address in brackets.")
    return Target(host.lower(), port)


def address_of(host: str) -> IPAddress | None:
    """The canonical address without a zone; None for other text."""
    try:
        return None if "%" in host else ip_address(host)
    except ValueError:
        return None


def is_name(host: str) -> bool:
    """Is it a host name? A numeric last label makes it an old form of address (127.1, 0x7f.1)."""
    return HOST_NAME.fullmatch(host) is not None and NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]) is None


HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]+\]|[^:]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Networks, and hosts (names or addresses) with or without a port."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    hosts: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def read(cls, entries: Iterable[str]) -> Allowed:
        """Parse entries such as `10.0.0.0/8`, `fd00::/8`, `models.internal`, `127.0.0.1:11434`, `[::1]:8080`.

        Raises ValueError for other entries.
        """
        networks, hosts = [], set()
        for entry in filter(None, map(str.strip, entries)):
            if "/" in entry:
                networks.append(ip_network(entry))
            else:
                hosts.add(_allowed_host(entry))
        return cls(tuple(networks), frozenset(hosts))

    def names(self, host: str, port: int) -> bool:
        """Is this host allowed, alone or with this port?"""
        return not self.hosts.isdisjoint({(host, None), (host, port)})

    def opens(self, host: str, address: IPAddress, port: int) -> bool:
        """May `address`, to which `host` resolved, be called? A metadata address must be allowed explicitly."""
        if self.names(str(address), port):
            return True
        if embedded_address(address) in METADATA_ADDRESSES:
            return any(network.num_addresses == 1 and address in network for network in self.networks)
        return self.names(host, port) or any(address in network for network in self.networks)

    def may_lead_to(self, target: Target) -> bool:
        """May this local name lead to an allowed address?"""
        if self.names(target.host, target.port):
            return True
        if target.is_this_machine:
            return any(self.opens(target.host, address, target.port) for address in LOOPBACK)
        hosts = (address for host, port in self.hosts if port in (None, target.port) and (address := address_of(host)))
        return any(not one.is_loopback for one in (*self.networks, *hosts))

    @property
    def opens_metadata(self) -> bool:
        """Does an entry name a metadata address itself?"""
        named = {network.network_address for network in self.networks if network.num_addresses == 1}
        named |= {address for host, _ in self.hosts if (address := address_of(host)) is not None}
        return any(embedded_address(address) in METADATA_ADDRESSES for address in named)

    def __or__(self, other: Allowed) -> Allowed:
        return Allowed(self.networks + other.networks, self.hosts | other.hosts)

    @property
    def is_empty(self) -> bool:
        return not self.networks and not self.hosts


def _allowed_host(entry: str) -> tuple[str, int | None]:
    found = HOST_AND_PORT.fullmatch(entry)
    host = (found["host"] if found else entry).removeprefix("[").removesuffix("]").lower()
    address = address_of(host)
    if address is None and not is_name(host):
        raise ValueError(f"{entry!r} is no network, host or host:port, such as 10.0.0.0/8 or models.internal:11434.")
    return str(address or host), int(found["port"]) if found else None


IPAddress = IPv4Address | IPv6Address

METADATA_ADDRESSES: frozenset[IPAddress] = frozenset(
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
"""Where clouds give credentials to their machines."""

NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))  # the last 32 bits are an IPv4 address


def embedded_address(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 address stands for; any other address itself."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address


UNICAST_IPV6 = IPv6Network("2000::/3")  # all global unicast addresses
CLOSED_IPV6 = tuple(
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
CLOSED_IPV4 = tuple(
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
    """Is it global unicast and no metadata address? An address with a zone is local."""
    if address in METADATA_ADDRESSES:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in CLOSED_IPV4)
    return (
        address.scope_id is None and address in UNICAST_IPV6 and not any(address in network for network in CLOSED_IPV6)
    )
