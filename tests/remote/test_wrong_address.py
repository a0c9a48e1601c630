"""Who adds an agent by a wrong address learns what is there instead."""

import asyncio
import json
from typing import Any

import pytest

from apps.remote import registration
from apps.remote.errors import BadCard
from parley import outbound
from tests.outbound.receiving import answer, server
from tests.remote.card_server import WELL_KNOWN

pytestmark = pytest.mark.usefixtures("outward")

JSON_TYPE, HTML = "Content-Type: application/json", "Content-Type: text/html; charset=utf-8"
STREAM = "Content-Type: text/event-stream"


def told(url: str) -> tuple[str, tuple[str, ...]]:
    """The refusal and its offers."""
    with pytest.raises((BadCard, outbound.OutboundError)) as refused:
        asyncio.run(registration.preview(url))
    return str(refused.value), getattr(refused.value, "offers", ())


async def told_of(pages: dict[str, tuple[str, Any]], path: str = "") -> str:
    """The refusal of a server that answers `POST /mcp` and so on with a status and a body."""

    async def reply(request: bytes, writer: asyncio.StreamWriter) -> None:
        method, place, _ = request.split(b"\r\n")[0].decode().split(" ")
        status, body = pages.get(f"{method} {place}", ("404 Not Found", b"no"))
        kind = STREAM if place == "/sse" else HTML if isinstance(body, bytes) else JSON_TYPE
        writer.write(answer(body if isinstance(body, bytes) else json.dumps(body).encode(), status, kind))

    async with server(reply) as at:
        with pytest.raises(BadCard) as refused:
            await registration.preview(at.url + path)
    return str(refused.value)


def result(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": fields}


MCP = result(protocolVersion="2025-06-18", capabilities={}, serverInfo={"name": "files", "version": "1"})
MISSING_FIELDS = {"detail": [{"loc": ["body", "threadId"], "msg": "m"}, {"loc": ["body", "runId"], "msg": "m"}]}


@pytest.mark.parametrize(
    ("path", "pages", "words"),
    [
        ("", {"GET /": ("200 OK", b"<html><title>Our\n shop</title></html>")}, ["web page", "Our shop"]),
        ("mcp", {"POST /mcp": ("200 OK", MCP)}, ["MCP server", "files"]),
        ("sse", {"GET /sse": ("200 OK", b"event: endpoint\ndata: /m\n\n")}, ["MCP server"]),
        ("run", {"POST /run": ("401 No", {})}, ["wants a credential"]),
        ("run", {"POST /run": ("422 Unprocessable", MISSING_FIELDS)}, ["AG-UI"]),
        ("v1", {"GET /v1/models": ("200 OK", {"data": [{"id": "tiny"}]})}, ["OpenAI-compatible", "tiny"]),
        ("", {"GET /agents": ("200 OK", {"agents": [{"name": "chat"}]})}, ["ACP", "chat"]),
        ("", {"POST /": ("200 OK", {"jsonrpc": "2.0", "error": {"code": -32601}})}, ["JSON-RPC"]),
    ],
)
async def test_what_is_there_instead_is_named(path, pages, words):
    sentence = await told_of(pages, path)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("at", ["", "/team"])
def test_a_card_near_by_is_offered(cards_at, at):
    cards_at.pages[at + WELL_KNOWN] = cards_at.card()
    sentence, offers = told(f"{cards_at.url}/team/agent")
    assert offers == (cards_at.url + at + WELL_KNOWN,)
    assert "Translator" in sentence
    assert asyncio.run(registration.preview(offers[0])).card["name"] == "Translator"


def test_other_schemes_and_redirects_are_offered(cards_at):
    cards_at.pages |= {"/old": (302, {"Location": "/new"}, b""), "/new" + WELL_KNOWN: cards_at.card()}
    assert told(f"{cards_at.url}/old")[1] == (f"{cards_at.url}/new{WELL_KNOWN}",)
    cards_at.pages[WELL_KNOWN] = cards_at.card()
    sentence, offers = told(cards_at.url.replace("http:", "https:"))
    assert offers == (cards_at.url + WELL_KNOWN,)
    assert "TLS" in sentence
    assert "cannot be resolved" in told("http://agents.invalid/")[0]
    assert "refuses the connection" in told("http://127.0.0.1:9/")[0]
