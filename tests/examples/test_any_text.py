"""Each agent answers, asks or declines soon, whatever the text."""

import asyncio

import pytest

from agentkit import Completed, Failed, load_handler, testing
from tests.examples.pipelines import HANDLERS
from tests.examples.saying import AGENTS, empty, handlers

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
}


@pytest.mark.parametrize("slug", AGENTS)
async def test_each_agent_takes_any_text(slug):
    for name, text in TEXTS.items():
        run = await testing.run(handlers()[slug], text, agents=handlers())
        assert not isinstance(run.outcome, Failed), (name, run.said)
        assert run.said.strip(), name
        if isinstance(run.outcome, Completed):
            assert run.artifacts or run.text or slug == "smart-router", name


async def test_each_agent_of_a_plan_answers_asks_or_declines_any_text_in_words():
    for slug in (slug for slug in HANDLERS if slug.startswith(("research-", "trip-"))):
        for name, text in TEXTS.items():
            async with asyncio.timeout(60):
                run = await testing.run(HANDLERS[slug], text)
            assert run.said.strip(), (slug, name)
            assert not run.artifacts, (slug, name)


async def test_a_text_that_is_too_long_is_declined_with_its_size():
    for slug in ("writer", "reviewer", "builder"):
        run = await testing.run(handlers()[slug], "read this", files={"long.txt": b"word " * 250_000})
        assert run.said == "This text has 1,250,000 characters. Send at most 1,000,000 at once.", slug


def test_each_is_described_well_enough_for_a_card():
    small = {name.lower(): load_handler(f"examples.agents.{name.lower()}:{name}") for name in ("Hello", "Echo")}
    for slug, handler in {**handlers(), **small, "countdown": HANDLERS["countdown"]}.items():
        assert handler.name, slug
        assert handler.description, slug
        assert all(skill.wire["tags"] and skill.wire["description"] for skill in handler.skills), slug
