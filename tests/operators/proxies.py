"""Reverse proxies with TLS in front of Parley: one that is told what to do wrong, nginx, and Caddy."""

import asyncio
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.stack import ROOT

ANSWER = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n"


class Proxy:
    """It passes requests on, one a connection. `faults` are what it does wrong (see `tests/operators/test_edge.py`).

    Attributes:
        upstream: the port of Parley.
    """

    def __init__(self, upstream: int, tls: ssl.SSLContext | None = None) -> None:
        self.upstream, self.tls = upstream, tls
        self.faults: frozenset[str] = frozenset()

    @contextmanager
    def listening(self, port: int) -> Iterator[None]:
        is_ready, loop, end = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

        async def listen() -> None:
            async with await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self.tls):
                is_ready.set()
                await end.wait()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:  # it cancels what is left
                runner.run(listen())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert is_ready.wait(20)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(end.set)
            thread.join(20)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            if (answer := self._own_answer(head)) is not None:
                writer.write(answer)
                await writer.drain()
            else:
                await self._pass_on(head, reader, writer)
        writer.close()

    def _own_answer(self, head: str) -> bytes | None:
        path = head.split(" ")[1]
        if "redirects" in self.faults and not path.startswith("/healthz"):
            return _answer(b"308 Permanent Redirect", b"Location: " + path.encode() + b"\r\n")
        if "redirects away" in self.faults and not path.startswith("/healthz"):
            return _answer(b"302 Found", b"Location: https://www.example.org/\r\n")
        if not path.startswith("/static/"):
            return None
        if "no static files" in self.faults:
            return _answer(b"404 Not Found")
        if "static files are pages" in self.faults:
            return _answer(b"200 OK", b"Content-Type: text/html\r\n", b"<p>Welcome</p>")
        if "old static files" in self.faults and path.endswith(".css"):
            return _answer(b"200 OK", b"Content-Type: text/css\r\n", b"p {}")
        return None

    async def _pass_on(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = ("127.0.0.2" if "unknown to Parley" in self.faults else "127.0.0.1", 0)
        there, back = await asyncio.open_connection("127.0.0.1", self.upstream, local_addr=own)
        lines = head.strip().split("\r\n")
        is_socket = "upgrade: websocket" in head.lower() and "no upgrade" not in self.faults
        back.write("\r\n".join([lines[0], *self._headers(lines[1:], is_socket), "", ""]).encode("latin-1"))
        size = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        back.write(await reader.readexactly(int(size[1]) if size else 0))
        upward = asyncio.create_task(_copy(reader, back)) if is_socket else None
        if is_socket and "cuts WebSockets" in self.faults:
            writer.write(await there.readuntil(b"\r\n\r\n"))
        elif "buffers" in self.faults:
            writer.write(await there.read())
        else:
            await _copy(there, writer)
        if upward:
            upward.cancel()
        back.close()

    def _headers(self, lines: list[str], is_socket: bool) -> list[str]:
        drop = {"x-forwarded-for", "x-forwarded-proto", "connection"} | (set() if is_socket else {"upgrade"})
        if "callers' X-Forwarded-For" in self.faults:
            drop.remove("x-forwarded-for")
        if "no Authorization" in self.faults:
            drop.add("authorization")
        if "no Host" in self.faults:
            drop.add("host")
        kept = [line for line in lines if line.partition(":")[0].lower() not in drop]
        kept.append(f"Connection: {'Upgrade' if is_socket else 'close'}")
        if "no Host" in self.faults:
            kept.append("Host: upstream")
        if not {"no X-Forwarded-For", "callers' X-Forwarded-For"} & self.faults:
            kept.append("X-Forwarded-For: 127.0.0.1")
        if "X-Forwarded-Proto: http" in self.faults:
            kept.append("X-Forwarded-Proto: http")
        elif "no X-Forwarded-Proto" not in self.faults:
            kept.append("X-Forwarded-Proto: https")
        return kept


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()


def _answer(status: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    return ANSWER % (status, len(body), headers) + body


@contextmanager
def nginx(folder: Path, name: str, port: int, upstream: int) -> Iterator[None]:
    """nginx with deploy/nginx/parley.conf. The folder has the certificate and its key as `pem`."""
    shipped = (ROOT / "deploy/nginx/parley.conf").read_text()
    upstreams = re.sub(r"(?s)(upstream parley \{).*?keepalive", rf"\1 server 127.0.0.1:{upstream}; keepalive", shipped)
    site = re.sub(r"(?s)server \{\s+listen 80;.*?\n\}\n", "", upstreams)  # another port than 443 has no http beside it
    site = re.sub(r"listen \[::\]:443[^;]*;", "", site).replace("listen 443", f"listen 127.0.0.1:{port}")
    site = re.sub(r"/etc/ssl/parley/\w+\.pem", str(folder / "pem"), site).replace("parley.example.org", name)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        f"events {{}} http {{ access_log off;\n{site}\n}}"
    )
    with _running(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], folder, port):
        yield


@contextmanager
def caddy(folder: Path, name: str, port: int, upstream: int) -> Iterator[None]:
    """Caddy with deploy/caddy/Caddyfile, and a certificate instead of one that it would get itself."""
    shipped = (ROOT / "deploy/caddy/Caddyfile").read_text()
    site = re.sub(r"to 127\.0\.0\.1:8001 127\.0\.0\.1:8002", f"to 127.0.0.1:{upstream}", shipped)
    site = site.replace("\theader {", f"\ttls {folder}/pem {folder}/pem\n\theader {{", 1)
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}")
    own = {"PARLEY_HOST": f"https://{name}:{port}", "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    with _running(command, folder, port, own):
        yield


@contextmanager
def _running(command: list[str], folder: Path, port: int, own: dict[str, str] | None = None) -> Iterator[None]:
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(own or {})})
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, (folder / "proxy.log").read_text()
            assert time.monotonic() < deadline, (folder / "proxy.log").read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)
