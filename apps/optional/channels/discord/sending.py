"""Calls of Discord's HTTP API: https://docs.discord.com/developers/reference

The bot token is in a header, and no error quotes a request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from apps.optional.channels.discord.marking import MARKS
from apps.optional.channels.markdown import convert
from apps.optional.channels.platforms import At, Button, Outgoing, Refused, call, multipart, parsed
from parley.outbound import Exchange

JSON = dict[str, Any]
API = "https://discord.com/api/v10"
LOOKS = {"primary": 1, "": 2, "danger": 4}
BUTTON, ROW, SELECT = 2, 1, 3  # types of components
BUTTONS_A_ROW, MOST_BUTTONS = 5, 10  # more options are in a menu
MOST_OPTIONS = 25
LONGEST_LABEL = 80
MOST_BYTES = 10 * 1024 * 1024  # of a file, without a boosted server
HAS_THREAD = 160004  # error: a thread was already begun at this message
NOT_YET = (10008, 10015)  # errors: an unknown message or webhook, of a command that was not answered yet
THREADS = (10, 11, 12)  # types of channels
WITH_THREADS = (0, 5)


class NotDone(Refused):
    """Discord's error, with its `code`: https://docs.discord.com/developers/topics/opcodes-and-status-codes#json"""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


async def ask(
    client: Exchange, api: str, token: str, method: str, path: str, data: Any = None, *, form: bytes = b"",
    boundary: str = "",
) -> Any:  # fmt: skip
    """What a call answers. Raises Later, also with the seconds of `Retry-After`; NotDone."""
    headers, content = {"User-Agent": f"DiscordBot ({settings.PUBLIC_BASE_URL}, 1)"}, form
    if token:
        headers["Authorization"] = f"Bot {token}"
    if form:
        headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
    elif data is not None:
        headers["Content-Type"] = "application/json"
        content = json.dumps(data).encode()
    status, body, _ = await call(client, method, f"{api}{path}", headers=headers, content=content, what="Discord")
    if status < 300:
        return json.loads(body) if body else {}
    said = parsed(body)
    reason = str(said.get("message") or f"it answered {status}")[:200]
    code = said.get("code")
    raise NotDone(f"Discord says: {reason}.", code if isinstance(code, int) else 0)


def message_of(message: Outgoing) -> JSON:
    """The fields of a message. Nobody is pinged by what an agent writes."""
    return {
        "content": convert(message.text, MARKS),
        "components": components_of(message.buttons),
        "allowed_mentions": {"parse": []},
        "flags": 1 << 2,  # no previews of links
    }


def components_of(buttons: Sequence[Button]) -> list[JSON]:
    """Buttons, or a menu for many options."""
    if len(buttons) > MOST_BUTTONS:
        options = [{"label": one.label[:100], "value": one.value} for one in buttons[:MOST_OPTIONS]]
        menu = {"type": SELECT, "custom_id": "answer", "placeholder": "Choose", "options": options}
        return [{"type": ROW, "components": [menu]}]
    shown = [
        {"type": BUTTON, "style": LOOKS[one.look], "label": one.label[:LONGEST_LABEL], "custom_id": one.value}
        for one in buttons
    ]
    rows = [shown[at : at + BUTTONS_A_ROW] for at in range(0, len(shown), BUTTONS_A_ROW)]
    return [{"type": ROW, "components": row} for row in rows]


def new_message(message: Outgoing) -> JSON:
    """With `nonce`, Discord posts one message if it is asked twice within minutes."""
    return {**message_of(message), "nonce": message.key[:25], "enforce_nonce": True}


async def upload(client: Exchange, api: str, token: str, at: At, name: str, media_type: str, content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise Refused("Discord takes no file of this size.")
    told = json.dumps({"allowed_mentions": {"parse": []}})
    form, boundary = multipart({"payload_json": told}, "files[0]", name, content, media_type)
    path = f"/channels/{at.thread}/messages"
    posted = await ask(client, api, token, "POST", path, form=form, boundary=boundary)
    return f"{at.thread}-{posted['id']}"


async def download(client: Exchange, url: str) -> bytes:
    """Addresses of attachments are signed: they need no token."""
    status, body, _ = await call(client, "GET", url, what="Discord")
    if status != 200:
        raise Refused(f"Discord answered {status}.")
    return body
