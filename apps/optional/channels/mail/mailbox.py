"""Letters from a mailbox, by IMAP with TLS (RFC 9051, RFC 3501). Nothing in the mailbox is changed.

A letter is known by its UID, for as long as the mailbox keeps its UIDVALIDITY (RFC 9051 §2.3.1.1). Where that changes,
letters since the day of the last look are read again, and their Message-IDs say which are known.
"""

from __future__ import annotations

import asyncio
import datetime
import imaplib
import io
import logging
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from apps.optional.channels.mail import receiving
from apps.optional.channels.platforms import JSON, Heard, Inbound, Later, Refused
from parley import outbound
from parley.outbound import Forbidden, OutboundError

PORT, LAST_PORT = 993, 65_535
SECONDS = 20.0  # until a connection, and without a word of the server
COMMAND_SECONDS = 120.0  # until a command is answered
SPACE = 64 * 1024  # bytes of an answer besides the letter
SIZE = re.compile(rb"RFC822\.SIZE (\d+)")
NOT_ACCEPTED = "The mail server does not accept the user name and the password."
TOO_MUCH = "The server sends too much."
NO_INBOX = "The mail server shows no INBOX to this user."

log = logging.getLogger("parley.channels")
_threads = ThreadPoolExecutor(16, thread_name_prefix="mailboxes")  # a slow server would fill the loop's own


async def _in_thread[**P, T](function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(function, *args, **kwargs))


