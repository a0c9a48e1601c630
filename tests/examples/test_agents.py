"""Each example agent does what it is shown for, with and without a language model."""

import base64
import datetime

import pytest
from pydantic import ValidationError

from agentkit import AuthRequired, InputRequired, Passage, ResponseType, answer, as_handler, testing
from agentkit.content.messages import text_part
from agentkit.runner import select_response_type
from examples.agents.builder import Assignment, Builder, Plan
from examples.agents.countdown import Countdown
from examples.agents.echo import Echo
from examples.agents.hello import Hello
from examples.agents.librarian import Librarian
from examples.agents.reviewer import REVIEWS, Reviewer
from examples.agents.smart_router import ROUTES, SmartRouter
from examples.agents.travel import Departure, Travel
from examples.agents.writer import Writer
from tests.examples.saying import HANDLERS, NOTE, content, form, names_of

# Hello, Echo and Countdown


async def test_hello_answers_with_a_message():
    handler, said = as_handler(Hello), testing.user_message("I am  Ada.\n")
    assert handler.select_response_type(said) is ResponseType.MESSAGE
    (part,) = (await answer(handler, said)).parts
    assert part["text"] == "Hello! You said “I am Ada.”. It is good to hear from you."


async def test_echo_returns_text_and_files():
    every_byte = bytes(range(256))
    run = await testing.run(Echo, "Grüße\nfrom afar ", files={"a.bin": every_byte, "b.csv": b""})
    assert run.said == run.artifacts[0].parts[0]["text"] == "Grüße\nfrom afar "
    returned = [(a.parts[0]["filename"], a.parts[0]["mediaType"], a.parts[0]["raw"]) for a in run.artifacts[1:]]
    assert returned == [
        ("a.bin", "application/octet-stream", base64.b64encode(every_byte).decode()),
        ("b.csv", "text/csv", ""),
    ]


async def test_countdown_streams_one_artifact(monkeypatch):
    monkeypatch.setattr("examples.agents.countdown.SECONDS_BETWEEN", 0)
    for text, count in (("3", 3), ("from 12 to 0", 12), ("T-4", 4), ("1,000 steps", 1000), ("go", 10)):
        run = await testing.run(Countdown, text)
        chunks = run.recorder.chunks
        assert [chunk.parts for chunk in chunks] == [[text_part(f"{number}\n")] for number in range(count, 0, -1)], text
        assert [chunk.last for chunk in chunks] == [False] * (count - 1) + [True]
        assert {(chunk.artifact_id, chunk.name) for chunk in chunks} == {(chunks[0].artifact_id, "countdown")}
    for text in ("-5", "−5", "10,001", "9" * 5000):
        run = await testing.run(Countdown, text)
        assert isinstance(run.outcome, InputRequired), text
    for reply, count in (("2, please", 2), (form(start="2"), 2), ("two", 0), (form(start=True), 0)):
        assert len((await run.answer(reply)).recorder.chunks) == count, reply


# Writer

NOTES = (
    "Reefs are built by corals. Corals are animals, which live with algae. The algae need light. "
    "Warm water makes the corals lose their algae. Then the corals turn white. White corals starve within weeks. "
    "Some reefs recover. Ten years is very long."
)


async def test_writer_polishes_in_rounds_and_shows_them():
    run = await testing.run(Writer, "Write about the tides")
    rounds = ["Round 1: Leave out “really”.", "Round 2: Say only once: “Give a number that can be checked.”"]
    assert run.recorder.progress == ["Outlining…", "Drafting 3 sections…", *(f"Polishing. {one}" for one in rounds)]
    text = content(run, "text.md")
    assert (text.count("really"), text.count("Give a number")) == (0, 1)
    assert text.startswith("# The tides\n\n## In short\n\n")
    assert run.said.endswith(NOTE)


# Builder


async def test_builder_plans_files_and_has_each_written():
    run = await testing.run(Builder, "A website about bees <script>alert(1)</script>", agents=HANDLERS)
    assert names_of(run) == ["index.html", "about.html", "style.css"]
    first, second, *told = run.recorder.progress
    assert (first, second) == ("Planning…", "Writing 3 files…")
    assert [line[:11] for line in told] == ["File 1 of 3", "File 2 of 3", "File 3 of 3"]
    page = content(run, "index.html")
    assert "bees</title>" in page
    assert '<a href="about.html">' in page
    assert "<script>" not in page
    assert run.said.endswith(NOTE)
    for brief, names in (("Notes on tides", ["README.md", "notes.md"]), ("a.html and b.json", ["a.html", "b.json"])):
        assert names_of(await testing.run(Builder, brief, agents=HANDLERS)) == names


def test_names_of_files_stay_within_the_project():
    for name in ("../up.txt", "/etc/passwd", "a/../b", ".hidden", "a b", "a//b", "", "x" * 101):
        with pytest.raises(ValidationError):
            Assignment(name=name, purpose="x", brief="x")
    assert Assignment(name="docs/a_b-c.d.md", purpose="x", brief="x")
    for names in (["a.md", "a.md"], [f"{number}.md" for number in range(7)]):
        with pytest.raises(ValidationError):
            Plan.model_validate({"files": [{"name": name, "purpose": "x"} for name in names]})


# Reviewer

SOUND = "It rains. We stay at home and read."
FAULTY = f"The the report is finished!!! it was written (see below. READ THIS: {'it goes on and ' * 8}ends."


