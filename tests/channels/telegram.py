"""A stand-in of Telegram, as core.telegram.org/bots/api describes it: updates, and the Bot API."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from tests.channels.standin import JSON, Call, StandIn
from tests.outbound.receiving import answer

TOKEN = "123456:telegram-token"
PEOPLE = {"ada": 11, "bob": 12, "eve": 13}


class TelegramStandIn(StandIn):
    """All talk in a group, and answer the bot."""

    name = "telegram"
    credentials = {"bot_token": TOKEN}
    place = "-100"
    pieces_of_long = 4
    identity = "@parley_bot"

    def attach(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("apps.optional.channels.telegram.platform.Telegram.api", self.url)

    def new_id(self) -> str:
        return str(5_000 + self.number())

    def person(self, name: str) -> str:
        return str(PEOPLE[name])

    def refused(self, status: str, seconds: str) -> bytes:
        said = {"ok": False, "error_code": 429, "description": "Too Many Requests"}
        return answer(json.dumps({**said, "parameters": {"retry_after": int(seconds)}}).encode(), status)

    def posts(self, call: Call) -> bool:
        return call.path.endswith("/sendMessage")

    def answer(self, call: Call) -> JSON | bytes:
        if call.path == f"/file/bot{TOKEN}/documents/1":
            return b"content of the file"
        if not call.path.startswith(f"/bot{TOKEN}/"):
            return {"ok": False, "error_code": 401, "description": "Unauthorized"}
        method = call.path.rpartition("/")[2]
        if method == "sendDocument":
            boundary = call.headers["content-type"].partition("boundary=")[2].encode()
            file = next(one for one in call.body.split(b"--" + boundary) if b'filename="' in one)
            name = re.search(rb'filename="([^"]*)"', file)[1].decode()
            return self._ok({"message_id": int(self.post("", name, file=file.partition(b"\r\n\r\n")[2][:-2]))})
        data = call.data
        match method:
            case "getMe":
                return self._ok({"username": "parley_bot"})
            case "setWebhook":
                self.secret = data["secret_token"]
                return self._ok(True)
            case "getFile":
                return self._ok({"file_path": "documents/1"})
            case "answerCallbackQuery":
                return self._ok(True)
            case "sendMessage":
                return self._ok({"message_id": int(self.post("", self._text(data), self._buttons(data)))})
            case "editMessageText":
                self.change(str(data["message_id"]), self._text(data), self._buttons(data))
                return self._ok({"message_id": data["message_id"]})
        return {"ok": False, "error_code": 404, "description": "Not Found"}

    def _ok(self, result: Any) -> JSON:
        return {"ok": True, "result": result}

    def _text(self, data: JSON) -> str:
        assert len(data["text"]) <= 4_096
        assert data["parse_mode"] == "HTML"
        return data["text"]

    def _buttons(self, data: JSON) -> list[tuple[str, str]]:
        rows = data["reply_markup"]["inline_keyboard"]
        assert all(len(one["callback_data"].encode()) <= 64 for row in rows for one in row)
        return [(one["text"], one["callback_data"]) for row in rows for one in row]

    # Updates

    def update(self, **what: Any) -> tuple[dict[str, str], bytes]:
        secret = hashlib.sha256(f"parley {self.channel} {TOKEN}".encode()).hexdigest()
        body = json.dumps({"update_id": self.number(), **what}).encode()
        return {"X-Telegram-Bot-Api-Secret-Token": secret}, body

    def _message(self, person: str, key: str, place: str = "") -> JSON:
        number = int(key.replace(".", "")) if key else self.number()
        at = {"id": -200 if place else int(self.place), "type": "supergroup"}
        return {"message_id": number, "from": {"id": PEOPLE[person], "first_name": person}, "chat": at}

    def message(self, person: str, text: str, *, thread: str = "", key: str = "", file: bool = False, place: str = ""):
        said = {**self._message(person, key, place), "reply_to_message": {"from": {"is_bot": True}}}
        if file:
            name = {"file_id": "f1", "file_name": "notes.txt", "mime_type": "text/plain", "file_size": 19}
            return self.update(message={**said, "caption": text, "document": name})
        return self.update(message={**said, "text": text})

    def thread_of(self, key: str) -> str:
        return ""

    def edit(self, person: str, key: str, text: str, thread: str = ""):
        return self.update(edited_message={**self._message(person, key), "text": text})

    def press(self, person: str, label: str):
        shown, value = self.button(label)
        message = {"message_id": int(shown.id), "chat": {"id": int(self.place), "type": "supergroup"}}
        who = {"id": PEOPLE[person], "first_name": person}
        return self.update(callback_query={"id": str(self.number()), "from": who, "message": message, "data": value})

    def react(self, person: str, key: str, is_up: bool):
        about = {"chat": {"id": int(self.place)}, "message_id": int(key), "user": {"id": PEOPLE[person]}}
        new = [{"type": "emoji", "emoji": "👍" if is_up else "👎"}]
        return self.update(message_reaction={**about, "old_reaction": [], "new_reaction": new})

    def unsigned(self, request):
        headers, body = request
        return {**headers, "X-Telegram-Bot-Api-Secret-Token": "another"}, body
