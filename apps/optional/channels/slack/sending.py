"""Calls of Slack's Web API: https://docs.slack.dev/reference/methods"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode, urlsplit

from apps.optional.channels.markdown import convert
from apps.optional.channels.platforms import File, Later, Outgoing, Refused, call, parsed
from apps.optional.channels.slack.marking import MARKS
from parley.outbound import Exchange

JSON = dict[str, Any]
LATER = {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
LONGEST_BLOCK = 3_000  # characters of a section's text
BUTTONS_A_ROW = 5


async def ask(client: Exchange, token: str, method: str, api: str, **fields: Any) -> JSON:
    """What a method answers. Raises Later, Refused with Slack's code."""
    headers = {"Authorization": f"Bearer {token}"}
    if method.startswith("files."):  # they take no JSON everywhere
        form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        _, body, _ = await call(
            client, "POST", f"{api}/{method}", headers=headers, content=urlencode(form).encode(), what="Slack"
        )
    else:
        _, body, _ = await call(client, "POST", f"{api}/{method}", headers=headers, data=fields, what="Slack")
    answer = parsed(body)
    if answer.get("ok") is True:
        return answer
    code = str(answer.get("error", "no answer that can be read"))[:200]
    raise (Later if code in LATER else Refused)(f"Slack says {code}.")


def message_of(message: Outgoing) -> JSON:
    """The fields of `chat.postMessage` and `chat.update`. Buttons are blocks; without them, old blocks go."""
    text = convert(message.text, MARKS)
    if not message.buttons:
        return {"text": text, "blocks": [], "unfurl_links": False}
    buttons = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": one.label[:75], "emoji": True},
            "value": one.value,
            "action_id": f"answer-{number}",
            **({"style": one.look} if one.look else {}),
        }
        for number, one in enumerate(message.buttons)
    ]
    rows = [buttons[at : at + BUTTONS_A_ROW] for at in range(0, len(buttons), BUTTONS_A_ROW)]
    blocks: list[JSON] = [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]
    blocks += [{"type": "actions", "elements": row} for row in rows]
    return {"text": text, "blocks": blocks, "unfurl_links": False}


async def upload(client: Exchange, token: str, api: str, channel: str, thread: str, name: str, content: bytes) -> None:
    """In three calls, as Slack wants it."""
    place = await ask(client, token, "files.getUploadURLExternal", api, filename=name, length=str(len(content)))
    status, _, _ = await call(
        client, "POST", str(place["upload_url"]), headers={"Content-Type": "application/octet-stream"}, content=content,
        what="Slack",
    )  # fmt: skip
    if status != 200:
        raise Refused(f"Slack answered {status}.")
    files = [{"id": place["file_id"], "title": name}]
    await ask(client, token, "files.completeUploadExternal", api, files=files, channel_id=channel, thread_ts=thread)


async def download(client: Exchange, token: str, api: str, file: File) -> bytes:
    """The token goes to Slack alone."""
    host, own = urlsplit(file.where).hostname or "", urlsplit(api).hostname or ""
    if host != own and not host.endswith((".slack.com", ".slack-edge.com", ".slack-files.com")):
        raise Refused("The file is not at Slack.")
    status, body, headers = await call(
        client, "GET", file.where, headers={"Authorization": f"Bearer {token}"}, what="Slack"
    )
    is_page = headers.get("content-type", "").startswith("text/html") and not file.media_type.startswith("text/html")
    if status != 200 or is_page:  # without the right to read files, Slack shows its sign-in
        raise Refused("Slack did not give it. Does the app have the scope files:read?")
    return body
