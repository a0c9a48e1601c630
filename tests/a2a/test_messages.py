"""Forms and storage of messages; accepted and produced media types."""

import pytest

import db
from apps.record.models import Context
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kept(worker, ada_at, echo):
    async def send(sent):
        task = (await ada_at("echo").send(sent)).result["task"]
        return task["history"][0]

    return send


async def test_names_may_be_in_snake_case(ada_at, echo):
    sent = {
        "message": {
            "message_id": "m",
            "role": 1,
            "context_id": "here",
            "reference_task_ids": [],
            "parts": [{"text": "hi", "media_type": "text/markdown"}],
        },
        "configuration": {"return_immediately": True, "history_length": 5, "accepted_output_modes": ["text/plain"]},
    }
    task = (await ada_at("echo").call("SendMessage", sent)).result["task"]
    assert task["contextId"] == "here"
    assert task["history"][0]["parts"] == [{"text": "hi", "mediaType": "text/markdown"}]
    assert task["history"][0]["role"] == "ROLE_USER"


async def test_unknown_fields_are_ignored_and_not_kept_and_null_means_absent(kept):
    absent = {"contextId": None, "taskId": None, "metadata": None}
    part = {"text": "", "kind": "text", "size": 5, "raw": None}
    shown = await kept(message(kind="message", parts=[part], unknown={"a": 1}, **absent))
    assert set(shown) == {"messageId", "role", "parts", "contextId", "taskId"}
    assert shown["parts"] == [{"text": ""}]


async def test_lengths_may_be_strings(worker, ada_at, echo):
    for length in ("1", 1.0, 1):
        task = (await ada_at("echo").send(message(), historyLength=length)).result["task"]
        assert len(task["history"]) == 1, length


async def test_base64_is_read_in_each_of_its_forms_and_a_file_name_cut_to_its_last_component(kept):
    names = {"a.csv": "a.csv", "/etc/passwd": "passwd", "..\\..\\b.txt": "b.txt", "c/..": "", "d/": "", "ü 1": "ü 1"}
    sent = [{"raw": written} for written in ("+/8=", "-_8=", "+/8", "-_8")]
    parts = (await kept(message(parts=[*sent, *({"text": "x", "filename": name} for name in names)])))["parts"]
    assert parts[:4] == [{"raw": "+/8="}] * 4
    assert [part.get("filename", "") for part in parts[4:]] == [*names.values()]


@pytest.mark.services("what JSON holds is each database's own")
async def test_every_character_and_number_that_may_be_sent_comes_back(kept):
    text = "".join(map(chr, range(1, 0x250))) + "\u2028\ufffe\U0001f600\U0010ffff"
    numbers = {"exact": 2**53 - 1, "large": 2**60 + 1, "huge": 10**300, "small": 1e-300, "whole": 5, "half": 0.5}
    shown = (await kept(message(parts=[{"text": text}, {"data": numbers}])))["parts"]
    assert shown[0] == {"text": text}
    # The database may write a double differently; as doubles they are equal. Whole numbers keep their digits.
    assert {name: type(numbers[name])(number) for name, number in shown[1]["data"].items()} == numbers


async def test_an_agent_takes_what_it_or_a_skill_of_it_takes(ada_at, countdown):
    countdown.skills[0]["inputModes"] = ["image/*"]
    await countdown.asave()
    parts = [{"text": "1", "mediaType": "Text/Plain; charset=utf-8"}, {"raw": "aGk=", "mediaType": "image/png"}]
    assert "result" in (await ada_at("countdown").send(message(parts=parts), returnImmediately=True)).body
    refused = await ada_at("countdown").send(message(parts=[{"raw": "aGk=", "mediaType": "audio/wav"}]))
    assert refused.code == -32005


async def test_a_message_is_refused_before_it_is_stored_if_its_sender_can_use_nothing_that_the_agent_makes(
    ada_at, countdown, echo, subtests
):
    countdown.output_modes = ["text/plain", "text/markdown"]
    countdown.skills[0]["outputModes"] = ["application/pdf"]
    await countdown.asave()
    for accepted in (["image/png"], ["audio/*", "image/*"], ["text/html"], ["plain/text"]):
        for method in ("SendMessage", "SendStreamingMessage"):
            with subtests.test(f"{accepted} by {method}"):
                sent = {"message": message("1"), "configuration": {"acceptedOutputModes": accepted}}
                answer = await ada_at("countdown").call(method, sent)
                assert (answer.code, answer.reason) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")
                assert "text/plain, text/markdown" in answer.error["message"]
    assert not await db.run(Context.objects.exists)
    usable = ([], ["TEXT/Markdown; charset=utf-8"], ["image/png", "application/pdf"], ["text/*"], ["*/*"], ["text"])
    for accepted in (*usable, ["image/png", "file"]):
        with subtests.test(str(accepted)):
            how = {"acceptedOutputModes": accepted, "returnImmediately": True}
            assert "result" in (await ada_at("countdown").send(message("1"), **how)).body
    anything = {"acceptedOutputModes": ["image/png"], "returnImmediately": True}
    assert "result" in (await ada_at("echo").send(message("hi"), **anything)).body
