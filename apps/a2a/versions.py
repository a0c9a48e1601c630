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


def check(request: HttpRequest, served: str) -> None:
    """Raises VersionNotSupported where the request does not speak the version that is served at its address."""
    if (version := version_of(request)) != served:
        raise refusal(version, served)


def refusal(version: str, served: str = CURRENT) -> VersionNotSupported:
    """Why a request that speaks `version` is refused where `served` is what is served."""
    if served == OLD:
        return VersionNotSupported(f"At this address A2A {OLD} is served. Send the header {HEADER}: {OLD}, or none.")
    if version == OLD:
        return VersionNotSupported(
            f"At this address A2A {CURRENT} is served. Send the header {HEADER}: {CURRENT}; "
            f"without it a request speaks {OLD}, which is served below v1/."
        )
    return VersionNotSupported(f"A2A {version[:20]} is not served here. Send the header {HEADER}: {CURRENT}.")
