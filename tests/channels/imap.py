"""A stand-in of an IMAP server with TLS, as RFC 9051 describes it: as much as a reader of letters needs."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from email.message import EmailMessage

from tests.outbound import certificates

HOST, USER, PASSWORD = "localhost", "agent@example.org", "imap-password"


class ImapStandIn:
    """Attributes:
    letters: by UID. `sizes`: what it says of one, if that is not its size.
    tells_next: whether it says which UID comes next.
    drips: bytes that follow one another, of an answer without an end. `dripped`: whether one began.
    gone: whether a client left in the middle of it.
    """

    def __init__(self) -> None:
        self.letters: dict[int, bytes] = {}
        self.sizes: dict[int, int] = {}
        self.validity, self.port, self.tells_next = 7, 0, True
        self.drips, self.dripped, self.gone = b"", asyncio.Event(), asyncio.Event()

    def add(self, letter: EmailMessage | bytes, size: int = 0) -> int:
        uid = max(self.letters, default=40) + 1
        self.letters[uid] = letter if isinstance(letter, bytes) else letter.as_bytes()
        self.sizes[uid] = size or len(self.letters[uid])
        return uid

    async def serve(self, reader, writer):
        writer.write(b"* OK [CAPABILITY IMAP4rev1] ready\r\n")
        while line := (await reader.readline()).decode().strip():
            tag, command, *rest = line.split(" ", 2)
            if command == "UID" and self.drips:
                await self._drip(writer)
                break
            answer, result = self.answer(command, rest[0] if rest else "")
            writer.write(b"".join([*answer, f"{tag} {result} done\r\n".encode()]))
            await writer.drain()
            if command == "LOGOUT":
                break
        writer.close()

    async def _drip(self, writer):
        self.dripped.set()
        with suppress(OSError):
            while True:
                writer.write(self.drips)
                await writer.drain()
                await asyncio.sleep(0)
        self.gone.set()

    def answer(self, command: str, rest: str) -> tuple[list[bytes], str]:
        match command:
            case "CAPABILITY":
                return [b"* CAPABILITY IMAP4rev1\r\n"], "OK"
            case "LOGIN":
                return [], "OK" if rest == f'{USER} "{PASSWORD}"' else "NO [AUTHENTICATIONFAILED]"
            case "EXAMINE":
                following = max(self.letters, default=40) + 1
                told = f"* OK [UIDVALIDITY {self.validity}] valid\r\n"
                told += f"* OK [UIDNEXT {following}] next\r\n" if self.tells_next else ""
                return [b"* %d EXISTS\r\n" % len(self.letters), told.encode()], "OK [READ-ONLY]"
            case "LOGOUT":
                return [b"* BYE\r\n"], "OK"
            case "UID":
                return self.uid(rest), "OK"
        return [], "BAD"

    def uid(self, rest: str) -> list[bytes]:
        if found := re.fullmatch(r"SEARCH UID (\d+):\*", rest):
            uids = [uid for uid in self.letters if uid >= int(found[1])] or sorted(self.letters)[-1:]
            return [b"* SEARCH %s\r\n" % " ".join(map(str, uids)).encode()]
        if re.fullmatch(r"SEARCH (ALL|SINCE \d+-[A-Z][a-z]{2}-\d{4})", rest):
            return [b"* SEARCH %s\r\n" % " ".join(map(str, self.letters)).encode()]
        uid = int(rest.split(" ")[1])
        if "RFC822.SIZE" in rest:
            return [b"* 1 FETCH (UID %d RFC822.SIZE %d)\r\n" % (uid, self.sizes[uid])]
        assert rest.endswith("(BODY.PEEK[])"), rest
        body = self.letters[uid]
        return [b"* 1 FETCH (UID %d BODY[] {%d}\r\n" % (uid, len(body)), body, b")\r\n"]


@asynccontextmanager
async def mail_server(folder, monkeypatch):
    """One that Parley trusts."""
    theirs, ours = certificates.tls(folder, HOST)
    monkeypatch.setattr("parley.outbound.connections.trusted", lambda: ours)
    one = ImapStandIn()
    listening = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=theirs)
    one.port = listening.sockets[0].getsockname()[1]
    yield one
    listening.close()
