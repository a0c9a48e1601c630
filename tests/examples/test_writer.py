"""The Writer outlines, drafts, polishes, and revises."""

import json

from agentkit import Artifact, Completed, InputRequired, ReceivedArtifact, ReferencedTask, testing
from examples.agents.writer import Slot, Writer
from tests.examples.saying import NOTE, content
from tests.llm.endpoint import Endpoint, calls, says

NOTES = (
    "Reefs are built by corals. Corals are animals, which live with algae. The algae need light. "
    "Warm water makes the corals lose their algae. Then the corals turn white. White corals starve within weeks. "
    "Some reefs recover. Ten years is very long."
)


RECEIVED = ReceivedArtifact.from_wire(Artifact.text("text.md", NOTES, "text/markdown").wire)
DELIVERED = ReferencedTask("earlier", "completed", [], [RECEIVED])


async def test_it_polishes_in_rounds_and_shows_them():
    run = await testing.run(Writer, "Write about the tides")
    rounds = ["Round 1: Leave out “really”.", "Round 2: Say only once: “Give a number that can be checked.”"]
    assert run.recorder.progress == ["Outlining…", "Drafting 3 sections…", *(f"Polishing. {one}" for one in rounds)]
    assert all(f"- {one}" in run.said for one in rounds)
    text = content(run, "text.md")
    assert (text.count("really"), text.count("Give a number")) == (0, 1)
    assert text.startswith("# The tides\n\n## In short\n\n")
    assert run.said.endswith(NOTE)
    other = await testing.run(Writer, "Write about bees", references=[run.as_reference()])
    assert content(other, "text.md").startswith("# Bees\n")
    assert "tides" not in content(other, "text.md")


async def test_from_notes_it_takes_their_own_sentences():
    from_file = await testing.run(Writer, "Write a note from these", files={"notes.txt": NOTES.encode()})
    for run in (from_file, await testing.run(Writer, NOTES)):
        text = content(run, "text.md")
        assert text.count("## ") == 3
        assert "Then the corals turn white." in text
        assert "is very" not in text
    assert "Polishing. Round 1: Leave out “very”." in from_file.recorder.progress


async def written(text: str = NOTES):
    return (await testing.run(Writer, text)).as_reference()


async def test_it_can_be_made_ever_shorter_until_there_is_nothing_to_leave_out():
    reference, lengths = await written(), []
    (old,) = reference.artifacts
    for _ in range(8):
        run = await testing.run(Writer, "Make it shorter", references=[reference])
        (new,) = run.artifacts
        assert (new.name, new.description) == (old.name, old.description)
        assert new.artifact_id != old.artifact_id
        lengths.append(len(content(run, "text.md")))
        reference = run.as_reference()
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0]
    assert run.said.startswith("The text is like that already.")


async def test_what_a_script_cannot_do_it_says_and_offers_what_it_can():
    first = await written()
    asked = await testing.run(Writer, "make it rhyme", references=[first])
    assert isinstance(asked.outcome, InputRequired)
    assert asked.outcome.schema["enum"] == ["shorter", "list"]
    assert "Without a language model" in asked.said
    answered = await testing.run(Writer, "list", references=[first], slot=Slot.CHANGE)
    assert "- Reefs are built by corals." in content(answered, "text.md")


async def test_with_a_model_each_step_is_given_what_the_one_before_made(endpoint: Endpoint):
    outline = {"title": "Tides", "points": ["The moon"]}
    bad = calls(("final_result", {"is_good": False, "remarks": ["Plainer."]}))
    good = calls(("final_result", {"is_good": True}))
    endpoint.replies = [calls(("final_result", outline)), says("# Tides\n\nDraft."), bad, says("Polished."), good]
    run = await testing.run(Writer, "Write about the tides")
    assert isinstance(run.outcome, Completed)
    assert content(run, "text.md") == "Polished."
    assert NOTE not in run.said
    asked = [json.loads(endpoint.said(step)[-1][1]) for step in range(4)]
    assert asked[1]["outline"] == outline
    assert asked[3] == {"text": "# Tides\n\nDraft.", "remarks": ["Plainer."]}
    endpoint.replies = [says("Reefs / in briefs.")]
    run = await testing.run(Writer, "make it rhyme", references=[DELIVERED])
    assert content(run, "text.md") == "Reefs / in briefs.", "a model takes any wish"
