"""Hello answers, Echo gives back, Countdown counts and stops."""

import asyncio
import base64
import hashlib

import pytest

from agentkit import InputRequired, Message, ResponseType, answer, as_handler, data_part, drive, load_handler, testing
from agentkit.parts import raw_part, text_part
from apps.showcase.agents.countdown import SECONDS_BETWEEN, Countdown
from apps.showcase.agents.echo import Echo
from apps.showcase.agents.hello import Hello


@pytest.fixture
def at_once(monkeypatch):
    """A countdown that does not wait between its numbers."""
    monkeypatch.setattr("apps.showcase.agents.countdown.SECONDS_BETWEEN", 0)


@pytest.mark.parametrize("name", ["hello:Hello", "echo:Echo", "countdown:Countdown"])
def test_each_is_described_well_enough_for_a_card(name):
    handler = load_handler(f"apps.showcase.agents.{name}")
    assert handler.name
    assert handler.description
    assert all(skill.wire["tags"] and skill.wire["description"] for skill in handler.skills)


async def test_hello_answers_with_a_message_that_uses_the_text():
    message = testing.user_message("I am  Ada.\n")
    handler = as_handler(Hello)
    assert handler.select_response_type(message) is ResponseType.MESSAGE
    (part,) = (await answer(handler, message)).parts
    assert part["text"] == "Hello! You said “I am Ada.”. It is good to hear from you."
    (part,) = (await answer(handler, testing.user_message(" "))).parts
    assert part["text"].startswith("Hello! Send me")


async def test_echo_returns_the_text():
    run = await testing.run(Echo, "Grüße\nfrom afar ")
    assert run.said == "Grüße\nfrom afar "
    (artifact,) = run.artifacts
    assert artifact.parts[0]["text"] == "Grüße\nfrom afar "
    assert run.emissions == []


async def test_echo_returns_files_as_they_were():
    every_byte = bytes(range(256))
    run = await testing.run(Echo, "", files={"a.bin": every_byte, "b.csv": b""})
    assert run.said == ""
    returned = [(a.name, a.parts[0]["filename"], a.parts[0]["mediaType"], a.parts[0]["raw"]) for a in run.artifacts]
    assert returned == [
        ("a.bin", "a.bin", "application/octet-stream", base64.b64encode(every_byte).decode()),
        ("b.csv", "b.csv", "text/csv", ""),
    ]


async def test_echo_returns_stored_files_links_and_data():
    content = b"x" * 1000
    stored = {"sha256": hashlib.sha256(content).hexdigest(), "size": 1000, "kind": "raw"}
    link = {"url": "https://example.org/a.png", "filename": "a.png"}
    parts = [{"stored": stored, "filename": "big.bin", "mediaType": "a/b"}, link, data_part([1])]
    wire = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    run = await testing.run(Echo, Message.from_wire(wire, lambda part: content))
    assert [list(artifact.parts) for artifact in run.artifacts] == [
        [data_part([1])],
        [raw_part(content, "big.bin", "a/b")],
        [link],
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [("3", 3), ("from 12 to 0", 12), ("T-4", 4), ("1,000 steps", 1000), ("3,2,1", 3), ("1", 1), ("go", 10), ("007", 7)],
)
@pytest.mark.usefixtures("at_once")
async def test_a_countdown_is_one_artifact_with_a_chunk_for_each_number(text, count):
    run = await testing.run(Countdown, text)
    chunks = run.recorder.chunks
    assert [chunk.parts for chunk in chunks] == [[text_part(f"{number}\n")] for number in range(count, 0, -1)]
    assert [chunk.last for chunk in chunks] == [False] * (count - 1) + [True]
    assert [chunk.append for chunk in chunks] == [False] + [True] * (count - 1)
    assert {(chunk.artifact_id, chunk.name) for chunk in chunks} == {(chunks[0].artifact_id, "countdown")}
    assert run.said == "Lift-off."


async def test_a_countdown_takes_its_time():
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await testing.run(Countdown, "5")
    assert loop.time() - begun >= 4 * SECONDS_BETWEEN * 0.99


async def test_a_countdown_from_zero_is_over_at_once():
    run = await testing.run(Countdown, "0")
    assert (run.said, run.emissions) == ("Lift-off.", [])
    assert run.artifacts[0].parts[0]["text"] == "0\n"


@pytest.mark.parametrize("text", ["-5", "−5", "10001", "10,001", "from -1 please", "9" * 5000])
async def test_a_number_out_of_range_is_asked_for_again(text):
    run = await testing.run(Countdown, text)
    assert isinstance(run.outcome, InputRequired)
    assert (run.outcome.slot, run.emissions) == ("start", [])
    assert run.outcome.schema["type"] == "integer"
    assert (run.outcome.schema["minimum"], run.outcome.schema["maximum"]) == (0, 10_000)


@pytest.mark.usefixtures("at_once")
async def test_the_answer_may_be_text_or_a_form():
    def form(data):
        return {"messageId": "m", "role": "ROLE_USER", "parts": [data_part(data)]}

    for reply in ("2, please", form({"start": 2}), form({"start": "2"}), form(2.0)):
        run = await testing.run(Countdown, reply, slot="start")
        assert len(run.recorder.chunks) == 2
    for reply in ("two", "-2", form({"begin": 2}), form(float("inf")), form(True)):
        assert isinstance((await testing.run(Countdown, reply, slot="start")).outcome, InputRequired)


async def test_a_countdown_stops_at_once():
    recorder = testing.Recorder()
    driving = asyncio.ensure_future(
        drive(as_handler(Countdown), testing.task_for(testing.user_message("10000"), recorder))
    )
    await recorder.heard.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert len(recorder.chunks) == 1