class Answer(io.RawIOBase):
    """What the server says to one command after another: each answer has a deadline and a most of bytes."""

    def __init__(self, connection: Any, most_bytes: int) -> None:
        self._connection, self._most = connection, most_bytes
        self.begin()

    def begin(self) -> None:
        self._until, self._left = time.monotonic() + COMMAND_SECONDS, self._most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises `TimeoutError`, and `abort` for too many bytes."""
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(min(seconds, SECONDS))
        count = int(self._connection.recv_into(buffer))
        self._left -= count
        if self._left < 0:
            raise imaplib.IMAP4.abort(TOO_MUCH)
        return count


class Session(imaplib.IMAP4):
    """A session over a connection that is open: this class never opens one."""

    def __init__(self, connection: Any, most_bytes: int) -> None:
        self._most = most_bytes + SPACE
        self._connection, self._answer = connection, Answer(connection, self._most)
        self._lines = io.BufferedReader(self._answer)
        super().__init__()

    def open(self, host: str = "", port: int = PORT, timeout: float | None = None) -> None:
        pass

    def read(self, size: int) -> bytes:
        """Raises `abort` for more than was asked for."""
        if size > self._most:
            raise self.abort(TOO_MUCH)
        return bytes(self._lines.read(size))

    def readline(self) -> bytes:
        line = bytes(self._lines.readline(self._most))
        if len(line) >= self._most:
            raise self.abort(TOO_MUCH)
        return line

    def send(self, data: Any) -> None:
        self._answer.begin()
        self._connection.sendall(data)

    def cut(self) -> None:
        """Of any thread: what waits for the server ends at once."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def shutdown(self) -> None:
        self._lines.close()
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Mailbox:
    """Where letters are. `most_bytes`: of one that is taken."""

    host: str
    port: int
    user: str
    password: str
    most_bytes: int

    @classmethod
    def of(cls, credentials: Mapping[str, str], most_bytes: int) -> Mailbox:
        """Raises Refused if the server is written wrongly."""
        host, _, port = credentials["imap_server"].partition(":")
        if port and not (port.isdecimal() and len(port) <= 5 and 0 < int(port) <= LAST_PORT):
            raise Refused("Write the IMAP server as imap.example.org or imap.example.org:993.")
        user = credentials.get("imap_user") or credentials.get("address", "")
        return cls(host, int(port or PORT), user, credentials["imap_password"], most_bytes)

    @property
    def name(self) -> str:
        return f"{self.user} at {self.host}"

    async def open(self) -> Session:
        """A session with its INBOX, which is only read. Raises Later, Refused."""
        try:
            connection = await outbound.connect(self.host, self.port, SECONDS)
            return await _in_thread(self._begin, connection)
        except Forbidden as forbidden:
            raise Refused(str(forbidden)) from None
        except OutboundError as error:
            raise Later(str(error)) from None

    def _begin(self, connection: Any) -> Session:
        with _later():
            session = Session(outbound.encrypted(connection, self.host), self.most_bytes)
            try:
                self._sign_in(session)
            except BaseException:
                session.shutdown()
                raise
        return session

    def _sign_in(self, session: Session) -> None:
        try:
            session.login(self.user, self.password)
        except imaplib.IMAP4.abort:
            raise
        except (imaplib.IMAP4.error, UnicodeEncodeError):
            raise Refused(NOT_ACCEPTED) from None
        if session.select("INBOX", readonly=True)[0] != "OK":
            raise Refused(NO_INBOX)

    async def check(self) -> None:
        """Raises Later, Refused."""
        await _in_thread(_close, await self.open())

    async def letters(self, state: JSON, checked_by: str) -> AsyncGenerator[Heard]:
        """Those that came after `state`, one by one; at first none. Raises Later, Refused."""
        session = await self.open()
        try:
            state, uids = await _in_thread(self._position, session, state)
            yield Heard(state=state)
            for uid in uids:
                body, problem = await _in_thread(self._fetch, session, uid)
                state = {**state, "uid": uid}
                yield await _in_thread(_heard, body, problem, checked_by, state)
            yield Heard(state={**state, "day": _today()})
        except (asyncio.CancelledError, GeneratorExit):
            session.cut()
            raise
        finally:
            await _in_thread(_close, session)

    def _position(self, session: Session, state: JSON) -> tuple[JSON, list[int]]:
        """From where letters are read, and the UIDs of those that are there."""
        with _later():
            validity = _number(session.response("UIDVALIDITY"))
            following = _number(session.response("UIDNEXT"))  # not every server tells it
            last = following - 1 if following else max(_search(session, "ALL"), default=0)
            here = {"mailbox": self.name, "validity": validity, "uid": last, "day": _today()}
            if state.get("mailbox") != self.name:
                return here, []
            if state["validity"] == validity:
                found = _search(session, f"UID {state['uid'] + 1}:*")
                return state, [one for one in found if one > state["uid"]]  # `*` is the last letter in any case
            since = datetime.date.fromisoformat(state["day"])
            found = _search(session, f"SINCE {since.day}-{MONTHS[since.month - 1]}-{since.year}")
            return {**here, "uid": min(found, default=last + 1) - 1, "day": state["day"]}, found

    def _fetch(self, session: Session, uid: int) -> tuple[bytes, str]:
        """A letter, or why it is not taken; neither if it is gone."""
        with _later():
            _, sizes = session.uid("FETCH", str(uid), "(RFC822.SIZE)")
            size = SIZE.search(b" ".join(one for one in sizes if isinstance(one, bytes)))
            if size is None:
                return b"", ""
            if int(size[1]) > self.most_bytes:
                told = f"It has {int(size[1]) // 1024} kB, and at most {self.most_bytes // 1024} kB are taken."
                return b"", told
            _, parts = session.uid("FETCH", str(uid), "(BODY.PEEK[])")
            return next((bytes(one[1]) for one in parts if isinstance(one, tuple)), b""), ""


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _heard(body: bytes, problem: str, checked_by: str, state: JSON) -> Heard:
    events: list[Inbound] = []
    if body:
        try:
            events = list(receiving.read(body, checked_by).events)
        except Exception as error:  # strangers write letters: none may stop the mailbox
            log.warning("a letter cannot be read: %s", type(error).__name__)
            problem = "It cannot be read."
    number = f"uid {state['validity']} {state['uid']}"
    return Heard(events, state, {number: f"A letter was not taken. {problem}"} if problem else {})


def _search(session: Session, words: str) -> list[int]:
    _, found = session.uid("SEARCH", words)
    return sorted(int(one) for line in found if line for one in line.split())


def _today() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def _number(response: tuple[str, list[Any]]) -> int:
    return int(next((one for one in response[1] if one), 0))


def _close(session: Session) -> None:
    with suppress(imaplib.IMAP4.error, OSError, ValueError):
        try:
            session.logout()
        finally:
            session.shutdown()


@contextmanager
def _later() -> Iterator[None]:
    """Errors of the session as Later; what the server says is not quoted."""
    try:
        yield
    except (imaplib.IMAP4.error, OSError, ValueError) as error:
        raise Later(f"The mail server did not answer as it should: {type(error).__name__}.") from error
