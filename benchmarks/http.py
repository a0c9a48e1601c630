"""A minimal HTTP/1.1 client, which takes little of the measured machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

LARGEST = 64 * 1024 * 1024  # bytes of an answer at most


class Connection:
    """A kept-alive connection with one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": address.netloc, **headers}.items())
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=LARGEST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def fetch(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body. Raises RuntimeError for a status other than 200."""
        length = await self._ask(method, path, body)
        if length is not None:
            return await self._reader.readexactly(length)
        return b"".join([chunk async for chunk in self._chunks()])

    async def stream(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[bytes]:
        """The body in the server's chunks. Raises RuntimeError for a status other than 200."""
        length = await self._ask(method, path, body)
        if length is not None:
            yield await self._reader.readexactly(length)
            return
        async for chunk in self._chunks():
            yield chunk

    async def _ask(self, method: str, path: str, body: bytes) -> int | None:
        """Send a request and read the head; returns the body's length, None if chunked."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        status, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers["content-length"]) if "content-length" in headers else None
        if status.split()[1] != "200":
            raise RuntimeError(f"{method} {path}: {status} {(await self._reader.read(2000)).decode(errors='replace')}")
        return length

    async def _chunks(self) -> AsyncGenerator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
