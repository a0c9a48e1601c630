"""Markdown as Slack's mrkdwn: https://docs.slack.dev/messaging/formatting-message-text"""

from __future__ import annotations

from apps.notifications.slack import slack_escaped
from apps.optional.channels.markdown import Marks


def _link(words: str, url: str) -> str:
    """Neither part can end the link."""
    target = slack_escaped(url).replace("|", "%7C").replace(">", "%3E")
    return f"<{target}|{words.replace('|', '¦')}>"


MARKS = Marks(
    escape=slack_escaped,
    strong=lambda text: f"*{text}*",
    em=lambda text: f"_{text}_",
    s=lambda text: f"~{text}~",
    code=lambda text: f"`{text}`",
    fence=lambda code, language: f"```\n{code}\n```",
    link=_link,
    heading=lambda text: f"*{text.replace('*', '')}*",
)
