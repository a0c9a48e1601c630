"""The Reviewer looks at a text three times at once, and gives one verdict."""

import asyncio

import pytest

from agentkit import Artifact, InputRequired, ReceivedArtifact, ReferencedTask, testing
from apps.showcase.agents.reviewer import script
from apps.showcase.agents.reviewer.agent import REVIEWS, Reviewer
from tests.llm.endpoint import Endpoint, calls, refuses
from tests.showcase.saying import NOTE, content, empty

FAULTY = "The the report is finished!!! It was written by the committee (see below."
SOUND = "It rains. We stay at home and read."


def reviews(run):
    (part,) = run.artifacts[1].parts
    return part["data"]["reviews"]


async def test_three_reviews_and_a_verdict():
    run = await testing.run(Reviewer, FAULTY)
    begun, *told = run.recorder.progress
    assert begun == "Reading 13 words, three times at once…"
    assert {line.split(":")[0] for line in told} == {"Clarity", "Correctness", "Tone"}
    page = content(run, "review.md")
    assert page.startswith("# Revise\n\nThe weakest side is correctness")
    assert "“The the” stands twice." in page
    assert "“(” and “)” do not come in pairs (1 and 0)." in page
    assert run.said.startswith("Revise.")
    assert run.said.endswith(NOTE)


async def test_another_text_is_another_review():
    sound, faulty = await testing.run(Reviewer, SOUND), await testing.run(Reviewer, FAULTY)
    assert sound.said.startswith("Ready.")
    assert {aspect: review["score"] for aspect, review in reviews(sound).items()} == dict.fromkeys(REVIEWS, 10)
    assert all(review["score"] < 10 for review in reviews(faulty).values())


@pytest.mark.parametrize(
    ("review", "text", "remark"),
    [
        (script.clarity, f"{'This goes on and ' * 8}ends.", "33 words in one sentence"),
        (script.clarity, "The door was opened by Ann.", "The passive 1 time"),
        (script.clarity, "Institutional considerations necessitate comprehensive deliberation.", "Hard to read"),
        (script.correctness, "You recieve it.", "“recieve” is spelt “receive”."),
        (script.correctness, "It ends. then it begins.", "A sentence begins with a small letter"),
        (script.tone, "This is stupid.", "“stupid” may hurt"),
        (script.tone, "READ THIS now.", "“READ” in capitals"),
        (script.tone, "Maybe it is perhaps so, possibly.", "3 hedges (Maybe, perhaps, possibly)"),
    ],
)
def test_what_is_remarked_on(review, text, remark):
    found = review(text)
    assert any(one.startswith(remark) or remark in one for one in found.remarks), found
    assert found.score < 10


def test_a_sound_text_is_not_remarked_on():
    for review in (script.clarity, script.correctness, script.tone):
        assert review(SOUND).remarks == []


@pytest.mark.parametrize(
    ("score", "decision"), [(10, "ready"), (8, "ready"), (7, "revise"), (4, "revise"), (3, "rewrite")]
)
def test_the_weakest_side_decides(score, decision):
    found = {"clarity": {"score": 10, "remarks": []}, "tone": {"score": score, "remarks": ["Too loud."]}}
    assert script.verdict(found).decision.value == decision


async def test_a_file_and_what_a_task_delivered_are_reviewed_too():
    sent = await testing.run(Reviewer, "Review this", files={"letter.md": FAULTY.encode()})
    assert "stands twice" in content(sent, "review.md")
    text = ReceivedArtifact.from_wire(Artifact.text("text.md", FAULTY, "text/markdown").wire)
    referred = await testing.run(Reviewer, "Review this", references=[ReferencedTask("other", "completed", [], [text])])
    assert content(referred, "review.md") == content(sent, "review.md")


async def test_a_text_after_a_review_is_reviewed_and_not_the_review():
    earlier = (await testing.run(Reviewer, FAULTY)).as_reference()
    run = await testing.run(Reviewer, SOUND, references=[earlier])
    assert run.said.startswith("Ready.")


@pytest.mark.parametrize("text", [empty(), "🎉🎉", "123"])
async def test_without_words_it_asks_for_a_text(text):
    asked = await testing.run(Reviewer, text)
    assert isinstance(asked.outcome, InputRequired)
    answered = await testing.run(Reviewer, SOUND, slot=asked.outcome.slot)
    assert answered.said.startswith("Ready.")


async def test_with_a_model_the_three_are_asked_at_the_same_time(endpoint: Endpoint):
    together = asyncio.Barrier(3)
    answer = calls(("final_result", {"score": 9, "remarks": []}))

    async def when_all_ask(asking):
        await together.wait()
        await answer(asking)

    verdict = calls(("final_result", {"decision": "ready", "why": "All is well."}))
    endpoint.replies = [when_all_ask, when_all_ask, when_all_ask, verdict]
    async with asyncio.timeout(20):
        run = await testing.run(Reviewer, FAULTY)
    assert run.said == "Ready. All is well."


async def test_if_one_look_fails_the_review_fails_with_its_reason(endpoint: Endpoint):
    endpoint.replies = [refuses(400, "no")] * 3
    run = await testing.run(Reviewer, FAULTY)
    assert type(run.outcome).__name__ == "Failed"
    assert run.outcome.code.startswith("model")
