"""How a message may be written, and how it is kept."""

import pytest

from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def kept(worker, ada_at, echo):
    """Sends a message to Echo and gives the user's message as the task's history has it."""

    async def send(sent):
        task = (await ada_at("echo").send(sent)).result["task"]
        return task["history"][0]

    return send


async def test_names_may_be_in_snake_case(worker, ada_at, echo):
    sent = {
        "message": {
            "message_id": "m",
            "role": "ROLE_USER",
            "context_id": "here",
            "reference_task_ids": [],
            "parts": [{"text": "hi", "media_type": "text/markdown"}],
        },
        "configuration": {"return_immediately": True, "history_length": 5, "accepted_output_modes": ["text/plain"]},
    }
    task = (await ada_at("echo").call("SendMessage", sent)).result["task"]
    assert task["contextId"] == "here"
    assert task["history"][0]["parts"] == [{"text": "hi", "mediaType": "text/markdown"}]


async def test_unknown_fields_are_ignored_and_not_kept(kept):
    sent = message(kind="message", parts=[{"text": "hi", "kind": "text", "size": 5}], unknown={"a": 1})
    shown = await kept(sent)
    assert set(shown) == {"messageId", "role", "parts", "contextId", "taskId"}
    assert shown["parts"] == [{"text": "hi"}]


async def test_null_means_absent(kept):
    shown = await kept(message(contextId=None, taskId=None, metadata=None, parts=[{"text": "hi", "raw": None}]))
    assert shown["parts"] == [{"text": "hi"}]
    assert "metadata" not in shown


async def test_an_empty_text_is_a_text(kept):
    assert (await kept(message("")))["parts"] == [{"text": ""}]


async def test_roles_may_be_numbers(kept):
    assert (await kept(message(role=1)))["role"] == "ROLE_USER"


async def test_lengths_may_be_strings(worker, ada_at, echo, subtests):
    for length in ("1", 1.0, 1):
        with subtests.test(repr(length)):
            assert len((await ada_at("echo").send(message(), historyLength=length)).result["task"]["history"]) == 1


async def test_base64_is_read_in_each_of_its_forms_and_kept_in_one(kept, subtests):
    for written in ("+/8=", "-_8=", "+/8", "-_8"):
        with subtests.test(written):
            assert (await kept(message(parts=[{"raw": written}])))["parts"] == [{"raw": "+/8="}]


async def test_a_file_name_is_cut_to_its_last_component(kept, subtests):
    names = {
        "a.csv": "a.csv",
        "/etc/passwd": "passwd",
        "..\\..\\b.txt": "b.txt",
        "c/..": "",
        "d/": "",
        "ü 1.txt": "ü 1.txt",
    }
    for written, name in names.items():
        with subtests.test(written):
            [part] = (await kept(message(parts=[{"text": "x", "filename": written}])))["parts"]
            assert part.get("filename", "") == name


async def test_numbers_that_no_double_holds_become_the_nearest(kept):
    numbers = {"exact": 2**53 - 1, "large": 2**60 + 1, "huge": 10**300, "small": 1e-300, "whole": 5, "half": 0.5}
    shown = (await kept(message(parts=[{"data": numbers}])))["parts"][0]["data"]
    # A database may write a double's digits out; what a reader takes as doubles is the same.
    doubles = {name: float(number) for name, number in shown.items()}
    assert doubles == {name: float(number) for name, number in numbers.items()}


async def test_every_character_that_may_be_sent_comes_back(kept):
    text = "".join(map(chr, range(1, 0x250))) + "\u2028\ufffe\U0001f600\U0010ffff"
    assert (await kept(message(text)))["parts"] == [{"text": text}]


async def test_a_media_type_may_have_parameters_and_any_case(worker, ada_at, countdown):
    sent = message(parts=[{"text": "1", "mediaType": "Text/Plain; charset=utf-8"}])
    assert (await ada_at("countdown").send(sent)).result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_what_a_skill_takes_the_agent_takes(worker, ada_at, countdown):
    countdown.skills[0]["inputModes"] = ["image/*"]
    await countdown.asave()
    sent = message(parts=[{"text": "1"}, {"raw": "aGk=", "mediaType": "image/png"}])
    assert (await ada_at("countdown").send(sent)).result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_tenant_that_names_the_agent_is_fine(ada_at, echo):
    assert (await ada_at("echo").call("ListTasks", {"tenant": "echo"})).result["tasks"] == []
