"""The `httpx.Auth` of a remote agent: puts credentials into the requests to its own origin only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import httpx

from apps.remote.cards import origin_of
from apps.remote.errors import WrongOrigin


class Signer(Protocol):
    """Puts one credential into requests."""

    async def sign(self, request: httpx.Request) -> None: ...

    async def renew(self) -> bool:
        """The agent refused the credential: is there another one now, worth one more try?"""


@dataclass(frozen=True, slots=True)
class FixedSigner:
    """A credential that cannot be renewed: `value` goes where `name` says."""

    name: str
    value: str = field(repr=False)

    async def renew(self) -> bool:
        return False


class HeaderKey(FixedSigner):
    async def sign(self, request: httpx.Request) -> None:
        request.headers[self.name] = self.value


class QueryKey(FixedSigner):
    """A key in the URL, in place of a parameter of that name that is there already."""

    async def sign(self, request: httpx.Request) -> None:
        request.url = request.url.copy_set_param(self.name, self.value)


class CookieKey(FixedSigner):
    async def sign(self, request: httpx.Request) -> None:
        mine = f"{self.name}="
        others = [one for one in request.headers.get("cookie", "").split("; ") if one and not one.startswith(mine)]
        request.headers["cookie"] = "; ".join([*others, mine + self.value])


class SigningAuth(httpx.Auth):
    """Signs the requests to one origin and refuses any other: a redirect or a false card gets no credential.

    The request that is sent is a copy: the original, which an error or a log may quote, stays without secrets. After a
    401 it tries once more where a credential could be renewed. Raises WrongOrigin, and the errors of the signers.
    """

    def __init__(self, origin: str, signers: Sequence[Signer]) -> None:
        self._origin, self._signers = origin, signers

    def __repr__(self) -> str:
        return f"<Signature for {self._origin}>"

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        response = yield await self._signed(request)
        response.request = request
        if response.status_code == httpx.codes.UNAUTHORIZED and _can_be_repeated(request) and await self._renew():
            response = yield await self._signed(request)
            response.request = request

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, NoReturn]:
        raise RuntimeError("A remote agent is called from an event loop.")

    async def _signed(self, request: httpx.Request) -> httpx.Request:
        where = origin_of(str(request.url))
        if where != self._origin:
            raise WrongOrigin(
                f"The agent's credential is for {self._origin} and was not sent to {where or 'elsewhere'}."
            )
        signed = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        for signer in self._signers:
            await signer.sign(signed)
        return signed

    async def _renew(self) -> bool:
        return any([await signer.renew() for signer in self._signers])


def _can_be_repeated(request: httpx.Request) -> bool:
    return isinstance(request.stream, httpx.ByteStream)
