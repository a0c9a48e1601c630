"""The Reviewer checks a text three times in parallel, and gives one verdict."""

import asyncio

from agentkit import Artifact, InputRequired, ReceivedArtifact, ReferencedTask, testing
from examples.agents import reviewer
from examples.agents.reviewer import REVIEWS, Reviewer
from tests.examples.saying import NOTE, content, empty
from tests.llm.endpoint import Endpoint, calls, refuses

FAULTY = "The the report is finished!!! It was written by the committee (see below."
SOUND = "It rains. We stay at home and read."


def reviews(run):
    (part,) = run.artifacts[1].parts
    return part["data"]["reviews"]


async def test_three_reviews_lead_to_a_verdict():
    faulty, sound = await testing.run(Reviewer, FAULTY), await testing.run(Reviewer, SOUND)
    begun, *told = faulty.recorder.progress
    assert begun == "Reviewing 13 words in three ways…"
    assert {line.split(":")[0] for line in told} == {"Clarity", "Correctness", "Tone"}
    page = content(faulty, "review.md")
    assert page.startswith("# Ready\n\n")
    assert "“The the” repeats a word." in page
    assert (faulty.said[-len(NOTE) :], sound.said[:6]) == (NOTE, "Ready.")
    assert reviews(faulty)["correctness"]["score"] == 8
    assert {aspect: review["score"] for aspect, review in reviews(sound).items()} == dict.fromkeys(REVIEWS, 10)


def test_what_is_remarked_on():
    for review, text, remark in (
        (reviewer.offline_clarity, f"{'This goes on and ' * 8}ends.", "33 words in one sentence"),
        (reviewer.offline_correctness, "It ends. then it begins.", "A sentence starts with a lower-case letter"),
        (reviewer.offline_tone, "READ THIS now.", "“READ” is in capitals"),
    ):
        found = review(text)
        assert any(remark in one for one in found.remarks), found
        assert found.score < 10
        assert review(SOUND).remarks == []


async def test_a_file_and_what_a_task_delivered_are_reviewed_too_and_a_text_before_an_earlier_review():
    sent = await testing.run(Reviewer, "Review this", files={"letter.md": FAULTY.encode()})
    assert "repeats a word" in content(sent, "review.md")
    text = ReceivedArtifact.from_wire(Artifact.text("text.md", FAULTY, "text/markdown").wire)
    referred = await testing.run(Reviewer, "Review this", references=[ReferencedTask("other", "completed", [], [text])])
    assert content(referred, "review.md") == content(sent, "review.md")
    run = await testing.run(Reviewer, SOUND, references=[sent.as_reference()])
    assert run.said.startswith("Ready.")


async def test_without_words_it_asks_for_a_text():
    for text in (empty(), "🎉🎉", "123"):
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
    run = await testing.run(Reviewer, FAULTY)
    assert run.said == "Ready. All is well."


async def test_if_one_look_fails_the_review_fails_with_its_reason(endpoint: Endpoint):
    endpoint.replies = [refuses(400, "no")] * 3
    run = await testing.run(Reviewer, FAULTY)
    assert type(run.outcome).__name__ == "Failed"
    assert run.outcome.code.startswith("model")
