"""Test servers that answer byte for byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answering = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A local server that records its requests."""

    def __init__(self, answering: bytes | Answering) -> None:
        self._answering = answering
        self.requests: list[bytes] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = dict(line.lower().split(b": ", 1) for line in head.strip().split(b"\r\n")[1:])
            request = head + await reader.readexactly(int(lines.get(b"content-length", 0)))
            self.requests.append(request)
            if isinstance(self._answering, bytes):
                writer.write(self._answering)
                await writer.drain()
            else:
                await self._answering(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def server(answering: bytes | Answering, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    built = Server(answering)
    listening = await asyncio.start_server(built.serve, "127.0.0.1", 0, ssl=tls)
    built.port = listening.sockets[0].getsockname()[1]
    try:
        yield built
    finally:
        listening.close()


def answer(body: bytes = b"hello", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
