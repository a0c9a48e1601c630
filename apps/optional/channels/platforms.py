"""What a platform is: the one thing that its folder declares. The core knows no platform by name.

A platform translates. What comes in it checks and makes `Inbound`; what goes out it gets as an `Outgoing`. It has no
tables, no jobs and no retries: it raises `Later` or `Refused`, and the core does the rest.
"""

from __future__ import annotations

import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse

from parley.outbound import Exchange, Forbidden, OutboundError
from parley.registry import added

if TYPE_CHECKING:
    from apps.optional.channels.models import ChatChannel

JSON = dict[str, Any]
Kind = Literal["message", "edit", "press", "reaction"]
SHOWN = 200  # characters of what a platform answers
MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


class Later(Exception):
    """The platform cannot take it now. `seconds`: when it wants to be asked again, if it says so."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Refused(Exception):
    """The platform does not take it, and would not take it later. The text says why."""


@dataclass(frozen=True, slots=True)
class File:
    """A file at the platform. `where` is what its `download` needs."""

    name: str
    where: str
    media_type: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Inbound:
    """What somebody did at the platform.

    Attributes:
        event_id: the same when the platform delivers it again.
        person: the platform's id of who did it. `name` is what they are called there.
        place: where to answer; only the platform reads it.
        server: of the platform, that has the place; "" if the platform has one. What it told last counts.
        thread: the talk within the place. A thread is a session.
        message: the platform's id of the message that was sent or edited; of a button or a reaction, the one it is at.
        press: the value of a button.
        rating: 5 for a thumb up, 1 for a thumb down.
        is_addressed: whether the person talks to the agent even where no talk has begun.
        begins_anew: whether the thread gets a new session.
    """

    kind: Kind
    event_id: str
    person: str
    name: str
    place: str
    thread: str
    message: str
    text: str = ""
    files: Sequence[File] = ()
    press: str = ""
    rating: int = 0
    is_addressed: bool = True
    begins_anew: bool = False
    server: str = ""

    def to_json(self) -> JSON:
        return {**asdict(self), "files": [asdict(one) for one in self.files]}

    @classmethod
    def stored(cls, body: JSON) -> Inbound:
        return cls(**{**body, "files": tuple(File(**one) for one in body["files"])})


@dataclass(frozen=True, slots=True)
class Received:
    """A request's meaning: what people did, and what the platform wants to be answered at once."""

    events: Sequence[Inbound] = ()
    answer: HttpResponse = field(default_factory=lambda: HttpResponse(status=200))


@dataclass(frozen=True, slots=True)
class Heard:
    """What `Platform.listen` read. It and the state are stored together, so that nothing is lost or done twice.

    Attributes:
        state: from where to go on after these events.
        refused: why something is not taken, by its event id. Operators see it.
    """

    events: Sequence[Inbound] = ()
    state: JSON = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Button:
    """`word`: what a reply must say to press it where there are no buttons; "": its label or its number."""

    label: str
    value: str
    look: Literal["", "primary", "danger"] = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message. `text` is Markdown that fits (see `Platform.fits`). `key` is the same if it is posted again."""

    text: str
    key: str
    buttons: Sequence[Button] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class At:
    """Where something is posted. What `place` and `thread` mean, only the platform knows. `server`: see `Inbound`."""

    channel: ChatChannel
    place: str
    thread: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a person copies from the platform. Its name is a key of `ChatChannel.credentials`.

    `gets`: the name of the secret that is sent to this address. Without a new one, another address gets none.
    """

    name: str
    label: str
    help_text: str
    is_secret: bool = True
    is_needed: bool = True
    gets: str = ""


