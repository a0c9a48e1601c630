"""A stand-in of Slack, as docs.slack.dev describes it: Events API, interactivity, Web API."""

from __future__ import annotations

import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

from tests.channels.standin import JSON, Call, StandIn

BOT, SECRET, TOKEN = "U0BOT", "slack-signing-secret", "xoxb-test"


def signed(body: bytes, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.digest(secret.encode(), f"v0:{stamp}:".encode() + body, "sha256").hex()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


class SlackStandIn(StandIn):
    name = "slack"
    credentials = {"bot_token": TOKEN, "signing_secret": SECRET}
    place = "D1"
    pieces_of_long = 5
    identity = "parley in Acme"

    def attach(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("apps.optional.channels.slack.platform.Slack.api", f"{self.url}/api")

    # Web API

    def posts(self, call: Call) -> bool:
        return call.path == "/api/chat.postMessage"

    def answer(self, call: Call) -> JSON | bytes:
        if call.path.startswith("/files/"):
            assert call.headers["authorization"] == f"Bearer {TOKEN}"
            return b"content of the file"
        if call.path == "/upload":
            self._uploaded = call.body
            return b"OK"
        if call.headers.get("authorization") != f"Bearer {TOKEN}":
            return {"ok": False, "error": "invalid_auth"}
        data = call.data
        match call.path.removeprefix("/api/"):
            case "auth.test":
                return {"ok": True, "user": "parley", "team": "Acme"}
            case "chat.postMessage":
                assert len(data["text"]) <= 40_000
                return {"ok": True, "ts": self.post(data.get("thread_ts", ""), data["text"], self._buttons(data))}
            case "chat.update":
                self.change(data["ts"], data["text"], self._buttons(data))
                return {"ok": True, "ts": data["ts"]}
            case "files.getUploadURLExternal":
                self._named = data["filename"], int(data["length"])
                return {"ok": True, "upload_url": f"{self.url}/upload", "file_id": "F1"}
            case "files.completeUploadExternal":
                assert json.loads(data["files"])[0]["id"] == "F1"
                assert self._named[1] == len(self._uploaded)
                self.post(data["thread_ts"], self._named[0], file=self._uploaded)
                return {"ok": True}
        return {"ok": False, "error": "unknown_method"}

    def _buttons(self, data: JSON) -> list[tuple[str, str]]:
        found = []
        for block in data.get("blocks", []):
            if block["type"] == "section":
                assert len(block["text"]["text"]) <= 3_000
            for one in block.get("elements", []):
                found.append((one["text"]["text"], one["value"]))
        return found

    # Events

    def event(self, event: JSON) -> tuple[dict[str, str], bytes]:
        envelope = {
            "type": "event_callback", "event_id": f"Ev{self.number()}", "team_id": "T1",
            "authorizations": [{"user_id": BOT, "is_bot": True}], "event": event,
        }  # fmt: skip
        body = json.dumps(envelope).encode()
        return {"Content-Type": "application/json", **signed(body)}, body

    def message(self, person: str, text: str, *, thread: str = "", key: str = "", file: bool = False, place: str = ""):
        """In a direct message."""
        event = {"type": "message", "channel_type": "im", "channel": place or self.place, "user": person, "text": text}
        event |= {"ts": key or f"{self.number()}.1"} | ({"thread_ts": thread} if thread else {})
        if file:
            name = {"name": "notes.txt", "mimetype": "text/plain", "size": 19}
            event |= {"subtype": "file_share", "files": [{**name, "url_private_download": f"{self.url}/files/1"}]}
        return self.event(event)

    def thread_of(self, key: str) -> str:
        """Of a message that begins one."""
        return key

    def edit(self, person: str, key: str, text: str, thread: str = ""):
        now = {"type": "message", "user": person, "text": text, "ts": key} | ({"thread_ts": thread} if thread else {})
        before = {**now, "text": "before"}
        changed = {"type": "message", "subtype": "message_changed", "channel": self.place, "channel_type": "im"}
        return self.event({**changed, "message": now, "previous_message": before, "ts": f"{self.number()}.2"})

    def press(self, person: str, label: str):
        shown, value = self.button(label)
        payload = {
            "type": "block_actions", "user": {"id": person, "name": person}, "channel": {"id": self.place},
            "trigger_id": f"t{self.number()}", "message": {"ts": shown.id, "thread_ts": shown.thread},
            "actions": [{"action_id": "answer-0", "value": value}],
        }  # fmt: skip
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return {"Content-Type": "application/x-www-form-urlencoded", **signed(body)}, body

    def react(self, person: str, key: str, is_up: bool):
        item = {"type": "message", "channel": self.place, "ts": key}
        return self.event({"type": "reaction_added", "user": person, "reaction": "+1" if is_up else "-1", "item": item})

    def unsigned(self, request):
        headers, body = request
        return {**headers, **signed(body, secret="another")}, body
