"""Markdown as what Teams shows: simple HTML in messages, and plain lines in cards.

https://learn.microsoft.com/microsoftteams/platform/bots/how-to/format-your-bot-messages
"""

from __future__ import annotations

from html import escape
from typing import Any

from apps.optional.channels.markdown import Marks, convert

LINE = "&#10;"  # a line break in code: others become <br>
CODE = "\0"  # before a line of code in a card: Markdown has no such sign
HARD_SPACE = "\N{NO-BREAK SPACE}"

MARKS = Marks(
    escape=lambda text: escape(text, quote=False),
    strong=lambda text: f"<b>{text}</b>",
    em=lambda text: f"<i>{text}</i>",
    s=lambda text: f"<s>{text}</s>",
    code=lambda text: f"<code>{text}</code>",
    fence=lambda code, language: f"<pre>{code.replace('\n', LINE)}</pre>",
    link=lambda words, url: f'<a href="{escape(url)}">{words}</a>',
    heading=lambda text: f"<b>{text}</b>",
    quote=lambda text: f"<blockquote>{text}</blockquote>",
)
CARD = Marks(fence=lambda code, language: "\n".join(f"{CODE}{line}" for line in code.split("\n")))


def html_of(text: str) -> str:
    return convert(text, MARKS).replace("\n", "<br>")


def lines_of(text: str) -> list[dict[str, Any]]:
    """The body of an Adaptive Card: a block for each line, which shows its signs as they are.

    https://adaptivecards.io/explorer/RichTextBlock.html
    """
    return [_line(one) for one in convert(text, CARD).split("\n")]


def _line(line: str) -> dict[str, Any]:
    words = line.removeprefix(CODE)
    indent = len(words) - len(words.lstrip(" "))
    run = {"type": "TextRun", "text": HARD_SPACE * indent + words[indent:] or " "}
    if line.startswith(CODE):
        run["fontType"] = "Monospace"
    return {"type": "RichTextBlock", "spacing": "None", "inlines": [run]}
