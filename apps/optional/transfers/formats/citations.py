"""ChatGPT's marks of citations in an answer become numbered links to what was cited."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from apps.record.events import JSON

MARK = re.compile("\ue200[^\ue200\ue201]*\ue201|\u3010[^\u3010\u3011\u2020]*\u2020[^\u3010\u3011]*\u3011")
"""`cite turn0search1`, `entity ["city", "Ulm"]` between characters of private use, or 【4:0†source】."""
SEPARATOR = "\ue202"
TURN = re.compile("\ue202turn(\\d+)([a-z]+)(\\d+)")
"""LibreChat's marks, between characters of private use or alone."""
STRAY = re.compile("[\ue200-\ue206]")
SAFE_URL = re.compile(r"https?://[^\s<>()\"\\]+")


class Sources:
    """The sources of one answer, numbered as they are first cited."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def link(self, url: str, title: str) -> str:
        """A link in Markdown whose text is the source's number; "" for an address that is none."""
        url = url.replace("(", "%28").replace(")", "%29")
        if not SAFE_URL.fullmatch(url):
            return ""
        number = self._numbers.setdefault(url, len(self._numbers) + 1)
        named = " ".join(re.sub(r'["\\<>]', "", title).split())
        return f'[{number}]({url} "{named}")' if named else f"[{number}]({url})"


def resolved(texts: Iterable[str], metadata: JSON) -> list[str]:
    """The texts of an answer with links in place of marks. Marks without a known source go."""
    texts = list(texts)
    found = dict(_references(texts, metadata))
    sources = Sources()
    shown: dict[str, str] = {}

    def link(mark: re.Match[str]) -> str:
        if (text := mark[0]) not in shown:
            cited = [one for about in found.get(text, ()) if (one := _link(about, sources))]
            shown[text] = " ".join(dict.fromkeys(cited)) or _entity(text)
        is_apart = mark.start() == 0 or mark.string[mark.start() - 1].isspace()
        return shown[text] if is_apart or not text.startswith(("\u3010", "\ue200cite")) else f" {shown[text]}".rstrip()

    return [STRAY.sub("", MARK.sub(link, one)) for one in texts]


def with_searches(text: str, searches: list[JSON]) -> str:
    """LibreChat's marks name a search of the answer by its turn, a kind of its results, and one of these."""
    kinds = {"search": "organic", "news": "topStories", "image": "images", "ref": "references", "video": "videos"}
    by_turn = {one.get("turn"): one for one in searches}
    sources = Sources()

    def link(mark: re.Match[str]) -> str:
        found = _objects(by_turn.get(int(mark[1]), {}).get(kinds.get(mark[2], "")))
        about = dict(enumerate(found)).get(int(mark[3]), {})
        linked = _link(about | {"url": about.get("link") or about.get("url")}, sources)
        return f" {linked}" if linked else ""

    return STRAY.sub("", TURN.sub(link, text)) if searches or STRAY.search(text) else text


def _references(texts: list[str], metadata: JSON) -> Iterator[tuple[str, list[JSON]]]:
    """By mark, what it cites. `content_references` name the mark; older `citations` give its place."""
    whole = "".join(texts)
    for one in _objects(metadata.get("citations")):
        begin, end = one.get("start_ix"), one.get("end_ix")
        if isinstance(begin, int) and isinstance(end, int) and isinstance(one.get("metadata"), dict):
            yield from ((mark, [one["metadata"]]) for mark in MARK.findall(whole[begin:end]))
    for one in _objects(metadata.get("content_references")):
        marks = MARK.findall(one["matched_text"]) if isinstance(one.get("matched_text"), str) else []
        items = _objects(one.get("items"))
        more = [inner for item in items for inner in _objects(item.get("supporting_websites"))]
        yield from ((mark, [*items, *more] or [one]) for mark in marks[:1])


def _objects(value: Any) -> list[JSON]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _link(about: JSON, sources: Sources) -> str:
    """Of a web page; of a file, its name."""
    url, title = (one if isinstance(one, str) else "" for one in (about.get("url"), about.get("title")))
    if url and (made := sources.link(url, title)):
        return made
    name = about.get("name") or title
    return f"({name})" if isinstance(name, str) and name else ""


def _entity(mark: str) -> str:
    """The name of a thing that the mark makes a link of, such as a city."""
    kind, _, rest = mark.strip("\ue200\ue201").partition(SEPARATOR)
    try:
        named = json.loads(rest) if kind == "entity" else None
    except ValueError:
        return ""
    return named[1] if isinstance(named, list) and len(named) > 1 and isinstance(named[1], str) else ""
