"""The Writer outlines, drafts and polishes, one after the other, and changes what it wrote."""

import json

import pytest

from agentkit import Artifact, Completed, InputRequired, ReceivedArtifact, ReferencedTask, testing
from apps.showcase.agents.writer import script
from apps.showcase.agents.writer.agent import Slot, Writer
from tests.llm.endpoint import Endpoint, calls, says
from tests.showcase.saying import NOTE, content, empty

NOTES = (
    "Reefs are built by corals. Corals are animals, which live with algae. The algae need light. "
    "Warm water makes the corals lose their algae. Then the corals turn white. White corals starve within weeks. "
    "Some reefs recover. They recover in order to be numerous again. It takes ten years."
)


RECEIVED = ReceivedArtifact.from_wire(Artifact.text("text.md", NOTES, "text/markdown").wire)
DELIVERED = ReferencedTask("earlier", "completed", [], [RECEIVED])


async def test_three_steps_lead_to_a_text():
    run = await testing.run(Writer, "Write about the tides")
    assert run.recorder.progress == ["Outlining…", "Drafting 3 sections…", "Polishing…"]
    text = content(run, "text.md")
    assert text.startswith("# The tides\n\n## In short\n\n")
    assert run.said.endswith(NOTE)


async def test_another_topic_is_another_text():
    one, other = [await testing.run(Writer, f"Write about {topic}") for topic in ("the tides", "bees")]
    assert "the tides" in content(one, "text.md")
    assert "bees" in content(other, "text.md")
    assert "tides" not in content(other, "text.md")


@pytest.mark.parametrize("how", ["message", "file"])
async def test_from_notes_it_takes_their_own_sentences(how):
    files = {"notes.txt": NOTES.encode()} if how == "file" else None
    run = await testing.run(Writer, "Write a note from these" if files else NOTES, files=files)
    text = content(run, "text.md")
    assert text.count("## ") == 3
    assert "Then the corals turn white." in text
    assert "recover to be many again" in text, "polishing says it in plain words"


async def test_without_a_topic_it_asks_and_takes_the_answer():
    asked = await testing.run(Writer, empty())
    assert isinstance(asked.outcome, InputRequired)
    assert asked.outcome.slot == "brief"
    answered = await testing.run(Writer, "bees", slot=Slot.BRIEF, memory=asked.memory)
    assert content(answered, "text.md").startswith("# Bees\n")
    again = await testing.run(Writer, empty(), slot=Slot.BRIEF, memory=asked.memory)
    assert isinstance(again.outcome, InputRequired)


async def written(text: str = NOTES):
    return (await testing.run(Writer, text)).as_reference()


async def test_make_it_shorter_keeps_the_name_and_has_an_id_of_its_own():
    first = await written()
    shorter = await testing.run(Writer, "Make it shorter", references=[first])
    (new,) = shorter.artifacts
    (old,) = first.artifacts
    assert (new.name, new.description) == (old.name, old.description)
    assert new.artifact_id != old.artifact_id
    assert len(content(shorter, "text.md")) < 0.8 * len(old.parts[0]["text"])
    assert "now has" in shorter.said


async def test_it_can_be_made_ever_shorter_until_there_is_nothing_to_leave_out():
    reference, lengths = await written(), []
    for _ in range(8):
        run = await testing.run(Writer, "shorter", references=[reference])
        lengths.append(len(content(run, "text.md")))
        reference = run.as_reference()
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 150
    assert run.said.startswith("The text is like that already.")


async def test_it_becomes_a_list_and_simpler():
    first = await written()
    listed = content(await testing.run(Writer, "as a list", references=[first]), "text.md")
    assert "- Reefs are built by corals.\n- Corals are animals, which live with algae." in listed
    simple = content(await testing.run(Writer, "make it simpler", references=[first]), "text.md")
    assert "Corals are animals." in simple
    assert "which" not in simple


async def test_what_a_script_cannot_do_it_says_and_offers_what_it_can():
    first = await written()
    asked = await testing.run(Writer, "make it rhyme", references=[first])
    assert isinstance(asked.outcome, InputRequired)
    assert asked.outcome.schema["enum"] == ["shorter", "simpler", "list"]
    assert "Without a language model" in asked.said
    answered = await testing.run(Writer, "list", references=[first], slot=Slot.CHANGE)
    assert "- Reefs are built by corals." in content(answered, "text.md")


@pytest.mark.parametrize(("text", "is_wish"), [("Make it shorter", True), ("as a list", True), ("shortbread", False)])
async def test_a_change_without_a_text_is_asked_about(text, is_wish):
    run = await testing.run(Writer, text)
    assert isinstance(run.outcome, InputRequired) is is_wish
    assert ("There is no text of mine here yet." in run.said) is is_wish


async def test_another_brief_after_a_text_is_another_text():
    run = await testing.run(Writer, "Write about bees", references=[await written()])
    assert content(run, "text.md").startswith("# Bees\n")


async def test_a_file_that_is_no_text_is_declined_in_words():
    run = await testing.run(Writer, "Write about this", files={"photo.txt": b"\xff\xfe\x00\x80"})
    assert run.said == "“photo.txt” is no text. Send a text file in UTF-8, such as .txt or .md."


def test_every_change_that_is_offered_can_be_done():
    assert all(script.knows(one) for one in script.CHANGES["enum"])


async def test_with_a_model_each_step_is_given_what_the_one_before_made(endpoint: Endpoint):
    outline = {"title": "Tides", "points": ["The moon"]}
    endpoint.replies = [calls(("final_result", outline)), says("# Tides\n\nDraft."), says("Polished.")]
    run = await testing.run(Writer, "Write about the tides")
    assert isinstance(run.outcome, Completed)
    assert content(run, "text.md") == "Polished."
    assert NOTE not in run.said
    asked = [json.loads(endpoint.said(step)[-1][1]) for step in range(3)]
    assert asked[1]["outline"] == outline
    assert asked[2] == {"draft": "# Tides\n\nDraft."}


async def test_a_model_takes_any_wish(endpoint: Endpoint):
    endpoint.replies = [says("Reefs / in briefs.")]
    run = await testing.run(Writer, "make it rhyme", references=[DELIVERED])
    assert content(run, "text.md") == "Reefs / in briefs."
