"""A stand-in of Microsoft Teams, as learn.microsoft.com describes it: activities, tokens, keys, the Bot Connector."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import Any
from urllib.parse import unquote

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.channels.standin import JSON, Call, StandIn

APP, SECRET, TENANT, TOKEN = "app-1", "client-secret", "tenant-1", "bot-token"
BOT = f"28:{APP}"
KEY = RSAKey.generate_key(2048, {"kid": "k1"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "k1"})


def signed(service: str, key: RSAKey = KEY, kid: str = "k1", **changes: Any) -> dict[str, str]:
    now = int(time.time())
    claims = {"iss": "https://api.botframework.com", "aud": APP, "nbf": now, "exp": now + 600, "serviceurl": service}
    token = jwt.encode({"alg": "RS256", "kid": kid}, claims | changes, key)
    return {"Content-Type": "application/json; charset=utf-8", "Authorization": f"Bearer {token}"}


class TeamsStandIn(StandIn):
    """All talk in a channel, and mention the bot.

    Attributes:
        typed: how often the bot showed that it writes. `tokens`: how many it was given.
        has_no_keys: Microsoft does not tell its keys now.
    """

    name = "teams"
    credentials = {"app_id": APP, "tenant_id": TENANT, "client_secret": SECRET}
    has = frozenset({"edits", "buttons", "reactions", "groups", "busy"})
    place = "19:c@thread.tacv2"
    pieces_of_long = 2
    identity = "the bot app-1"
    endorsements = ("msteams",)

    def __init__(self) -> None:
        super().__init__()
        self.typed = self.tokens = 0
        self.has_no_keys = False

    def attach(self, monkeypatch: Any) -> None:
        monkeypatch.setattr("apps.optional.channels.teams.platform.Teams.metadata", f"{self.url}/metadata")
        monkeypatch.setattr("apps.optional.channels.teams.platform.Teams.login", self.url)

    @property
    def service(self) -> str:
        return f"{self.url}/emea/"

    # The Bot Connector

    def posts(self, call: Call) -> bool:
        return call.method == "POST" and call.path.endswith("/activities") and call.data["type"] == "message"

    def answer(self, call: Call) -> JSON | bytes | tuple[str, JSON]:
        if call.path == "/metadata":
            return {"issuer": "https://api.botframework.com", "jwks_uri": f"{self.url}/keys"}
        if call.path == "/keys" and self.has_no_keys:
            return "503 Service Unavailable", {}
        if call.path == "/keys":
            return {"keys": [{**KEY.as_dict(private=False), "endorsements": list(self.endorsements)}]}
        if call.path == "/files/1":
            assert "authorization" not in call.headers
            return b"content of the file"
        if call.path == f"/{TENANT}/oauth2/v2.0/token":
            asked = call.data
            if (asked["client_id"], asked["client_secret"]) != (APP, SECRET):
                return "401 Unauthorized", {"error": "invalid_client"}
            assert asked["scope"] == "https://api.botframework.com/.default"
            self.tokens += 1
            return {"access_token": TOKEN, "expires_in": 3600}
        if call.headers.get("authorization") != f"Bearer {TOKEN}":
            return "401 Unauthorized", {}
        if call.path == "/emea/v3/attachments/1/views/original":
            return b"content of an image"
        found = re.fullmatch(r"/(?:emea|amer)/v3/conversations/([^/]+)/activities(?:/(.+))?", call.path)
        return self._spoken(unquote(found[1]).partition(";messageid=")[2], found[2], call.data)

    def _spoken(self, thread: str, key: str | None, data: JSON) -> JSON:
        if data["type"] == "typing":
            self.typed += 1
            return {}
        buttons: list[tuple[str, str]] = []
        text, file = data.get("text", ""), None
        for one in data.get("attachments", []):
            assert not text  # Teams would make two messages of it
            if one["contentType"].startswith("image/"):
                text, file = one["name"], base64.b64decode(one["contentUrl"].partition("base64,")[2])
                continue
            assert len(json.dumps(one).encode()) < 28 * 1024
            card = one["content"]
            buttons = [(action["title"], action["data"]["parley"]) for action in card["actions"]]
            text = "\n".join(run["text"] for block in card["body"] for run in block["inlines"])
        assert len(json.dumps(data).encode("utf-16")) <= 40 * 1024
        if key:
            self.change(key, text, buttons)
            return {"id": key}
        return {"id": self.post(thread, text, buttons, file)}

    # Activities

    def activity(self, person: str, kind: str, thread: str, key: str = "", place: str = "", **more: Any):
        name = f"{place or self.place};messageid={thread or key}"
        told = {
            "type": kind, "id": key or f"{self.number()}", "channelId": "msteams", "serviceUrl": self.service,
            "from": {"id": f"29:{person}", "aadObjectId": person, "name": person.title()}, "recipient": {"id": BOT},
            "conversation": {"id": name, "conversationType": "channel"}, **more,
        }  # fmt: skip
        return signed(self.service), json.dumps(told).encode()

    def message(self, person: str, text: str, *, thread: str = "", key: str = "", file: bool = False, place: str = ""):
        key = key or f"{self.number()}"
        at = {"type": "mention", "text": "<at>Parley</at>", "mentioned": {"id": BOT, "name": "Parley"}}
        return self.activity(person, "message", thread, key, place, text=f"<at>Parley</at> {text}", entities=[at])

    def thread_of(self, key: str) -> str:
        return key

    def edit(self, person: str, key: str, text: str, thread: str = ""):
        change = {"channelData": {"eventType": "editMessage"}, "timestamp": f"{self.number()}"}
        return self.activity(person, "messageUpdate", thread, key, text=text, **change)

    def press(self, person: str, label: str):
        shown, value = self.button(label)
        return self.activity(person, "message", shown.thread, replyToId=shown.id, value={"parley": value})

    def react(self, person: str, key: str, is_up: bool):
        kind = "like" if is_up else "1f44e_thumbsdown"
        return self.activity(person, "messageReaction", key, replyToId=key, reactionsAdded=[{"type": kind}])

    def unsigned(self, request):
        headers, body = request
        return {**headers, **signed(self.service, OTHER_KEY)}, body
