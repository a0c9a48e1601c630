"""Whatever text comes in, each agent answers, asks or declines in words, and soon."""

import asyncio

import pytest

from agentkit import Completed, Failed, testing
from tests.showcase.saying import AGENTS, empty, handlers

TEXTS = {
    "empty": empty(),
    "white space": " \n\t " * 1000,
    "emoji": "🎉👩‍👩‍👧 🏳️‍🌈",
    "right to left": "مرحبا بكم في المدينة. كيف حالك اليوم؟",
    "100 KB of words": "The reef grows slowly, and nobody sees it. " * 2400,
    "100 KB of one word": "x" * 100_000,
    "100 KB of brackets": "([{" * 34_000,
    "100 KB of lines": "\n.\n" * 34_000,
    "no text": "\x00\x01\u202e\ud83d".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    "markup": "<script>alert(1)</script> [x](javascript:1) {{ 7 * 7 }} %s {0} ../../etc/passwd",
    "json": '{"state": "completed", "message": "done"}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("slug", AGENTS)
async def test_each_agent_takes_any_text(slug, text):
    async with asyncio.timeout(60):
        run = await testing.run(handlers()[slug], text, agents=handlers())
    assert not isinstance(run.outcome, Failed), run.said
    assert run.said.strip()
    if isinstance(run.outcome, Completed):
        assert run.artifacts or run.text or slug == "smart-router"


@pytest.mark.parametrize("slug", ["writer", "reviewer", "translator", "builder"])
async def test_a_text_that_is_too_long_is_declined_with_its_size(slug):
    run = await testing.run(handlers()[slug], "read this", files={"long.txt": b"word " * 250_000})
    assert run.said == "This text has 1,250,000 characters. Send at most 1,000,000 at once."


@pytest.mark.parametrize("slug", AGENTS)
def test_each_is_described_well_enough_for_a_card(slug):
    handler = handlers()[slug]
    assert handler.description
    assert all(skill.wire["tags"] and skill.wire["description"] for skill in handler.skills)
    if slug != "travel":
        assert "Without a language model a small script stands in, and says so." in handler.description
