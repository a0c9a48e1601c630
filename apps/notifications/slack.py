"""Slack, and what takes Slack's webhooks. A channel is declared like this; `apps.py` names it."""

from __future__ import annotations

import json
from html import escape

from apps.notifications.channel_types import ChannelType
from apps.notifications.wording import Notice, shortened


def slack_body(notice: Notice) -> bytes:
    """https://docs.slack.dev/messaging/formatting-message-text#escaping"""
    said = shortened(notice.text, 500)
    lines = [f"*{slack_escaped(notice.headline)}*", slack_escaped(said), f"<{notice.url}|{notice.call}>"]
    return json.dumps({"text": "\n".join(line for line in lines if line)}, ensure_ascii=False).encode()


def slack_escaped(text: str) -> str:
    return escape(text, quote=False)


SLACK = ChannelType("slack", "Slack", slack_body, choice="Slack, or what takes Slack's webhooks")
