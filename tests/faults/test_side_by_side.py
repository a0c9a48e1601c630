"""Many at once: tasks of one context, messages to one task."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.faults.calling import JSON, Caller, message, text_of
from tests.faults.test_killed_workers import assert_it_is_whole
from tests.stack import Stack


def test_16_tasks_of_one_context_stream_at_once_and_all_complete(frail: Stack, countdown: Caller) -> None:
    context = str(uuid.uuid4())
    first = countdown.send("1", contextId=context)

    def streamed(start: int) -> str:
        """The text of all chunks of a countdown, as they came."""
        said = message(str(start), contextId=context)
        with countdown.streaming("SendStreamingMessage", message=said) as events:
            everything = list(events)
        assert everything[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        return "".join(text_of(one["artifactUpdate"]["artifact"]) for one in everything if "artifactUpdate" in one)

    starts = range(30, 46)
    with ThreadPoolExecutor(16) as callers:
        texts = list(callers.map(streamed, starts))
    assert texts == ["".join(f"{number}\n" for number in range(start, 0, -1)) for start in starts]
    assert_it_is_whole(frail, first)


def test_two_messages_sent_at_the_same_moment_are_both_in_the_tasks_history(frail: Stack, patient: Caller) -> None:
    task = patient.send("20")
    patient.wait_until_streaming(task, chunks=1)

    def say(text: str) -> JSON:
        return patient.send(text, taskId=task["id"])

    with ThreadPoolExecutor(2) as callers:
        list(callers.map(say, ["3", "4"]))
    done = patient.ended(task, within=20)
    said = [text_of(one) for one in done["history"] if one["role"] == "ROLE_USER"]
    assert said[0] == "20"
    assert sorted(said[1:]) == ["3", "4"]
    assert_it_is_whole(frail, task)
