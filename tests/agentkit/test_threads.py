"""A thread is an immutable conversation, convertible to A2A and back."""

import copy
import dataclasses
import json

import pytest

from agentkit import Message, Thread, testing

SAID = Thread().add("user", "Hello").add("agent", "Good day").add("user", "Bye")


def test_add_gives_a_new_thread_and_leaves_the_old_one():
    begun = Thread()
    grown = begun.add("user", "Hello")
    assert (len(begun), len(grown)) == (0, 1)
    assert (begun.last, grown.last.text) == (None, "Hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        grown.messages = ()
    with pytest.raises(ValueError, match="role user or agent, not 'system'"):
        begun.add("system", "x")


def test_threads_are_equal_where_the_same_was_said():
    assert Thread().add("user", "Hello").add("assistant", "Good day").add("user", "Bye") == SAID
    assert hash(SAID) == hash(SAID[:1].add("agent", [{"text": "Good day"}]).add(testing.user_message("Bye")))
    assert SAID.add("user", "Bye") != SAID
    assert Thread().add("agent", "Hello").add("agent", "Good day").add("user", "Bye") != SAID
    assert list(SAID) != SAID


def test_a_thread_is_a_sequence_of_messages():
    assert [(one.role, one.text) for one in SAID] == [("user", "Hello"), ("agent", "Good day"), ("user", "Bye")]
    assert SAID[1:] == Thread((SAID[1], SAID[2]))
    assert isinstance(SAID[-1], Message)
    assert "Good day" in repr(SAID)


def test_it_goes_to_a2a_and_back():
    wire = [
        {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hi"}, {"data": [1]}], "taskId": "t"},
        {"messageId": "m2", "role": "ROLE_AGENT", "parts": [{"url": "https://x.test/"}]},
    ]
    assert Thread.from_a2a(wire).to_a2a() == wire
    assert Thread.from_a2a(SAID.to_a2a()) == SAID
    ids = [message["messageId"] for message in SAID.add("user", "Bye").to_a2a()]
    assert len(set(ids)) == 4
    assert ids[:3] == [message["messageId"] for message in SAID.to_a2a()]


def test_what_came_in_or_goes_out_may_change_and_the_thread_does_not():
    wire, parts = [{"role": "ROLE_USER", "parts": [{"text": "Hi"}]}], [{"text": "a"}]
    thread = Thread.from_a2a(wire).add("agent", parts)
    wire[0]["parts"][0]["text"] = parts[0]["text"] = thread.to_a2a()[0]["parts"][0]["text"] = "changed"
    assert [one.text for one in thread] == ["Hi", "a"]


@pytest.mark.parametrize(
    "change",
    [
        lambda task: task.history.append(task.message),
        lambda task: task.history[0].wire.update(role="ROLE_AGENT"),
        lambda task: task.history[0].wire.__ior__({"role": "ROLE_AGENT"}),
        lambda task: task.history[0].wire["parts"].clear(),
        lambda task: task.message.parts[0].pop("text"),
        lambda task: task.message.data[0]["a"].sort(),
        lambda task: task.message.metadata["a"].append(1),
        lambda task: task.references.clear(),
    ],
)
async def test_what_was_said_cannot_be_changed(change):
    said = {"role": "ROLE_USER", "parts": [{"text": "Hi"}, {"data": {"a": [2, 1]}}], "metadata": {"a": []}}
    message = Message.from_wire(said)
    copied = copy.deepcopy(message.wire)
    copied["parts"][1]["data"]["a"].append(3)
    task = testing.task_for(message, testing.Recorder(), history=[message])
    with pytest.raises((TypeError, AttributeError)):
        change(task)
    assert json.loads(json.dumps(message.wire)) == said == task.history[0].wire


async def test_the_thread_of_a_task_ends_with_the_message_of_its_turn():
    seen = []
    await testing.run(lambda task: seen.append(Thread.of(task)), "Bye", history=SAID[:2])
    assert seen == [SAID]
