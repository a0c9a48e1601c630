"""Markdown as Discord has it: https://support.discord.com/hc/en-us/articles/210298617"""

from __future__ import annotations

import re

from apps.optional.channels.markdown import Marks

SIGNS = re.compile(r"[\\*_~`|<\[\]]|^[#>-]", re.MULTILINE)
ADDRESS = re.compile(r"(https?://[^\s<>]+)")  # Discord makes links of these, with all their signs
BREAK = "\N{ZERO WIDTH SPACE}"


def _escape(text: str) -> str:
    """Each sign that could begin a mark, a mention or a link."""
    return "".join(
        one if ADDRESS.fullmatch(one) else SIGNS.sub(lambda found: f"\\{found[0]}", one) for one in ADDRESS.split(text)
    )


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text.replace('``', f'`{BREAK}`')}{fence}"


def _fence(code: str, language: str) -> str:
    return f"```{re.sub(r'[^a-zA-Z0-9+-]', '', language)}\n{code.replace('```', f'``{BREAK}`')}\n```"


MARKS = Marks(
    escape=_escape,
    strong=lambda text: f"**{text}**",
    em=lambda text: f"*{text}*",
    s=lambda text: f"~~{text}~~",
    escape_code=lambda text: text,
    code=_code,
    fence=_fence,
    link=lambda words, url: f"[{words}](<{url}>)",
    heading=lambda text: f"**{text.replace('**', '')}**",
)
