"""What Discord sends: interactions by HTTP, and messages, edits and reactions by the Gateway.

In a server, `place` is the server, and `thread` the channel or the thread in it; in direct messages, `thread` is the
conversation. A message is named with its channel, and before Discord has shown a command, by the command's token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from django.http import JsonResponse

from apps.optional.channels.platforms import File, Inbound, Received

JSON = dict[str, Any]
PING, COMMAND, COMPONENT = 1, 2, 3  # types of interactions
PONG, SHOW, WAIT = 1, 4, 6  # types of answers to them
MESSAGE_COMMAND = 3  # type of a command
EPHEMERAL = 1 << 6
HAS_THREAD = 1 << 5  # flag of a message
SAID = (0, 19)  # types of messages: what people write, and replies
DIRECT = "@me"  # the place of direct messages
OF_COMMAND = "command:"  # before the token of a command
RATINGS = {"👍": 5, "👎": 1}
LONGEST_SHOWN = 1_800
ASK, NEW, ABOUT = "ask", "new", "Ask the agent"
COMMANDS = [
    {
        "name": ASK, "description": "Ask the agent", "type": 1,
        "options": [
            {"name": "text", "description": "What you want to know", "type": 3, "required": True},
            {"name": "file", "description": "A file for it", "type": 11},
        ],
    },
    {"name": NEW, "description": "Begin a new session here", "type": 1},
    {"name": ABOUT, "type": MESSAGE_COMMAND},
]  # fmt: skip


# Interactions


def read(body: bytes) -> Received:
    """A request's meaning. Raises ValueError."""
    told = json.loads(body)
    if told["type"] == PING:
        return Received(answer=JsonResponse({"type": PONG}))
    if told["type"] == COMMAND:
        return _command(told, told["data"])
    return Received([_pressed(told)], JsonResponse({"type": WAIT})) if told["type"] == COMPONENT else Received()


def _command(told: JSON, data: JSON) -> Received:
    if data.get("type") == MESSAGE_COMMAND:
        said = data["resolved"]["messages"][data["target_id"]]
        quoted = "\n".join(f"> {line}" for line in str(said.get("content", "")).split("\n"))
        text = f"{_name(said['author'], {})} wrote:\n\n{quoted}"
        where = {"message": f"{told['channel_id']}-{said['id']}", "text": text, "files": list(_files(said))}
        return Received([_interaction(told, **where)], _shown("I answer in the thread at this message.", EPHEMERAL))
    given = {one["name"]: one["value"] for one in data.get("options") or ()}
    is_new, text = data["name"] == NEW, str(given.get("text", ""))
    files = list((data.get("resolved") or {}).get("attachments", {}).values())
    event = _interaction(
        told, message=f"{OF_COMMAND}{told['application_id']}/{told['token']}", text=text,
        files=list(_files({"attachments": files})), begins_anew=is_new,
    )  # fmt: skip
    quoted = "\n".join(f"> {line}" for line in text[:LONGEST_SHOWN].split("\n"))
    return Received([event], _shown("A new session." if is_new else quoted[:LONGEST_SHOWN]))


def _shown(text: str, flags: int = 0) -> JsonResponse:
    data = {"content": text, "flags": flags, "allowed_mentions": {"parse": []}}
    return JsonResponse({"type": SHOW, "data": data})


def _pressed(told: JSON) -> Inbound:
    data, message = told["data"], told["message"]
    value = data["values"][0] if data.get("values") else data["custom_id"]
    return _interaction(told, kind="press", message=f"{told['channel_id']}-{message['id']}", press=str(value))


def _interaction(told: JSON, **more: Any) -> Inbound:
    member = told.get("member") or {}
    person = member.get("user") or told["user"]
    usual = {"kind": "message", "event_id": f"interaction {told['id']}", "thread": told["channel_id"]}
    about = {"person": person["id"], "name": _name(person, member), "place": told.get("guild_id") or DIRECT}
    return Inbound(**{**usual, **about, **more})


# The Gateway


def heard(kind: str, told: JSON, event_id: str, bot: str) -> Iterator[Inbound]:
    """What an event of the Gateway says. `bot`: the bot's id. Raises ValueError and others for what cannot be read."""
    if kind == "MESSAGE_REACTION_ADD":
        rating = RATINGS.get(str((told.get("emoji") or {}).get("name", ""))[:1], 0)
        if rating and told["user_id"] != bot:
            person = {"id": told["user_id"]}
            about = {"author": person, "member": told.get("member") or {}, "id": told["message_id"]}
            yield _message({**told, **about}, kind="reaction", event_id=event_id, rating=rating)
    elif kind == "MESSAGE_CREATE" and _is_said(told):
        text, is_named = _addressed(told, bot)
        is_addressed = is_named or not told.get("guild_id")
        yield _message(
            told, kind="message", event_id=event_id, text=text, files=list(_files(told)), is_addressed=is_addressed
        )
    elif kind == "MESSAGE_UPDATE" and _is_said(told) and told.get("edited_timestamp"):
        thread = told["id"] if int(told.get("flags") or 0) & HAS_THREAD else told["channel_id"]
        # Discord also tells of new previews and of a thread that was begun: the time of the edit stays the same.
        key = f"edit {told['id']} {told['edited_timestamp']}"
        text = _addressed(told, bot)[0]
        yield _message(told, kind="edit", event_id=key, text=text, thread=thread, is_addressed=False)


def _is_said(told: JSON) -> bool:
    author = told.get("author") or {}
    is_person = bool(author) and not author.get("bot") and not told.get("webhook_id")
    return is_person and told.get("type", 0) in SAID


def _message(told: JSON, **more: Any) -> Inbound:
    about = {"person": told["author"]["id"], "name": _name(told["author"], told.get("member") or {})}
    usual = {"place": told.get("guild_id") or DIRECT, "thread": told["channel_id"]}
    return Inbound(**{**usual, **about, "message": f"{told['channel_id']}-{told['id']}", **more})


def _addressed(told: JSON, bot: str) -> tuple[str, bool]:
    """The text without the bot's name, and whether it is to the bot: it names it, or replies to it."""
    text = re.sub(rf"<@!?{re.escape(bot)}>", "", str(told.get("content", ""))).strip()
    is_named = any(one.get("id") == bot for one in told.get("mentions") or ())
    replied = (told.get("referenced_message") or {}).get("author") or {}
    return text, is_named or replied.get("id") == bot


def _name(person: JSON, member: JSON) -> str:
    return str(member.get("nick") or person.get("global_name") or person.get("username") or person["id"])


def _files(told: JSON) -> Iterator[File]:
    for one in told.get("attachments") or ():
        kind = str(one.get("content_type") or "").partition(";")[0]
        yield File(str(one.get("filename") or "file"), one["url"], kind, int(one.get("size") or 0))