class Platform(ABC):
    """Each platform's folder has a subclass.

    Attributes:
        name: in rows and addresses.
        settings: what its channels need.
        setup: what to do at the platform, step by step; `{address}` is the channel's.
        longest: characters of a message, in the platform's form.
        most_bytes: of a request's body.
        edit_seconds: the wait between edits of one message while an agent writes; None: it cannot edit messages.
        has_buttons: otherwise a reply names what it chooses.
        listen_seconds: the wait after `listen` has read all; None: it reads a connection, and goes on when that ends.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    settings: ClassVar[Sequence[Setting]]
    setup: ClassVar[Sequence[str]]
    longest: ClassVar[int]
    most_bytes: ClassVar[int] = 1024 * 1024
    edit_seconds: ClassVar[float | None] = None
    has_buttons: ClassVar[bool] = True
    listen_seconds: ClassVar[float | None] = None

    @abstractmethod
    def may_be_genuine(self, channel: ChatChannel, headers: Mapping[str, str]) -> bool:
        """Before the body is received: is there a signature, or the right token?"""

    @abstractmethod
    async def is_genuine(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        """Did the platform send this request? `headers` find names in any case; `now` is in seconds since 1970.

        Raises a Refusal if nobody can know now; the platform sends it again then.
        """

    @abstractmethod
    def read(self, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
        """The meaning of a genuine request. Raises ValueError for what cannot be read."""

    @abstractmethod
    def render(self, text: str) -> str:
        """Markdown in the platform's form."""

    def fits(self, text: str) -> bool:
        return len(self.render(text)) <= self.longest

    @abstractmethod
    async def post(self, client: Exchange, at: At, message: Outgoing) -> str:
        """Post a message; returns its id there. Raises Later, Refused."""

    async def edit(self, client: Exchange, at: At, posted: str, message: Outgoing) -> None:
        """Give a posted message this text and these buttons. Raises Later, Refused."""
        raise Refused(f"{self.label} cannot change messages.")

    async def upload(self, client: Exchange, at: At, name: str, media_type: str, content: bytes) -> str:
        """Post a file; returns the id of its message, or "". Raises Later, Refused; then people get a link."""
        raise Refused(f"{self.label} takes no files.")

    async def download(self, client: Exchange, channel: ChatChannel, file: File) -> bytes:
        """The content of a file that somebody sent. Raises Later, Refused."""
        raise Refused(f"{self.label} gives no files.")

    async def open_thread(self, client: Exchange, channel: ChatChannel, event: Inbound) -> Inbound:
        """A message with which a talk begins, in the thread where the agent answers it.

        A platform whose threads must be made makes one here; a second call finds it. Raises Later, Refused.
        """
        return event

    async def show_typing(self, client: Exchange, at: At) -> None:  # noqa: B027
        """Show people that an answer is on its way. Raises Later, Refused; nobody minds."""

    def listens(self, channel: ChatChannel) -> bool:
        """Whether a worker reads by `listen` what people do, because the platform does not post it."""
        return False

    def listen(self, client: Exchange, channel: ChatChannel, state: JSON) -> AsyncGenerator[Heard]:
        """What people did since `state`, that of what was heard last; {} at first. Raises Later, Refused."""
        raise NotImplementedError

    async def acknowledge(self, client: Exchange, channel: ChatChannel, event: Inbound) -> None:  # noqa: B027
        """Tell the platform that a button was pressed, if it waits for that. Most do not."""

    @abstractmethod
    async def connect(self, client: Exchange, channel: ChatChannel, address: str) -> str:
        """Check the credentials, and tell the platform the address if it has a call for that.

        Returns who the agent is there. Raises Later, Refused.
        """


def platforms() -> dict[str, Platform]:
    """By name. Raises ImproperlyConfigured if two have one name."""
    found: tuple[type[Platform], ...] = added["chat_platforms"]
    by_name = {one.name: one() for one in found}
    if len(by_name) < len(found):
        names = ", ".join(one.name for one in found)
        raise ImproperlyConfigured(f"Two platforms of chat channels have one name, of {names}.")
    return by_name


async def call(
    client: Exchange, method: str, url: str, *, headers: Mapping[str, str] = {}, data: JSON | None = None,
    content: bytes = b"", what: str = "The platform", takes: Sequence[int] = (),
) -> tuple[int, bytes, dict[str, str]]:  # fmt: skip
    """Status, body and headers, by lower-case names. Raises Later, Refused: no status is left to check but 2xx and 4xx.

    429 is `Later` with the seconds of `Retry-After`. `takes`: statuses that the caller understands itself.
    """
    if data is not None:
        content = json.dumps(data, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json; charset=utf-8", **headers}
    try:
        async with client.send(method, url, {"User-Agent": "Parley", **headers}, content) as answer:
            named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            said = await answer.read()
    except Forbidden as forbidden:
        raise Refused(str(forbidden)) from None
    except OutboundError as error:
        raise Later(str(error)) from None
    if answer.status in LATER and answer.status not in takes:
        raise Later(f"{what} answered {answer.status}.", seconds_of(named.get("retry-after", "")))
    return answer.status, said, named


def multipart(fields: Mapping[str, str], field: str, name: str, content: bytes, media_type: str) -> tuple[bytes, str]:
    """A form with a file (RFC 7578), and its boundary."""
    boundary = secrets.token_hex(16)
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    safe = re.sub(r'["\r\n]', "'", name)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{safe}"\r\n'
    kind = media_type if MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
    ends = f"Content-Type: {kind}\r\n\r\n".encode(), f"\r\n--{boundary}--\r\n".encode()
    return b"".join([*parts, head.encode(), ends[0], content, ends[1]]), boundary


def seconds_of(text: object) -> float | None:
    """A wait in seconds, if it is a sensible one."""
    try:
        seconds = float(str(text))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= 3600 else None


def parsed(body: bytes) -> JSON:
    """An object; an empty one for everything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
