"""Calls of Telegram's Bot API. The token is in the address, so no error shows one."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from apps.optional.channels.markdown import convert
from apps.optional.channels.platforms import At, Later, Outgoing, Refused, call, multipart, parsed, seconds_of
from apps.optional.channels.telegram.marking import MARKS
from parley.outbound import Exchange

JSON = dict[str, Any]
API = "https://api.telegram.org"
NOT_CHANGED = "message is not modified"
MOST_BYTES = 50 * 1024 * 1024  # of a file that a bot sends


async def ask(client: Exchange, api: str, token: str, method: str, **fields: Any) -> Any:
    """What a method answers. Raises Later, Refused with Telegram's description."""
    address = f"{api}/bot{quote(token, safe=':')}/{method}"
    return _result(await _body_of(client, address, data=fields))


async def ask_with_file(
    client: Exchange, api: str, token: str, method: str, name: str, content: bytes, **fields: Any
) -> Any:
    """As `ask`, with the file as `document`."""
    form, boundary = multipart(fields, "document", name, content, "")
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    address = f"{api}/bot{quote(token, safe=':')}/{method}"
    return _result(await _body_of(client, address, headers=headers, content=form))


async def _body_of(client: Exchange, address: str, **request: Any) -> JSON:
    """429 says in its body when to ask again: https://core.telegram.org/bots/api#responseparameters"""
    _, body, _ = await call(client, "POST", address, what="Telegram", takes=(429,), **request)
    return parsed(body)


def _result(answer: JSON) -> Any:
    if answer.get("ok") is True:
        return answer.get("result")
    said = str(answer.get("description", "no answer that can be read"))[:200]
    if answer.get("error_code") == 429:
        raise Later(f"Telegram says {said}.", seconds_of((answer.get("parameters") or {}).get("retry_after", "")))
    raise Refused(f"Telegram says {said}.")


def place_of(at: At) -> JSON:
    return {"chat_id": at.place, **({"message_thread_id": int(at.thread)} if at.thread else {})}


def message_of(message: Outgoing) -> JSON:
    """The fields of `sendMessage` and `editMessageText`: a row for each button."""
    rows = [[{"text": one.label, "callback_data": one.value}] for one in message.buttons]
    return {
        "text": convert(message.text, MARKS),
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {"inline_keyboard": rows},
    }


async def edit(client: Exchange, api: str, token: str, at: At, posted: str, message: Outgoing) -> None:
    about = {"chat_id": at.place, "message_id": int(posted)}
    try:
        await ask(client, api, token, "editMessageText", **about, **message_of(message))
    except Refused as refused:
        if NOT_CHANGED not in str(refused):
            raise


async def upload(client: Exchange, api: str, token: str, at: At, name: str, content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise Refused("Telegram takes no file of this size.")
    fields = {key: value if isinstance(value, str) else json.dumps(value) for key, value in place_of(at).items()}
    sent = await ask_with_file(client, api, token, "sendDocument", name, content, **fields)
    return str(sent["message_id"])


async def download(client: Exchange, api: str, token: str, file_id: str) -> bytes:
    found = await ask(client, api, token, "getFile", file_id=file_id)
    address = f"{api}/file/bot{quote(token, safe=':')}/{quote(str(found['file_path']))}"
    status, body, _ = await call(client, "GET", address, what="Telegram")
    if status != 200:
        raise Refused(f"Telegram answered {status}.")
    return body
