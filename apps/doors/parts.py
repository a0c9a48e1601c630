"""Content of clients as A2A parts."""

from __future__ import annotations

import re
from typing import Any

from apps.record.errors import InvalidParams
from apps.record.events import JSON

DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(;[\w.=+-]+)*?;base64,(?P<content>.*)", re.DOTALL)


def linked_part(url: Any, field: str, filename: str = "") -> JSON:
    """A part of a data URL or of a web address. Raises InvalidParams."""
    if not isinstance(url, str) or not url:
        raise InvalidParams("Must be a data URL or a web address. Files by file_id are not kept here.", field)
    name = {"filename": filename} if filename else {}
    if found := DATA_URL.fullmatch(url):
        media_type = {"mediaType": found["type"]} if found["type"] else {}
        return {"raw": found["content"], **media_type, **name}
    return {"url": url, **name}
