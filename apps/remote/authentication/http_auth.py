"""The `httpx.Auth` of a remote agent, which adds credentials to requests to one origin only."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import httpx

from apps.accounts.secrets import request_signatures
from apps.agents.identities.identity import did_of
from apps.agents.identities.signing import signer_of
from apps.remote.agent_cards.cards import origin_of
from apps.remote.errors import WrongOrigin
from parley import db


class Signer(Protocol):
    async def sign(self, request: httpx.Request) -> None: ...

    async def renew(self) -> bool:
        """Try to get a new credential after the agent refused this one; True if there is one."""


@dataclass(frozen=True, slots=True)
class FixedSigner:
    name: str
    value: str = field(repr=False)

    async def renew(self) -> bool:
        return False


class HeaderKey(FixedSigner):
    async def sign(self, request: httpx.Request) -> None:
        request.headers[self.name] = self.value


class QueryKey(FixedSigner):
    """A key in the URL. It replaces a parameter of that name."""

    async def sign(self, request: httpx.Request) -> None:
        request.url = request.url.copy_set_param(self.name, self.value)


class CookieKey(FixedSigner):
    async def sign(self, request: httpx.Request) -> None:
        mine = f"{self.name}="
        others = [one for one in request.headers.get("cookie", "").split("; ") if one and not one.startswith(mine)]
        request.headers["cookie"] = "; ".join([*others, mine + self.value])


class RequestSigner:
    """Signs the request by the installation's key (RFC 9421): the address, the body and `Authorization`.

    It comes last, because others add to these.
    """

    async def sign(self, request: httpx.Request) -> None:
        body = await request.aread()
        await db.run(_sign_request, request, body)

    async def renew(self) -> bool:
        return False


def _sign_request(request: httpx.Request, body: bytes) -> None:
    signer = signer_of(None)
    key_id = f"{did_of(None)}#{signer.kid}"
    request_signatures.sign(request, signer.key.private_key, key_id, secrets.token_urlsafe(16), body)


class SigningAuth(httpx.Auth):
    """Signs requests to one origin and refuses any other, such as a redirect.

    It signs a copy: errors and logs may quote the original. After a 401 it retries once if a credential could be
    renewed. Raises WrongOrigin, and the errors of the signers.

    Attributes:
        has_credential: is anything but a signature added? An agent may not look at signatures.
    """

    def __init__(self, origin: str, signers: Sequence[Signer]) -> None:
        self._origin, self._signers = origin, signers
        self.has_credential = any(not isinstance(signer, RequestSigner) for signer in signers)

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
