"""Markdown as Telegram's HTML: https://core.telegram.org/bots/api#html-style"""

from __future__ import annotations

from html import escape

from apps.optional.channels.markdown import Marks


def _fence(code: str, language: str) -> str:
    kind = f' class="language-{escape(language)}"' if language else ""
    return f"<pre><code{kind}>{code}</code></pre>"


MARKS = Marks(
    escape=lambda text: escape(text, quote=False),
    strong=lambda text: f"<b>{text}</b>",
    em=lambda text: f"<i>{text}</i>",
    s=lambda text: f"<s>{text}</s>",
    code=lambda text: f"<code>{text}</code>",
    fence=_fence,
    link=lambda words, url: f'<a href="{escape(url)}">{words}</a>',
    heading=lambda text: f"<b>{text}</b>",
    quote=lambda text: f"<blockquote>{text}</blockquote>",
)
