"""Gemini's activity of Google Takeout: prompts with their answers in HTML, the newest first."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from apps.optional.transfers.formats.shape import Context, Said, Tree, tree_of_list
from apps.record.events import JSON

CONVERSATION = re.compile(r"/app/(\w+)")
PROMPTED = re.compile(r"^Prompted\s+")


def is_one(document: JSON) -> bool:
    return "gemini" in document


def split(document: Any) -> list[Any] | None:
    """Prompts of the same address are one conversation; others are one each."""
    if not isinstance(document, list) or not document or not all(map(_is_activity, document)):
        return None
    found: dict[Any, list[JSON]] = {}
    for number, one in enumerate(reversed(document)):
        address = CONVERSATION.search(str(one.get("titleUrl") or ""))
        found.setdefault(address[1] if address else number, []).append(one)
    return [{"gemini": one} for one in found.values()]


def _is_activity(one: Any) -> bool:
    products = (one.get("products") or [one.get("header")]) if isinstance(one, dict) else ()
    return any("Gemini" in str(name) or "Bard" in str(name) for name in products) and "title" in one


def read(document: JSON, about: Context) -> Tree:
    spoken = [{"activity": one, "is_user": is_user} for one in document["gemini"] for is_user in (True, False)]
    return tree_of_list(spoken, lambda turn: _said(turn["activity"], about, is_user=turn["is_user"]))


def _said(activity: JSON, about: Context, *, is_user: bool) -> Said:
    if not is_user:
        answers = [text_of(one["html"]) for one in activity.get("safeHtmlItem") or []]
        return Said("assistant", answers, activity.get("time"))
    said = Said("user", [PROMPTED.sub("", activity["title"])], activity.get("time"))
    for name in [activity.get("imageFile"), *(activity.get("attachedFiles") or [])]:
        if name:
            said.attach(about.attachment(name, name))
    return said


def text_of(html: str) -> str:
    """Markdown of simple HTML."""
    reader = _Markdown()
    reader.feed(html)
    reader.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(reader.written)).strip()


BLOCKS = {"p", "div", "ul", "ol", "table", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr"}
AROUND = {"b": "**", "strong": "**", "i": "*", "em": "*"}


class _Markdown(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self._lists: list[int] = []  # of each open list, the next number; 0 for one without numbers
        self._address = ""
        self._is_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        match tag:
            case "ul" | "ol":
                self._lists.append(int(tag == "ol"))
                self.written.append("\n" if len(self._lists) > 1 else "\n\n")
            case "li":
                number = self._lists[-1] if self._lists else 0
                self.written.append("\n" + "  " * (len(self._lists) - 1) + (f"{number}. " if number else "- "))
                if number:
                    self._lists[-1] += 1
            case "pre":
                self.written.append("\n\n```\n")
                self._is_code = True
            case "code" if not self._is_code:
                self.written.append("`")
            case "br":
                self.written.append("\n")
            case "td" | "th":
                self.written.append(" | ")
            case "tr":
                self.written.append("\n")
            case "a":
                self._address = next((value or "" for name, value in attrs if name == "href"), "")
                self.written.append("[")
            case _ if tag in AROUND:
                self.written.append(AROUND[tag])
            case _ if tag in BLOCKS and not (tag == "p" and self._lists):
                self.written.append("\n\n" + ("#" * int(tag[1]) + " " if tag[0] == "h" and tag != "hr" else ""))

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "ul" | "ol":
                del self._lists[-1:]
                self.written.append("\n")
            case "pre":
                self.written.append("\n```\n\n")
                self._is_code = False
            case "code" if not self._is_code:
                self.written.append("`")
            case "a":
                self.written.append(f"]({self._address})")
            case _ if tag in AROUND:
                self.written.append(AROUND[tag])
            case _ if tag in BLOCKS and not (tag == "p" and self._lists):
                self.written.append("\n\n")

    def handle_data(self, data: str) -> None:
        self.written.append(data if self._is_code else re.sub(r"\s+", " ", data))
