"""Putting credentials into requests, of one agent at its own origin and of nobody else."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import NoReturn, Protocol

import httpx

from apps.remote.authenticating.errors import WrongOrigin
from apps.remote.authenticating.origins import origin_of


class Signer(Protocol):
    """One credential, as it is put into a request."""

    async def sign(self, request: httpx.Request) -> None:
        """Put it there."""

    async def renewed(self) -> bool:
        """The agent refused it: is there another now, worth one more try?"""


class Fixed:
    """A credential that is what it is."""

    async def renewed(self) -> bool:
        return False


class HeaderKey(Fixed):
    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, value

    async def sign(self, request: httpx.Request) -> None:
        request.headers[self._name] = self._value


class QueryKey(Fixed):
    """A key in the URL, in place of what a parameter of that name said there."""

    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, value

    async def sign(self, request: httpx.Request) -> None:
        request.url = request.url.copy_set_param(self._name, self._value)


class CookieKey(Fixed):
    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, value

    async def sign(self, request: httpx.Request) -> None:
        mine = f"{self._name}="
        others = [one for one in request.headers.get("cookie", "").split("; ") if one and not one.startswith(mine)]
        request.headers["cookie"] = "; ".join([*others, mine + self._value])


def bearer(token: str) -> HeaderKey:
    """RFC 6750 §2.1."""
    return HeaderKey("Authorization", f"Bearer {token}")


def basic(username: str, password: str) -> HeaderKey:
    """RFC 7617, in UTF-8."""
    return HeaderKey("Authorization", "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())


class Signature(httpx.Auth):
    """Signs the requests of one peer, and refuses one to any other origin: a redirect or a card's lie gets nothing.

    What goes out is a copy: the request that others see, and may quote in an error or a log, stays without secrets.
    After a 401 it tries once more where a credential could be renewed. Raises WrongOrigin, and what the signers raise.
    """

    def __init__(self, origin: str, signers: Sequence[Signer]) -> None:
        self._origin, self._signers = origin, signers

    def __repr__(self) -> str:
        return f"<Signature for {self._origin}>"

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        response = yield await self._signed(request)
        response.request = request
        if response.status_code == httpx.codes.UNAUTHORIZED and _can_be_repeated(request) and await self._renewed():
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

    async def _renewed(self) -> bool:
        return any([await signer.renewed() for signer in self._signers])


def _can_be_repeated(request: httpx.Request) -> bool:
    return isinstance(request.stream, httpx.ByteStream)
