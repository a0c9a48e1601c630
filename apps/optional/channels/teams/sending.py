"""Calls of the Bot Connector, with a token of the bot (OAuth 2.0, client credentials).

https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference
"""

from __future__ import annotations

import base64
import hashlib
import time
from typing import Any
from urllib.parse import quote, urlencode

from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import At, Later, Outgoing, Refused, call, parsed
from apps.optional.channels.teams.marking import html_of, lines_of
from apps.optional.channels.teams.receiving import ANSWER, BY_BOT, OF_THREAD
from parley.outbound import Exchange

JSON = dict[str, Any]
LOGIN = "https://login.microsoftonline.com"
ANY_TENANT = "botframework.com"
SCOPE = "https://api.botframework.com/.default"
CARD = "application/vnd.microsoft.card.adaptive"
STYLES = {"primary": "positive", "danger": "destructive"}
IMAGES = ("image/png", "image/jpeg", "image/gif")
MOST_IMAGE_BYTES = 1024 * 1024
EARLY_SECONDS = 300.0  # that a token is given up before its end
MOST_TOKENS = 1_000
AGAIN = 412  # a status: another call was at it

_tokens: dict[str, tuple[str, float]] = {}
"""This process's, by a digest of what they were given for, and until when they are used."""


async def token_of(client: Exchange, login: str, channel: ChatChannel) -> str:
    """Raises Later, Refused."""
    given = channel.credentials
    app, tenant = given.get("app_id", ""), given.get("tenant_id") or ANY_TENANT
    key = _key(login, channel)
    token, until = _tokens.get(key, ("", 0.0))
    if time.monotonic() < until:
        return token
    form = {"grant_type": "client_credentials", "client_id": app, "scope": SCOPE}
    content = urlencode({**form, "client_secret": given.get("client_secret", "")}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    url = f"{login}/{quote(tenant, safe='')}/oauth2/v2.0/token"
    status, body, _ = await call(client, "POST", url, headers=headers, content=content, what="Microsoft")
    told = parsed(body)
    if status != 200 or not told.get("access_token"):
        code = str(told.get("error", f"status {status}"))[:100]
        raise Refused(f"Microsoft gives no token for these credentials: {code}.")
    if len(_tokens) >= MOST_TOKENS:
        _tokens.clear()
    seconds = max(float(told.get("expires_in") or 0) - EARLY_SECONDS, 0.0)
    _tokens[key] = str(told["access_token"]), time.monotonic() + seconds
    return _tokens[key][0]


def _key(login: str, channel: ChatChannel) -> str:
    return hashlib.sha256(f"{login} {channel.pk} {channel.secrets}".encode()).hexdigest()


async def ask(client: Exchange, login: str, at: At, method: str, rest: str, data: JSON) -> JSON:
    """A call about the conversation. Raises Later, Refused."""
    thread = f"{at.place}{OF_THREAD}{at.thread}" if at.thread else at.place
    url = f"{at.server.rstrip('/')}/v3/conversations/{quote(thread, safe='')}/activities{rest}"
    headers = {"Authorization": f"Bearer {await token_of(client, login, at.channel)}"}
    status, body, _ = await call(client, method, url, headers=headers, data=data, what="Teams")
    if status < 300:
        return parsed(body)
    if status in (401, AGAIN):
        _tokens.pop(_key(login, at.channel), None)
        raise Later(f"Teams answered {status}.")
    error = parsed(body).get("error")
    said = error.get("message") or error.get("code") if isinstance(error, dict) else None
    raise Refused(f"Teams says: {str(said or f'it answered {status}')[:200]}.")


def activity_of(message: Outgoing) -> JSON:
    """A message: text, or with buttons a card. Teams makes two messages of text and a card."""
    if message.buttons:
        return {"type": "message", "attachments": [{"contentType": CARD, "content": card_of(message)}]}
    return {"type": "message", "textFormat": "xml", "text": html_of(message.text)}


def card_of(message: Outgoing) -> JSON:
    actions = [
        {"type": "Action.Submit", "title": one.label, "data": {ANSWER: one.value}}
        | ({"style": STYLES[one.look]} if one.look else {})
        for one in message.buttons
    ]
    return {"type": "AdaptiveCard", "version": "1.4", "body": lines_of(message.text), "actions": actions}


def image_of(name: str, media_type: str, content: bytes) -> JSON:
    """Raises Refused for what Teams does not show: other files would need the rights to somebody's OneDrive."""
    if media_type not in IMAGES or len(content) > MOST_IMAGE_BYTES:
        raise Refused("Teams takes images of up to 1 MB from bots, and no other files.")
    url = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    return {"type": "message", "attachments": [{"contentType": media_type, "contentUrl": url, "name": name}]}


async def download(client: Exchange, login: str, channel: ChatChannel, where: str) -> bytes:
    url = where.removeprefix(BY_BOT)
    headers = {"Authorization": f"Bearer {await token_of(client, login, channel)}"} if url != where else {}
    status, body, _ = await call(client, "GET", url, headers=headers, what="Teams")
    if status != 200:
        raise Refused(f"Teams answered {status}.")
    return body
