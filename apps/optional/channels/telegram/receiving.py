"""What Telegram sends: an update (https://core.telegram.org/bots/api#update)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from apps.optional.channels.platforms import File, Inbound, Received

JSON = dict[str, Any]
RATINGS = {"👍": 5, "👎": 1}
NEW = "/new"  # begins a session
START = "/start"  # what Telegram sends for a person who opens the bot
FILES = ("document", "audio", "video", "voice", "animation", "video_note")


def read(body: bytes, bot: str) -> Received:
    """`bot`: its user name, if it is known. Raises ValueError."""
    update = json.loads(body)
    return Received(list(_events(update, str(int(update["update_id"])), bot)))


def _events(update: JSON, event_id: str, bot: str) -> Iterator[Inbound]:
    if said := update.get("message"):
        if not said.get("from", {}).get("is_bot") and (words := _said(said, bot)) is not None:
            yield _inbound(event_id, said, kind="message", files=list(_files(said)), **words)
    elif said := update.get("edited_message"):
        text = said.get("text") or said.get("caption") or ""
        yield _inbound(event_id, said, kind="edit", text=_addressed(text, bot)[0], is_addressed=False)
    elif pressed := update.get("callback_query"):
        if (message := pressed.get("message")) and pressed.get("data"):
            at = {**message, "from": pressed["from"]}
            yield _inbound(f"{event_id} {pressed['id']}", at, kind="press", press=pressed["data"])
    elif changed := update.get("message_reaction"):
        new = [one.get("emoji") for one in changed.get("new_reaction", ()) if one.get("type") == "emoji"]
        rating = next((RATINGS[one] for one in new if one in RATINGS), 0)
        if rating and changed.get("user"):
            at = {**changed, "from": changed["user"]}
            yield _inbound(event_id, at, kind="reaction", rating=rating)


def _inbound(event_id: str, message: JSON, **more: Any) -> Inbound:
    """A private chat is one thread; a group's topic is one, too."""
    person = message["from"]
    names = filter(None, [person.get("first_name"), person.get("last_name")])
    return Inbound(
        event_id=event_id,
        person=str(person["id"]),
        name=" ".join(names) or str(person.get("username") or person["id"]),
        place=str(message["chat"]["id"]),
        thread=str(message.get("message_thread_id") or ""),
        message=str(message["message_id"]),
        **more,
    )


def _said(message: JSON, bot: str) -> JSON | None:
    """The text, and to whom it is; None for what is no message, such as a new member."""
    if not any(message.get(name) for name in ("text", "caption", "photo", *FILES)):
        return None
    text, is_named = _addressed(message.get("text") or message.get("caption") or "", bot)
    is_reply = bool((message.get("reply_to_message") or {}).get("from", {}).get("is_bot"))
    is_addressed = message["chat"].get("type") == "private" or is_named or is_reply
    begins_anew = text == NEW or text.startswith(f"{NEW} ")
    if begins_anew or text == START:
        text = text.partition(" ")[2]
    return {"text": text, "is_addressed": is_addressed, "begins_anew": begins_anew or not (text or _has_file(message))}


def _has_file(message: JSON) -> bool:
    return any(message.get(name) for name in ("photo", *FILES))


def _addressed(text: str, bot: str) -> tuple[str, bool]:
    """The text without the bot's name, and whether it had it."""
    name = f"@{bot}"
    if not bot or name.lower() not in text.lower():
        return text.strip(), False
    at = text.lower().index(name.lower())
    return (text[:at] + text[at + len(name) :]).strip(), True


def _files(message: JSON) -> Iterator[File]:
    if photos := message.get("photo"):
        largest = max(photos, key=lambda one: one.get("file_size") or 0)
        yield File("photo.jpg", largest["file_id"], "image/jpeg", int(largest.get("file_size") or 0))
    for name in FILES:
        if one := message.get(name):
            kind = str(one.get("mime_type") or "")
            yield File(str(one.get("file_name") or name), one["file_id"], kind, int(one.get("file_size") or 0))
            return
