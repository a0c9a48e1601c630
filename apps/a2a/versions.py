"""Which version of A2A a request speaks (A2A 1.0 §3.6): the version decides, not the method's name."""

from __future__ import annotations

import re

from django.http import HttpRequest

from apps.a2a.errors import VersionNotSupported

HEADER = "A2A-Version"
CURRENT = "1.0"
OLD = "0.3"


def version_of(request: HttpRequest) -> str:
    """Major.Minor from the header or the query; a request without either speaks 0.3."""
    named = (request.headers.get(HEADER) or request.GET.get(HEADER) or "").strip()
    numbers = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", named, re.ASCII)
    return numbers[1] if numbers else named or OLD


def check(request: HttpRequest) -> None:
    """Raises VersionNotSupported where the request does not speak the current version."""
    if (version := version_of(request)) != CURRENT:
        raise refusal(version)


def refusal(version: str) -> VersionNotSupported:
    """Why a request that speaks `version`, which is not served, is refused."""
    if version == OLD:
        return VersionNotSupported(f"Without the header {HEADER} a request speaks {OLD}. Send {HEADER}: {CURRENT}.")
    return VersionNotSupported(f"A2A {version[:20]} is not served here. Send the header {HEADER}: {CURRENT}.")
