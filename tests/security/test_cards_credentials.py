"""A remote agent's card says where its credential goes, and cannot make of it another part of a request."""

from __future__ import annotations

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from apps.remote.authentication.security_schemes import card_requirements
from tests.remote.guarded import api_key, card

TAKEN = [
    "Host", "host", "Cookie", "Set-Cookie", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection",
    "Upgrade", "Expect", "TE", "Trailer", "Keep-Alive", "Proxy-Authorization", "Accept", "Range",
    "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via",
    "X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "Origin", "Referer", "User-Agent",
    "Signature", "Signature-Input", "A2A-Version", "A2A-Extensions", "traceparent", "Last-Event-ID",
]  # fmt: skip
BROKEN = ["X-Key\r\nX-Evil: 1", "X-Key\n", "X-Key: 1", "X Key", "", "X-Kéy", "X-Key\0", "x" * 200]
"""Names that end a header, or are none."""


def problem(place: str, name: str) -> str:
    said = card("https://vault.example.org/a2a", {"key": api_key(place, name)}, {"key": []})
    [alternative] = card_requirements(ParseDict(said, AgentCard())).alternatives
    return alternative.problem


@pytest.mark.parametrize("name", [*TAKEN, *BROKEN])
def test_a_card_chooses_no_header_with_a_meaning(name):
    assert "where none can be" in problem("header", name)


@pytest.mark.parametrize("name", [*BROKEN, "a=b", "a; Path=/", "a,b"])
def test_a_card_adds_nothing_to_a_cookie(name):
    assert "where none can be" in problem("cookie", name)


@pytest.mark.parametrize("name", ["X-Key", "Api-Key", "X-Goog-Api-Key", "Authorization", "Ocp-Apim-Subscription-Key"])
def test_usual_headers_of_keys_work(name):
    assert problem("header", name) == ""
