"""Who may be called: what a URL says by itself, and what its name leads to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from outbound import targets
from outbound.addresses import IPAddress, is_public
from outbound.allowing import Allowed
from outbound.errors import Forbidden, TooSlow, Unreachable
from outbound.targets import Target

LOOK_UP_SECONDS = 5.0
NOT_OPEN = "This address is not on the public internet. An operator can open it with OUTBOUND_ALLOW."

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_look_ups = ThreadPoolExecutor(16, thread_name_prefix="look-up")  # not the loop's own: slow names must hold up nobody


async def look_up(name: str, port: int) -> list[str]:
    """All the addresses of a name, by the system's resolver. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_look_ups, _look_up, name, port)
    return list(dict.fromkeys(found))


def _look_up(name: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


class Guard:
    """Decides about each call. `resolve` looks a name up; whoever connects must use the addresses that this gives."""

    def __init__(self, allow: Allowed | None = None, resolve: Resolve = look_up) -> None:
        self._allow = allow or Allowed()
        self._resolve = resolve

    def opening(self, entries: Iterable[str]) -> Guard:
        """A guard that lets these pass too (see `Allowed.read`)."""
        more = Allowed.read(entries)
        return self if more.is_empty else Guard(self._allow | more, self._resolve)

    def check(self, url: str) -> Target:
        """Where the URL leads, judged without looking up its name. Raises Forbidden."""
        return self._judged(targets.read(url))

    async def addresses(self, host: str, port: int) -> list[IPAddress]:
        """The addresses to connect to, each of them checked. Raises Forbidden, Unreachable, TooSlow."""
        target = self._judged(targets.reach(host, port))
        if target.address is not None:
            return [target.address]
        found = await self._resolved(target)
        if not all(self._is_open(target, address) for address in found):
            raise Forbidden(NOT_OPEN)
        return found

    async def vet(self, url: str) -> None:
        """Check a URL and the addresses of its name, without calling it. Raises Forbidden, Unreachable, TooSlow."""
        target = self.check(url)
        await self.addresses(target.host, target.port)

    def vet_now(self, url: str) -> None:
        """`vet` for code that runs in a thread without an event loop."""
        asyncio.run(self.vet(url))

    def _judged(self, target: Target) -> Target:
        """With something opened, a name of the surroundings is judged by where it leads."""
        if target.is_inside and self._allow.is_empty:
            raise Forbidden(NOT_OPEN)
        if target.address is not None and not self._is_open(target, target.address):
            raise Forbidden(NOT_OPEN)
        return target

    def _is_open(self, target: Target, address: IPAddress) -> bool:
        return is_public(address) or self._allow.opens(target.host, address, target.port)

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
