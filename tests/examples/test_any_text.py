"""Each example agent answers, asks or declines soon, whatever the text."""

import asyncio

import pytest

from agentkit import Completed, Failed, testing
from tests.examples.saying import HANDLERS, wire

TEXTS = {
    "empty": wire(),
    "emoji": "🎉👩‍👩‍👧 🏳️‍🌈",
    "right to left": "مرحبا بكم في المدينة. كيف حالك اليوم؟",
    "100 KB of one word": "x" * 100_000,
    "100 KB of brackets": "([{" * 34_000,
    "no text": "\x00\x01\u202e\ud83d".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    "markup": "<script>alert(1)</script> [x](javascript:1) {{ 7 * 7 }} %s {0} ../../etc/passwd",
}


SHOWN = ("builder", "builder-worker", "reviewer", "smart-router", "travel", "writer")
OF_PLANS = [slug for slug in HANDLERS if slug.startswith(("research-", "trip-"))]


@pytest.mark.parametrize("slug", [*SHOWN, *OF_PLANS])
async def test_each_agent_takes_any_text(slug):
    for name, text in TEXTS.items():
        async with asyncio.timeout(60):
            run = await testing.run(HANDLERS[slug], text, agents=HANDLERS)
        assert run.said.strip(), name
        if slug in OF_PLANS:
            assert not run.artifacts, name
            continue
        assert not isinstance(run.outcome, Failed), (name, run.said)
        if isinstance(run.outcome, Completed):
            assert run.artifacts or run.text or slug == "smart-router", name


@pytest.mark.parametrize("slug", ["writer", "reviewer", "builder"])
async def test_too_long_a_text_is_declined(slug):
    run = await testing.run(HANDLERS[slug], "read this", files={"long.txt": b"word " * 250_000})
    assert run.said == "This text has 1,250,000 characters. Send at most 1,000,000 at once."


def test_each_agent_is_described_for_a_card():
    for slug, handler in HANDLERS.items():
        assert handler.name, slug
        assert handler.description, slug
        assert all(skill.wire["tags"] and skill.wire["description"] for skill in handler.skills), slug