async def test_three_reviews_lead_to_a_verdict():
    faulty, sound = await testing.run(Reviewer, FAULTY), await testing.run(Reviewer, SOUND)
    assert {line.split(":")[0] for line in faulty.recorder.progress[1:]} == {"Clarity", "Correctness", "Tone"}
    page = content(faulty, "review.md")
    for remark in (
        "“The the” repeats a word.",
        "words in one sentence",
        "a lower-case letter",
        "“READ” is in capitals",
    ):
        assert remark in page
    assert (faulty.said[-len(NOTE) :], sound.said[:6]) == (NOTE, "Ready.")
    reviews = sound.artifacts[1].parts[0]["data"]["reviews"]
    assert {aspect: review["score"] for aspect, review in reviews.items()} == dict.fromkeys(REVIEWS, 10)
    sent = await testing.run(Reviewer, "Review this", files={"letter.md": FAULTY.encode()})
    assert content(sent, "review.md") == page
    asked = await testing.run(Reviewer, "🎉🎉")
    assert (await asked.answer(SOUND)).said.startswith("Ready.")


# The smart router


async def test_router_answers_small_talk_with_a_message():
    for text in ("hello", "What can you do?", "🎉", "thanks a lot"):
        assert await select_response_type(SmartRouter(), testing.user_message(text)) is ResponseType.MESSAGE, text
        run = await testing.run(SmartRouter, text)
        assert run.skill == "talk"
        assert all(route.name in run.said for route in ROUTES)


async def test_router_passes_work_to_the_agent_for_it():
    for text, agent in (
        ("Review this: The the cat.", "reviewer"),
        ("Write about bees", "writer"),
        ("Build a website about bees", "builder"),
        ("A trip", "travel"),
    ):
        assert await select_response_type(SmartRouter(), testing.user_message(text)) is ResponseType.TASK, text
        run = await testing.run(SmartRouter, text, agents=HANDLERS)
        assert run.skill == agent
        assert run.recorder.progress[0] == f"{agent.capitalize()} is working on this…"
    assert run.outcome == InputRequired("Where would you like to go?", "Destination", run.outcome.schema)
    named = testing.user_message("bees").wire | {"metadata": {"skillId": "writer"}}
    run = await testing.run(SmartRouter, named, agents=HANDLERS)
    assert run.artifacts[0].parts[0]["text"].startswith("# Bees")
    assert run.said.startswith("Here is “Bees”")


# Travel

KEY = {"payments": "a-key"}
TODAY = datetime.date.today()
TOMORROW = TODAY + datetime.timedelta(1)


async def test_days_in_words_are_understood():
    monday = 7 - TODAY.weekday()
    for text, days in (("next Monday", monday), ("the day after tomorrow", 2), ("in two weeks", 14), ("two", 0)):
        run = await testing.run(Travel, text, slot=Departure, memory={"trip": {}})
        found = {"date": (TODAY + datetime.timedelta(days)).isoformat()} if days else {}
        assert run.memory["trip"] == found, text


async def test_travel_asks_one_thing_after_the_other():
    for answers in (
        ("Oslo", "tomorrow", "3"),
        (form(destination="Oslo"), form(date=TOMORROW.isoformat()), form(travellers=3)),
    ):
        run = await testing.run(Travel, "I want to go away")
        for slot, said in zip(("Destination", "Departure", "Travellers"), answers, strict=True):
            assert run.outcome.slot == slot
            run = await run.answer(said)
        assert isinstance(run.outcome, AuthRequired)
        assert (run.outcome.service, run.outcome.slot) == ("payments", "payment")
        assert run.said.startswith(f"Three days in Oslo for 3 travelers, from {TOMORROW:%A}")
    refused = await testing.run(Travel, "2020-11-20", slot=Departure, memory={"trip": {}})
    assert "20 November 2020 is in the past." in refused.said


async def test_a_key_leads_to_the_itinerary():
    session: dict[str, object] = {}
    asked = await testing.run(Travel, "Two of us to Lisbon on 3 May", session=session)
    run = await asked.answer(credentials=KEY)
    page = content(run, "itinerary.md")
    assert page.startswith("# Three days in Lisbon\n")
    assert "nothing is paid" in page
    assert "a-key" not in page + run.said
    changed = await testing.run(
        Travel, "five people", credentials=KEY, references=[run.as_reference()], session=session
    )
    assert "5 travelers, 3 rooms" in content(changed, "itinerary.md")
    declined = await testing.run(Travel, "Without payment", session=session)
    assert "You would pay on arrival." in content(declined, "itinerary.md")
    named = form(destination="<b>[Atlantis](x)</b>", date=TOMORROW.isoformat(), travellers=1)
    run = await testing.run(Travel, named, credentials=KEY)
    assert content(run, "itinerary.md").startswith("# Three days in &lt;b&gt;\\[Atlantis"), "a name is no markup"


async def test_librarian_quotes_and_cites():
    passages = [Passage("# Hotels\nAt most *120* euros.", "travel.md", "/knowledge/passages/0a1b2c3d4e")]
    run = await testing.run(Librarian, "What may a hotel cost?", passages=passages)
    assert run.said == (r'> At most \*120\* euros. [1](/knowledge/passages/0a1b2c3d4e "travel.md")')
    assert "files" in (await testing.run(Librarian, "What may a hotel cost?")).said
