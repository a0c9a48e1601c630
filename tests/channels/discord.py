"""A stand-in of Discord, as docs.discord.com describes it: interactions, the Gateway, and the HTTP API."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from apps.optional.channels.models import ChatFeed
from apps.optional.channels.receiving import FEEDS_TO_READ
from parley import db
from parley.db import sql
from tests.channels.standin import JSON, Call, StandIn
from tests.work.hand import work_off

BOT, TOKEN = "900", "discord-bot-token"
KEY, OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32), Ed25519PrivateKey.from_private_bytes(b"o" * 32)
PUBLIC = KEY.public_key().public_bytes_raw().hex()
TEXT_CHANNEL, THREAD = 0, 11
HAS_THREAD = 160004


def signed(body: bytes, at: float | None = None, key: Ed25519PrivateKey = KEY) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    return {"X-Signature-Timestamp": stamp, "X-Signature-Ed25519": key.sign(stamp.encode() + body).hex()}


class DiscordStandIn(StandIn):
    """People mention the bot by the Gateway (with a `key`), or use /ask (without).

    Attributes:
        coming: what the next connection of the Gateway is told: events, other payloads, or a code that closes it.
        beats: the numbers that heartbeats had. `interval`: between them, in milliseconds.
        is_silent: it says nothing after the events, not even to heartbeats.
        begun: how connections of the Gateway began, and how the last one ended.
        is_early: it does not show commands yet.
    """

    name = "discord"
    credentials = {"bot_token": TOKEN, "public_key": PUBLIC}
    place = "G1"
    pieces_of_long = 7
    identity = "parley"

    def __init__(self) -> None:
        super().__init__()
        self.threads, self.nonces = set[str](), dict[str, str]()
        self.coming: list[Any] = []
        self.begun: list[JSON] = []
        self.beats: list[int] = []
        self.interval, self.is_silent = 41_250, False
        self.ended: int | None = None
        self.is_early = False
        self.sequence, self.gateway, self.flags = 0, None, 1 << 19

    def attach(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("apps.optional.channels.discord.platform.Discord.api", self.url)

    # The HTTP API

    def posts(self, call: Call) -> bool:
        return call.method == "POST" and call.path.endswith("/messages")

    def answer(self, call: Call) -> JSON | bytes | tuple[str, JSON]:
        if call.path == "/files/1":
            return b"content of the file"
        if found := re.fullmatch(r"/webhooks/900/token-(\d+)/messages/@original", call.path):
            if self.is_early:
                return "404 Not Found", {"message": "Unknown Webhook", "code": 10015}
            return {"id": f"m{found[1]}"}
        if call.headers.get("authorization") != f"Bot {TOKEN}":
            return "401 Unauthorized", {"message": "401: Unauthorized", "code": 0}
        assert call.headers["user-agent"].startswith("DiscordBot (")
        if found := re.fullmatch(r"/channels/([^/]+)(/.*)?", call.path):
            return self._in_channel(call, found[1], found[2] or "")
        match call.method, call.path:
            case "GET", "/gateway/bot":
                return {"url": f"ws://127.0.0.1:{self.gateway.sockets[0].getsockname()[1]}"}
            case "GET", "/applications/@me":
                return {
                    "id": BOT,
                    "name": "Parley",
                    "verify_key": PUBLIC,
                    "flags": self.flags,
                    "bot": {"username": "parley"},
                }
            case "PUT", "/applications/900/commands":
                self.commands = [one["name"] for one in call.data]
                return []
            case "PATCH", "/applications/@me":
                return {}
        return "404 Not Found", {"message": "404: Not Found", "code": 0}

    def _in_channel(self, call: Call, channel: str, rest: str) -> JSON | tuple[str, JSON]:
        if not rest:
            return {"id": channel, "type": TEXT_CHANNEL if channel.startswith("C") else THREAD}
        if rest == "/typing":
            return {}
        if found := re.fullmatch(r"/messages/([^/]+)/threads", rest):
            if found[1] in self.threads:
                return "400 Bad Request", {"message": "A thread has already been created", "code": HAS_THREAD}
            assert 0 < len(call.data["name"]) <= 100
            self.threads.add(found[1])
            return {"id": found[1], "type": THREAD}
        if channel not in self.threads and not channel.startswith("C"):
            return "404 Not Found", {"message": "Unknown Channel", "code": 10003}
        if call.method == "PATCH":
            self.change(f"{channel}-{rest.rpartition('/')[2]}", self._text(call.data), self._buttons(call.data))
            return {"id": rest.rpartition("/")[2]}
        return {"id": self._posted(call, channel).partition("-")[2]}

    def _posted(self, call: Call, channel: str) -> str:
        if "multipart" in call.headers["content-type"]:
            boundary = call.headers["content-type"].partition("boundary=")[2].encode()
            file = next(one for one in call.body.split(b"--" + boundary) if b'filename="' in one)
            name = re.search(rb'filename="([^"]*)"', file)[1].decode()
            return self.post(channel, name, file=file.partition(b"\r\n\r\n")[2][:-2])
        data = call.data
        assert len(data["nonce"]) <= 25
        assert data["enforce_nonce"]
        if data["nonce"] not in self.nonces:
            self.nonces[data["nonce"]] = self.post(channel, self._text(data), self._buttons(data))
        return self.nonces[data["nonce"]]

    def post(self, thread: str, *shown: Any, **more: Any) -> str:
        super().post(thread, *shown, **more)
        self.shown[-1].id = f"{thread}-{self.shown[-1].id}"
        return self.shown[-1].id

    def _text(self, data: JSON) -> str:
        assert 0 < len(data["content"]) <= 2_000
        assert data["allowed_mentions"] == {"parse": []}
        return data["content"]

    def _buttons(self, data: JSON) -> list[tuple[str, str]]:
        assert len(data["components"]) <= 5
        return [(one["label"], one["custom_id"]) for row in data["components"] for one in row["components"]]

    # Interactions

    def interaction(self, person: str, kind: int, data: JSON, channel: str, place: str = "", **more: Any):
        told = {
            "id": f"i{self.number()}", "application_id": BOT, "type": kind, "token": f"token-{self.number()}",
            "channel_id": channel, "guild_id": place or self.place, "member": {"user": {"id": person}}, "data": data,
        }  # fmt: skip
        body = json.dumps({**told, **more}).encode()
        return signed(body), body

    def message(self, person: str, text: str, *, thread: str = "", key: str = "", file: bool = False, place: str = ""):
        if key:
            content = f"<@{BOT}> {text}"
            said = self._said(person, content, thread or "C1", key, place) | {"mentions": [{"id": BOT}]}
            return self.event("MESSAGE_CREATE", said)
        options, resolved = [{"name": "text", "type": 3, "value": text}], {}
        if file:
            options.append({"name": "file", "type": 11, "value": "a1"})
            name = {"filename": "notes.txt", "content_type": "text/plain; charset=utf-8", "size": 19}
            resolved = {"attachments": {"a1": {**name, "url": f"{self.url}/files/1"}}}
        data = {"name": "ask", "type": 1, "options": options, "resolved": resolved}
        return self.interaction(person, 2, data, thread or "C1", place)

    def press(self, person: str, label: str):
        shown, value = self.button(label)
        channel, _, key = shown.id.partition("-")
        data = {"component_type": 2, "custom_id": value}
        return self.interaction(person, 3, data, channel, message={"id": key})

    def unsigned(self, request):
        headers, body = request
        return {**headers, **signed(body, key=OTHER_KEY)}, body

    # The Gateway

    def _said(self, person: str, text: str, channel: str, key: str, place: str = "") -> JSON:
        author = {"id": person, "username": person}
        about = {"id": key, "channel_id": channel, "guild_id": place or self.place, "type": 0}
        return {**about, "author": author, "content": text, "attachments": [], "mentions": []}

    def event(self, kind: str, data: JSON) -> tuple[dict[str, str], bytes]:
        return {"Gateway": kind}, json.dumps(data).encode()

    def thread_of(self, key: str) -> str:
        return key

    def edit(self, person: str, key: str, text: str, thread: str = ""):
        said = self._said(person, text, "C1", key)
        return self.event("MESSAGE_UPDATE", {**said, "flags": 1 << 5, "edited_timestamp": f"T{self.number()}"})

    def react(self, person: str, key: str, is_up: bool):
        channel, _, message = key.partition("-")
        about = {"user_id": person, "channel_id": channel, "message_id": message, "guild_id": self.place}
        return self.event("MESSAGE_REACTION_ADD", {**about, "emoji": {"id": None, "name": "👍🏽" if is_up else "👎"}})

    async def deliver(self, channel: Any, request: tuple[dict[str, str], bytes]) -> int:
        headers, body = request
        if "Gateway" not in headers:
            return await super().deliver(channel, request)
        self.coming = [(headers["Gateway"], json.loads(body))]
        await self.be_heard()
        return 200

    async def be_heard(self) -> None:
        """Have a worker read the Gateway until it is closed."""
        self.gateway = self.gateway or await serve(self._take, "127.0.0.1", 0)
        await ChatFeed.objects.aupdate(next_try_at=await db.run(sql.database_time), lease_until=None)
        await work_off(FEEDS_TO_READ)

    async def _take(self, connection: Any) -> None:
        assert "v=10&encoding=json" in connection.request.path
        await connection.send(json.dumps({"op": 10, "d": {"heartbeat_interval": self.interval}}))
        begun = json.loads(await connection.recv())
        self.begun.append(begun)
        assert begun["d"]["token"] == TOKEN
        if begun["op"] == 2:
            self.sequence = 0
            url = f"ws://127.0.0.1:{self.gateway.sockets[0].getsockname()[1]}"
            ready = {"session_id": f"s{self.number()}", "resume_gateway_url": url, "user": {"id": BOT}}
            await self._dispatch(connection, "READY", ready)
        else:
            await self._dispatch(connection, "RESUMED", {})
        coming, self.coming = self.coming, []
        for one in coming:
            if isinstance(one, int):
                await connection.close(one)
                return
            if isinstance(one, tuple):
                await self._dispatch(connection, *one)
            else:
                await connection.send(json.dumps(one))
        if not self.is_silent:
            await connection.send(json.dumps({"op": 7, "d": None}))
        with suppress(ConnectionClosed):
            while True:
                self.beats.append(json.loads(await connection.recv())["d"])
        self.ended = connection.close_code

    async def _dispatch(self, connection: Any, kind: str, data: JSON) -> None:
        self.sequence += 1
        await connection.send(json.dumps({"op": 0, "s": self.sequence, "t": kind, "d": data}))

    async def close(self) -> None:
        if self.gateway is not None:
            self.gateway.close()
            await self.gateway.wait_closed()
