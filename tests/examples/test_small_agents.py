"""Hello, Echo and Countdown."""

import asyncio
import base64

import pytest

from agentkit import InputRequired, ResponseType, answer, as_handler, data_part, drive, testing
from agentkit.messages import text_part
from examples.agents.countdown import Countdown
from examples.agents.echo import Echo
from examples.agents.hello import Hello
from tests.examples.saying import form


@pytest.fixture
def at_once(monkeypatch):
    """A countdown without pauses."""
    monkeypatch.setattr("examples.agents.countdown.SECONDS_BETWEEN", 0)


async def test_hello_answers_with_a_message_that_uses_the_text():
    message = testing.user_message("I am  Ada.\n")
    handler = as_handler(Hello)
    assert handler.select_response_type(message) is ResponseType.MESSAGE
    (part,) = (await answer(handler, message)).parts
    assert part["text"] == "Hello! You said “I am Ada.”. It is good to hear from you."
    (part,) = (await answer(handler, testing.user_message(" "))).parts
    assert part["text"].startswith("Hello! Send me")


async def test_echo_returns_text_and_files_as_they_were():
    run = await testing.run(Echo, "Grüße\nfrom afar ")
    assert run.said == run.artifacts[0].parts[0]["text"] == "Grüße\nfrom afar "
    assert run.emissions == []
    every_byte = bytes(range(256))
    run = await testing.run(Echo, "", files={"a.bin": every_byte, "b.csv": b""})
    assert run.said == ""
    returned = [(a.name, a.parts[0]["filename"], a.parts[0]["mediaType"], a.parts[0]["raw"]) for a in run.artifacts]
    assert returned == [
        ("a.bin", "a.bin", "application/octet-stream", base64.b64encode(every_byte).decode()),
        ("b.csv", "b.csv", "text/csv", ""),
    ]


@pytest.mark.usefixtures("at_once")
async def test_a_countdown_is_one_artifact_with_a_chunk_for_each_number():
    for text, count in (("3", 3), ("from 12 to 0", 12), ("T-4", 4), ("1,000 steps", 1000), ("3,2,1", 3), ("go", 10)):
        run = await testing.run(Countdown, text)
        chunks = run.recorder.chunks
        assert [chunk.parts for chunk in chunks] == [[text_part(f"{number}\n")] for number in range(count, 0, -1)], text
        assert [chunk.last for chunk in chunks] == [False] * (count - 1) + [True]
        assert [chunk.append for chunk in chunks] == [False] + [True] * (count - 1)
        assert {(chunk.artifact_id, chunk.name) for chunk in chunks} == {(chunks[0].artifact_id, "countdown")}
        assert run.said == "Lift-off."
    run = await testing.run(Countdown, "0")
    assert (run.said, run.emissions) == ("Lift-off.", [])
    assert run.artifacts[0].parts[0]["text"] == "0\n"


async def test_a_number_out_of_range_is_asked_for_again():
    for text in ("-5", "−5", "10001", "10,001", "9" * 5000):
        run = await testing.run(Countdown, text)
        assert isinstance(run.outcome, InputRequired), text
        assert (run.outcome.slot, run.emissions) == ("start", [])
        schema = run.outcome.schema
        assert (schema["type"], schema["minimum"], schema["maximum"]) == ("integer", 0, 10_000)


@pytest.mark.usefixtures("at_once")
async def test_the_answer_may_be_text_or_a_form():
    number = {"messageId": "m", "role": "ROLE_USER", "parts": [data_part(2.0)]}
    for reply in ("2, please", form(start=2), form(start="2"), number):
        run = await testing.run(Countdown, reply, slot="start")
        assert len(run.recorder.chunks) == 2, reply
    for reply in ("two", "-2", form(begin=2), form(start=float("inf")), form(start=True)):
        run = await testing.run(Countdown, reply, slot="start")
        assert isinstance(run.outcome, InputRequired), reply


async def test_a_countdown_stops_at_once():
    recorder = testing.Recorder()
    task = testing.task_for(testing.user_message("10000"), recorder)
    driving = asyncio.ensure_future(drive(as_handler(Countdown), task))
    await recorder.heard.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert len(recorder.chunks) == 1
