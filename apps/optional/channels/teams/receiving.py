"""What Teams sends: an activity (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference).

`place` is the conversation, and `server` the address of the service, which may change. A thread of a channel is named
by its first message;
another chat is one thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from apps.optional.channels.platforms import File, Inbound, Received

JSON = dict[str, Any]
OF_THREAD = ";messageid="
FILE = "application/vnd.microsoft.teams.file.download.info"
ANSWER = "parley"  # the name of a button's value
NEW = "/new"
BOT = "28:"  # what ids of bots begin with
UP, DOWN = ("like", "1f44d"), ("1f44e",)
BY_BOT = "bot "  # before the address of a file that takes the bot's token
LONGEST_PLACE = 300


def read(body: bytes) -> Received:
    """Raises ValueError."""
    return Received(list(_events(json.loads(body))))


def _events(told: JSON) -> Iterator[Inbound]:
    kind = told.get("type")
    if str(told.get("from", {}).get("id", "")).startswith(BOT):
        return
    if kind == "message" and isinstance(value := told.get("value"), dict) and value.get(ANSWER):
        about = {"kind": "press", "press": str(value[ANSWER]), "message": str(told["replyToId"])}
        yield _inbound(told, event_id=f"press {told['id']}", **about)
    elif kind == "message":
        text, is_addressed = _said(told)
        begins_anew = text == NEW or text.startswith(f"{NEW} ")
        text = text.removeprefix(NEW).strip() if begins_anew else text
        files = list(_files(told))
        if text or files or begins_anew:
            yield _inbound(told, text=text, files=files, is_addressed=is_addressed, begins_anew=begins_anew)
    elif kind == "messageUpdate" and (told.get("channelData") or {}).get("eventType") == "editMessage":
        key = f"edit {told['id']} {told.get('timestamp', '')}"
        yield _inbound(told, kind="edit", event_id=key, text=_said(told)[0], is_addressed=False)
    elif kind == "messageReaction":
        added = [str(one.get("type", "")) for one in told.get("reactionsAdded") or ()]
        rating = next((5 if one.startswith(UP) else 1 for one in added if one.startswith((*UP, *DOWN))), 0)
        if rating:
            key, message = f"reaction {told['id']}", str(told["replyToId"])
            yield _inbound(told, kind="reaction", event_id=key, rating=rating, message=message)


def _inbound(told: JSON, **more: Any) -> Inbound:
    conversation, _, root = str(told["conversation"]["id"]).partition(OF_THREAD)
    if not root and told["conversation"].get("conversationType") == "channel":
        root = str(told["id"])
    person, server = told["from"], str(told["serviceUrl"])
    if max(len(conversation), len(server)) > LONGEST_PLACE:
        raise ValueError("The conversation or the service has too long a name.")
    usual: JSON = {"kind": "message", "event_id": f"message {told['id']}", "message": str(told["id"]), **more}
    usual["event_id"] = f"{usual['event_id']} {conversation}"  # ids of activities are unique in a conversation only
    who = str(person.get("aadObjectId") or person["id"])
    usual |= {"person": who, "name": str(person.get("name") or who)}
    return Inbound(**usual, place=conversation, thread=root, server=server)


def _said(told: JSON) -> tuple[str, bool]:
    """The text without the bot's name, and whether it is to the bot."""
    text, is_addressed = str(told.get("text") or ""), told["conversation"].get("conversationType") == "personal"
    for one in told.get("entities") or ():
        if one.get("type") != "mention":
            continue
        mentioned, shown = one.get("mentioned") or {}, str(one.get("text") or "")
        is_bot = mentioned.get("id") == told["recipient"]["id"]
        is_addressed = is_addressed or is_bot
        if shown:
            text = text.replace(shown, "" if is_bot else f"@{mentioned.get('name', '')}")
    return unescape(text).replace("\xa0", " ").strip(), is_addressed


def _files(told: JSON) -> Iterator[File]:
    """Files have an address that needs no token. Images need the bot's, which the service alone gets."""
    service = urlsplit(str(told["serviceUrl"])).hostname
    for one in told.get("attachments") or ():
        kind, url = str(one.get("contentType") or ""), str(one.get("contentUrl") or "")
        if kind == FILE:
            yield File(str(one.get("name") or "file"), str(one["content"]["downloadUrl"]))
        elif kind.startswith("image/") and url.startswith("http"):
            is_own = urlsplit(url).hostname == service
            name = str(one.get("name") or f"image.{kind.partition('/')[2]}".replace("*", "png"))
            yield File(name, f"{BY_BOT}{url}" if is_own else url, "" if "*" in kind else kind)
