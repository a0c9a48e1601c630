"""What Slack sends: events (https://docs.slack.dev/apis/events-api) and pressed buttons (interactivity)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs

from django.http import HttpResponse, JsonResponse

from apps.optional.channels.platforms import File, Inbound, Received

JSON = dict[str, Any]
SAID = {None, "file_share", "thread_broadcast"}  # subtypes of what a person says
RATINGS = {"+1": 5, "thumbsup": 5, "-1": 1, "thumbsdown": 1}
MARKUP = re.compile(r"<(?:([@#!])([^>|]*)|([^>|]+))(?:\|([^>]*))?>")


def read(headers_type: str, body: bytes) -> Received:
    """Raises ValueError."""
    if headers_type.startswith("application/x-www-form-urlencoded"):
        return Received(list(_pressed(json.loads(parse_qs(body.decode())["payload"][0]))))
    envelope = json.loads(body)
    if envelope.get("type") == "url_verification":
        return Received(answer=JsonResponse({"challenge": str(envelope["challenge"])}))
    if envelope.get("type") != "event_callback":
        return Received()
    return Received(list(_events(envelope, envelope["event"])), HttpResponse(status=200))


def _events(envelope: JSON, event: JSON) -> Iterator[Inbound]:
    kind, subtype = event.get("type"), event.get("subtype")
    bots = {one.get("user_id") for one in envelope.get("authorizations") or ()}
    if event.get("bot_id") or event.get("user") in bots or (event.get("message") or {}).get("bot_id"):
        return  # the agent's own words, or another bot's
    if kind == "reaction_added":
        rating = RATINGS.get(str(event.get("reaction", "")).partition("::")[0])
        if rating and event["item"].get("type") == "message":
            item = event["item"]
            about = {"kind": "reaction", "rating": rating, "message": item["ts"], "thread": ""}
            yield _inbound(envelope["event_id"], {**event, "channel": item["channel"]}, **about)
    elif kind == "message" and subtype == "message_changed":
        now, before = event["message"], event.get("previous_message") or {}
        if now.get("user") and now.get("text") != before.get("text") and now["user"] not in bots:
            said = {**now, "channel": event["channel"]}
            yield _inbound(envelope["event_id"], said, kind="edit", text=_text(now.get("text", "")), is_addressed=False)
    elif kind == "app_mention" or (kind == "message" and subtype in SAID):
        text = str(event.get("text", ""))
        is_direct = event.get("channel_type") == "im"
        if kind == "message" and not is_direct and any(f"<@{one}>" in text for one in bots):
            return  # it comes as a mention, too
        yield _inbound(
            envelope["event_id"], event, kind="message", text=_text(text), files=list(_files(event)),
            is_addressed=kind == "app_mention" or is_direct,
        )  # fmt: skip


def _inbound(event_id: str, event: JSON, **more: Any) -> Inbound:
    ts = str(event.get("ts", ""))
    usual = {"thread": str(event.get("thread_ts") or ts), "message": ts}
    person = str(event["user"])
    return Inbound(
        **{**usual, "event_id": event_id, "person": person, "name": person, "place": event["channel"], **more}
    )


def _pressed(payload: JSON) -> Iterator[Inbound]:
    if payload.get("type") != "block_actions":
        return
    message, user = payload.get("message") or {}, payload["user"]
    for action in payload["actions"]:
        if value := action.get("value"):
            yield Inbound(
                kind="press",
                event_id=f"press {payload['trigger_id']} {action['action_id']}",
                person=user["id"],
                name=str(user.get("name") or user["id"]),
                place=payload["channel"]["id"],
                thread=str(message.get("thread_ts") or message.get("ts", "")),
                message=str(message.get("ts", "")),
                press=value,
            )


def _files(event: JSON) -> Iterator[File]:
    for one in event.get("files") or ():
        if url := one.get("url_private_download"):
            yield File(str(one.get("name") or "file"), url, str(one.get("mimetype") or ""), int(one.get("size") or 0))


def _text(text: str) -> str:
    """Slack's markup as text. Mentions of people are left out: the agent's own name is no part of the message."""
    return unescape(MARKUP.sub(_plain, text)).strip()


def _plain(found: re.Match[str]) -> str:
    sign, name, url, words = found.groups()
    if sign == "@":
        return ""
    if sign:
        return f"#{words or name}" if sign == "#" else f"@{words or name}"
    return f"[{words}]({url})" if words and words != url else url
