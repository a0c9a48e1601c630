"""Which version of A2A a request speaks (A2A 1.0 §3.6): the version decides, not the method's name."""

from __future__ import annotations

import re

from django.http import HttpRequest

from apps.a2a.errors import VersionNotSupported

HEADER = "A2A-Version"
CURRENT = "1.0"
OLD = "0.3"


def version_of(request: HttpRequest) -> str:
    """The version that a request speaks; one that names none speaks 0.3."""
    return named(request) or OLD


def named(request: HttpRequest) -> str:
    """Major.Minor from the header or the query; what is no version as it came, "" where there is neither."""
    text = (request.headers.get(HEADER) or request.GET.get(HEADER) or "").strip()
    numbers = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", text, re.ASCII)
    return numbers[1] if numbers else text


def refusal(version: str) -> VersionNotSupported:
    """Why a request that speaks `version`, which is not served, is refused."""
    return VersionNotSupported(f"A2A {version[:20]} is not served here. Send the header {HEADER}: {CURRENT}.")
