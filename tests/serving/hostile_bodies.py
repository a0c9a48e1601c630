"""Bodies and heads of requests that cost much to read, as a table, and what of a request each door reads freely."""

import gzip
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field

MEGABYTE = 1024 * 1024
JSON, FORM, BINARY = "application/json", "application/x-www-form-urlencoded", "application/octet-stream"
MULTIPART = "multipart/form-data; boundary=b"


@dataclass(frozen=True)
class Hostile:
    """A body of about `size` bytes, which `make` gives; more headers."""

    name: str
    media_type: str
    make: Callable[[int], bytes]
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.name


def _repeat(piece: bytes, before: bytes = b"[", after: bytes = b"]") -> Callable[[int], bytes]:
    return lambda size: before + b",".join([piece] * (size // (len(piece) + 1))) + after


def _numbered(piece: str, between: str, before: str = "", after: str = "") -> Callable[[int], bytes]:
    """`piece` has a place for a number, so that no two are equal."""

    def make(size: int) -> bytes:
        count = size // (len(piece.format(0)) + len(between) + 5)
        return (before + between.join(piece.format(one) for one in range(count)) + after).encode()

    return make


def _whole(piece: bytes, before: bytes = b'"', after: bytes = b'"') -> Callable[[int], bytes]:
    return lambda size: before + piece * (size // len(piece)) + after


def _parts(head: str, most: int) -> Callable[[int], bytes]:
    """Of multipart/form-data, each with a name of its own."""

    def make(size: int) -> bytes:
        piece = "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\nx\r\n"
        count = min(most, size // len(piece))
        return "".join(piece.format(one) for one in range(count)).encode() + b"--b--\r\n"

    return make


def _archive(size: int) -> bytes:
    """A ZIP file that unpacks to a hundred times its size and more."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" * min(size * 100, 50 * MEGABYTE))
    return packed.getvalue()


DEEPEST = 60
"""Levels that a value may have, with those that a door puts around it."""
VALUES = [
    Hostile("nested lists", JSON, lambda size: b"[" * (size // 2) + b"]" * (size // 2)),
    Hostile("nested objects", JSON, lambda size: b'{"a":' * (size // 6) + b"0" + b"}" * (size // 6)),
    Hostile("many nested lists", JSON, _repeat(b"[" * DEEPEST + b"]" * DEEPEST)),
    Hostile("tiny numbers", JSON, _repeat(b"0")),
    Hostile("tiny lists", JSON, _repeat(b"[]")),
    Hostile("tiny objects", JSON, _repeat(b'{"a":0}')),
    Hostile("tiny texts", JSON, _repeat(b'"\\n"')),
    Hostile("many keys", JSON, _numbered('"{0}":0', ",", "{", "}")),
    Hostile("same key", JSON, _repeat(b'"a":0', b"{", b"}")),
    Hostile("long keys", JSON, lambda size: _numbered('"' + "k" * 65536 + '{0}":0', ",", "{", "}")(size)),
    Hostile("exponents", JSON, _repeat(b"1e400")),
    Hostile("small exponents", JSON, _repeat(b"1e-400")),
    Hostile("long numbers", JSON, _repeat(b"9" * 10_000)),
    Hostile("long fractions", JSON, _repeat(b"0." + b"9" * 390)),
    Hostile("escaped nulls", JSON, _whole(b"\\u0000")),
    Hostile("half surrogates", JSON, _whole(b"\\ud800")),
    Hostile("escaped letters", JSON, _whole(b"\\u00e9")),
    Hostile("long text", JSON, _whole(b"x")),
    Hostile("long line of brackets", JSON, _whole(b"[](")),
]
"""JSON values: whole bodies, and what a door takes freely within one."""
FORMS = [
    Hostile("many fields", FORM, _numbered("f{0}=", "&")),
    Hostile("same field", FORM, lambda size: b"a=&" * (size // 3)),
    Hostile("escaped field", FORM, _whole(b"%00", b"text=", b"")),
    Hostile("many parts", MULTIPART, _parts('name="f{0}"', 10_000)),
    Hostile("many files", MULTIPART, _parts('name="f{0}"; filename="a"', 10_000)),
    Hostile("endless part head", MULTIPART, lambda size: b"--b\r\nContent-Disposition: form-data; a=" + b"x" * size),
    Hostile("boundaries", MULTIPART, lambda size: b"--b\r\n" * (size // 5)),
]
OTHERS = [
    Hostile("packed zeros", JSON, lambda size: gzip.compress(bytes(size * 50)), (("Content-Encoding", "gzip"),)),
    Hostile("packed archive", "application/zip", lambda size: _archive(size)),
    Hostile("zeros", BINARY, lambda size: bytes(size)),
    Hostile("many headers", JSON, lambda _: b"{}", tuple((f"X-{one}", "x" * 50) for one in range(90))),
    Hostile("many cookies", JSON, lambda _: b"{}", (("Cookie", ";".join(f"c{one}=" for one in range(1500))),)),
    Hostile("many languages", JSON, lambda _: b"{}", (("Accept-Language", ",".join(["en;q=0.1"] * 1500)),)),
    Hostile("many types", JSON, lambda _: b"{}", (("Accept", ",".join(["a/b;q=0.1"] * 1500)),)),
    Hostile("long credentials", JSON, lambda _: b"{}", (("Authorization", "Bearer try_" + "x" * 16_000),)),
]
BODIES = [*VALUES, *FORMS, *OTHERS]
SAID = b'{"messageId":"@","role":"ROLE_USER","parts":[{"data":%s}]}'
OLD_SAID = b'{"kind":"message","messageId":"@","role":"user","parts":[{"kind":"data","data":{"a":%s}}]}'


@dataclass(frozen=True)
class Within:
    """Where an address takes any JSON: `template` has a place for it, and `@` for an id."""

    pattern: str
    template: bytes
    headers: dict[str, str] = field(default_factory=dict, hash=False)


WITHIN = [
    Within(
        "a2a/echo",
        b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"configuration":{"returnImmediately":true},"message":'
        + SAID
        + b"}}",
        {"A2A-Version": "1.0"},
    ),
    Within("a2a/echo/v1/message:send", b'{"message":' + OLD_SAID + b"}", {"A2A-Version": "0.3"}),
    Within("a2a/echo/message:send", b'{"message":' + SAID + b"}", {"A2A-Version": "1.0"}),
    Within(
        "mcp",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"inputs":{"a":%s}}}}',
        {"MCP-Protocol-Version": "2025-11-25"},
    ),
    Within(
        "agui/.*",
        b'{"threadId":"@","runId":"@","messages":[{"id":"m","role":"user","content":"a"}],"tools":[],"context":[],'
        b'"forwardedProps":{},"state":%s}',
    ),
    Within(
        "langgraph/(threads/.*/)?runs(/stream|/wait)?",
        b'{"assistant_id":"echo","input":{"messages":"a"},"context":%s}',
    ),
    Within("v1/chat/completions", b'{"model":"echo","messages":[{"role":"user","content":"a"}],"metadata":{"a":%s}}'),
    Within("v1/responses", b'{"model":"echo","input":"a","background":true,"metadata":{"a":%s}}'),
    Within("api/v1/plans(/check)?", b'{"definition":%s}'),
    Within("api/v1/plans/runs", b'{"plan":"trip","text":"a","inputs":{"a":%s}}'),
    Within("api/v1/sessions", b'{"agent":"echo","message":{"text":"a","metadata":{"a":%s}}}'),
    Within("api/v1/.*/messages", b'{"parts":[{"data":%s}]}'),
    Within("api/v1/tasks/.*/answer", b'{"data":%s}'),
    Within("api/v1/webhooks/preview", b'{"agent":"echo","text":"a","body":%s}'),
]


def within(path: str) -> Within | None:
    """Where the address takes any JSON, if it does. `path` has no slash at its beginning."""
    return next((one for one in WITHIN if re.fullmatch(one.pattern, path)), None)
