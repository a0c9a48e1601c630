"""Agents call others in one process here; tests/engine covers crashes."""

import asyncio

import pytest

from agentkit import (
    Artifact,
    Call,
    ChildFailed,
    Completed,
    Failed,
    HandlerError,
    InputRequired,
    Rejected,
    answer,
    as_handler,
    testing,
)


async def failing(task):
    return Failed("The oven is broken.", "oven")


async def asking(task):
    return InputRequired("Which one?", slot="one", schema={"type": "string"})


AGENTS = {
    "shout": lambda text: Artifact.text("loud", text.upper()),
    "failing": failing,
    "asking": asking,
    "rejecting": lambda task: Rejected("Not me."),
    "passing": lambda task: task.call("failing", "hello"),
}


async def run(caller, **agents):
    return await testing.run(caller, "go", agents=agents or AGENTS)


async def test_messages_files_artifacts_and_data_are_said_to_a_child_and_what_it_delivers_comes_back():
    async def saying(task):
        return {"text": task.message.text, "data": task.message.data, "files": [file.name for file in task.files]}

    async def caller(task):
        binary = Artifact.bytes("a.bin", b"a", "application/octet-stream")
        result = await task.call("saying", [task.message, binary, {"n": 1}, "and this", *task.files])
        return [Artifact(result.artifacts[0].parts), Artifact.text("state", result.state)]

    done = await testing.run(caller, "hello", files={"b.txt": b"b"}, agents={"saying": saying})
    said = {"text": "hello\nand this", "data": [{"n": 1}], "files": ["b.txt", "a.bin", "b.txt"]}
    assert [one.parts for one in done.artifacts] == [
        [{"data": said}],
        [{"text": "completed", "mediaType": "text/plain"}],
    ]

    async def mumbling(task):
        await task.call("shout", 5)

    with pytest.raises(TypeError, match="not of int"):
        await run(mumbling)


async def test_a_child_that_does_not_complete_fails_its_caller_unless_that_looks():
    for agent, words in (("failing", "The oven is broken."), ("rejecting", "Not me.")):

        async def caller(task, agent=agent):
            await task.call(agent, "hello")

        async def looking(task, agent=agent):
            result = await task.call(agent, "hello", check=False)
            return Completed(f"{result.state}: {result.text}")

        async def catching(task, agent=agent):
            try:
                await task.call(agent, "hello", key="third")
            except ChildFailed as failed:
                return Completed(f"{failed.result.key}: {failed.result.text}")

        outcome = (await run(caller)).outcome
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.metadata) == ("child_failed", {"failedAgent": agent})
        assert outcome.parts[0]["text"].endswith(words)
        assert (await run(looking)).said.endswith(f": {words}")
        assert (await run(catching)).said == f"third: {words}"


async def test_a_failure_names_the_agent_at_fault_alone():
    async def caller(task):
        await task.call("passing", "hello")

    failed = (await run(caller)).outcome
    assert failed.parts[0]["text"] == "Failing failed: The oven is broken."
    assert failed.metadata == {"failedAgent": "failing"}


async def test_calls_side_by_side_are_made_at_once_and_given_in_order_with_their_keys():
    meeting = asyncio.Barrier(3)

    async def meet(task):
        await meeting.wait()
        return task.message.text

    async def caller(task):
        results = await task.gather(Call("meet", "a", key="first"), Call("meet", "b"), Call("meet", "c", key="last"))
        assert [result.key for result in results] == ["first", None, "last"]
        return Completed("".join(result.text for result in results))

    assert (await run(caller, meet=meet)).said == "abc"


async def test_results_come_as_they_are_there():
    let_go = {name: asyncio.Event() for name in "ab"}
    let_go["b"].set()

    async def wait(task):
        await let_go[task.message.text].wait()
        return task.message.text

    async def caller(task):
        said = []
        async for result in task.as_completed(Call("wait", "a"), Call("wait", "b")):
            said.append(result.text)
            let_go["a"].set()
        return Completed("".join(said))

    assert (await run(caller, wait=wait)).said == "ba"


async def test_a_handler_in_a_thread_calls_in_the_same_ways():
    def caller(task):
        one = task.call("shout", "a")
        more = task.gather(Call("shout", "b"), Call("shout", "c"))
        last = list(task.as_completed(Call("shout", "d")))
        return Completed("".join(result.artifacts[0].parts[0]["text"] for result in [one, *more, *last]))

    assert (await run(caller)).said == "ABCD"


async def test_a_child_that_asks_ends_the_turn_with_its_question():
    async def caller(task):
        try:
            await task.call("asking", "hello")
        except Exception:
            return "an except Exception lets it pass"

    def in_a_thread(task):
        task.call("asking", "hello")

    for handler in (caller, in_a_thread):
        question = InputRequired("Which one?", slot="one", schema={"type": "string"})
        assert (await run(handler)).outcome == question


async def test_progress_of_a_child_is_progress_of_its_caller():
    async def stepping(task):
        await task.progress("step 1 of 1")

    async def caller(task):
        await task.call("stepping", "hello")

    assert (await run(caller, stepping=stepping)).recorder.progress == ["Stepping: step 1 of 1"]


async def test_a_call_of_nobody_or_in_a_circle_fails_in_words_and_in_an_answer_at_once_it_is_an_error():
    async def again(task):
        await task.call("again", "again")

    assert "8 levels deep" in (await run(again, again=again)).said
    unknown = Failed("There is no agent 'again' to be called.", "unknown_agent")
    assert (await run(again)).outcome == unknown
    with pytest.raises(HandlerError, match="can only be called from a task"):
        await answer(as_handler(again), testing.user_message("go"))


def test_a_call_names_what_it_starts_after():
    call = Call("echo", "x", after=["one"], references=["two"])
    assert (call.metadata, call.reference_ids) == ({"dependsOn": ["one"]}, ["two"])
