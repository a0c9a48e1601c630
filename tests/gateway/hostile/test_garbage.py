"""Garbage is told for what it is."""

from __future__ import annotations

import gzip

import pytest

from tests.gateway.hostile import villain as v
from tests.gateway.hostile.ordeals import MOST, OVER, STREAM, TOO_LARGE, UNREADABLE, Ordeal
from tests.gateway.hostile.villain import Answering, Call

pytestmark = pytest.mark.django_db(transaction=True)


def body(content: bytes, status: str = "200 OK", kind: str = "application/json", *headers: str) -> Answering:
    async def answering(call: Call) -> None:
        await call.body(content, status, kind, *headers)

    return answering


def event(content: bytes) -> Answering:
    async def answering(call: Call) -> None:
        await call.stream()
        await call.write(b"data: " + content + b"\n\n")

    return answering


def result(value: object) -> Answering:
    """A stream of this one result."""

    async def answering(call: Call) -> None:
        await call.events(value)  # type: ignore[arg-type]

    return answering


def raw_result(value: bytes) -> Answering:
    async def answering(call: Call) -> None:
        await call.stream()
        await call.write(b'data: {"jsonrpc": "2.0", "id": 1, "result": ' + value + b"}\n\n")

    return answering


async def endless_line(call: Call) -> None:
    await call.stream()
    await call.write(b"data: ")
    while True:
        await call.write(b"x" * 10_000)


async def endless_events(call: Call) -> None:
    await call.stream()
    await call.event({"task": v.task("SUBMITTED", call)})
    while True:
        await call.event(v.status("WORKING", call, "Still here."))


async def bomb(call: Call) -> None:
    packed = gzip.compress(b'{"jsonrpc": "2.0", "id": 1, "result": "' + b" " * 5_000_000)
    await call.body(packed, "200 OK", "application/json", "Content-Encoding: gzip")


STATUS = b'{"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}'

GARBAGE = [
    Ordeal("not JSON", {STREAM: body(b"<html>It works!</html>")}, says=UNREADABLE),
    Ordeal("a web page", {STREAM: body(b"<html>It works!</html>", "200 OK", "text/html")}, says=UNREADABLE),
    Ordeal("an event that is not JSON", {STREAM: event(b"hello")}, says=UNREADABLE),
    Ordeal("nothing of JSON-RPC", {STREAM: event(b'{"hello": 1}')}, says=UNREADABLE),
    Ordeal("a list", {STREAM: event(b"[]")}, says=UNREADABLE),
    Ordeal("a result that is a text", {STREAM: result("hello")}, says="form|read"),
    Ordeal("a result that is empty", {STREAM: result({})}, says="form|one of|nothing"),
    Ordeal(
        "two things at once", {STREAM: raw_result(b'{"message": {}, "statusUpdate": %b}' % STATUS)}, says="form|one"
    ),
    Ordeal("a task without an id", {STREAM: result({"task": {"status": {"state": "TASK_STATE_WORKING"}}})}, says="id"),
    Ordeal("NaN", {STREAM: raw_result(b'{"statusUpdate": NaN}')}, says=UNREADABLE),
    Ordeal("deeper than anybody", {STREAM: raw_result(b"[" * 5000 + b"]" * 5000)}, says=UNREADABLE),
    Ordeal(
        "a key twice",
        {STREAM: raw_result(b'{"statusUpdate": %b, "statusUpdate": %b}' % (STATUS, STATUS))},
        says=UNREADABLE,
    ),
    Ordeal("bytes that are no UTF-8", {STREAM: raw_result(b'"\xff\xfe"')}, says=UNREADABLE),
    Ordeal("a number without an end", {STREAM: raw_result(b"9" * 100_000)}, says=UNREADABLE),
    Ordeal("a line without an end", {STREAM: endless_line}, says=TOO_LARGE),
    Ordeal("events without an end", {STREAM: endless_events, "GetTask": v.works_for_ever}, says=f"{TOO_LARGE}|{OVER}"),
    Ordeal("a bomb", {STREAM: bomb}, says=TOO_LARGE),
    Ordeal("a huge body", {STREAM: body(b'{"jsonrpc": "' + b"x" * 2 * MOST)}, says=TOO_LARGE),
    Ordeal("an error of its own", {STREAM: body(b"", "500 Internal Server Error")}, says="HTTP_500|lost after"),
    Ordeal("a teapot", {STREAM: body(b"", "418 I'm a teapot")}, says="HTTP_418"),
]


async def test_garbage_is_told_for_what_it_is(undergo):
    await undergo(GARBAGE)
