"""An agent calls others: in the same process here; what survives a crash is the platform's (tests/runtime)."""

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
    Message,
    Rejected,
    SkillHandler,
    answer,
    testing,
)


def shout(text: str) -> Artifact:
    return Artifact.text("loud", text.upper())


async def failing(task):
    return Failed("The oven is broken.", "oven")


async def asking(task):
    return InputRequired("Which one?", slot="one", schema={"type": "string"})


AGENTS = {"shout": shout, "failing": failing, "asking": asking, "rejecting": lambda task: Rejected("Not me.")}


async def test_a_call_gives_what_the_child_said_and_delivered():
    async def caller(task):
        result = await task.call("shout", "hello")
        return [Artifact(result.artifacts[0].parts, "passed on"), Artifact.text("state", result.state)]

    run = await testing.run(caller, "go", agents=AGENTS)
    assert [one.parts for one in run.artifacts] == [
        [{"text": "HELLO", "mediaType": "text/plain"}],
        [_text("completed")],
    ]


def _text(text):
    return {"text": text, "mediaType": "text/plain"}


async def test_messages_files_artifacts_and_data_are_said_to_a_child():
    async def saying(task):
        return {"text": task.message.text, "data": task.message.data, "files": [file.name for file in task.files]}

    async def caller(task):
        whole = [
            task.message,
            Artifact.bytes("a.bin", b"a", "application/octet-stream"),
            {"n": 1},
            "and this",
            *task.files,
        ]
        return Completed(artifacts=[Artifact((await task.call("saying", whole)).artifacts[0].parts)])

    run = await testing.run(caller, "hello", files={"b.txt": b"b"}, agents={"saying": saying})
    assert run.artifacts[0].parts == [
        {"data": {"text": "hello\nand this", "data": [{"n": 1}], "files": ["b.txt", "a.bin", "b.txt"]}}
    ]


async def test_what_cannot_be_said_is_refused():
    async def caller(task):
        await task.call("shout", 5)

    with pytest.raises(TypeError, match="not of int"):
        await testing.run(caller, "go", agents=AGENTS)


@pytest.mark.parametrize(("agent", "words"), [("failing", "The oven is broken."), ("rejecting", "Not me.")])
async def test_a_child_that_does_not_complete_fails_its_caller_unless_that_looks(agent, words):
    async def caller(task):
        await task.call(agent, "hello")

    async def looking(task):
        result = await task.call(agent, "hello", check=False)
        return Completed(f"{result.state}: {result.text}")

    async def catching(task):
        try:
            await task.call(agent, "hello")
        except ChildFailed as failed:
            return Completed(failed.result.text)

    failed = await testing.run(caller, "go", agents=AGENTS)
    assert failed.outcome == Failed(f"The agent {agent!r} could not do its part: {words}", "child_failed")
    assert (await testing.run(looking, "go", agents=AGENTS)).said.endswith(f": {words}")
    assert (await testing.run(catching, "go", agents=AGENTS)).said == words


async def test_calls_side_by_side_are_made_at_once_and_given_in_order():
    meeting = asyncio.Barrier(3)

    async def meet(task):
        await meeting.wait()
        return task.message.text

    async def caller(task):
        results = await task.gather(*(Call("meet", text) for text in "abc"))
        return Completed("".join(result.text for result in results))

    assert (await testing.run(caller, "go", agents={"meet": meet})).said == "abc"


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

    assert (await testing.run(caller, "go", agents={"wait": wait})).said == "ba"


async def test_a_result_names_the_key_of_its_call():
    async def caller(task):
        keyed = [Call("shout", "a", key="first"), Call("failing", "b", key="second"), Call("shout", "c")]
        results = await task.gather(*keyed, check=False)
        assert [result.key for result in results] == ["first", "second", None]
        with pytest.raises(ChildFailed) as failed:
            await task.call("failing", "d", key="third")
        return failed.value.result.key

    assert (await testing.run(caller, "go", agents=AGENTS)).said == "third"


async def test_a_handler_in_a_thread_calls_in_the_same_ways():
    def caller(task):
        one = task.call("shout", "a")
        more = task.gather(Call("shout", "b"), Call("shout", "c"))
        last = list(task.as_completed(Call("shout", "d")))
        return Completed("".join(result.artifacts[0].parts[0]["text"] for result in [one, *more, *last]))

    assert (await testing.run(caller, "go", agents=AGENTS)).said == "ABCD"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_child_that_asks_ends_the_turn_with_its_question(is_async):
    async def caller(task):
        try:
            await task.call("asking", "hello")
        except Exception:
            return "an except Exception lets it pass"

    def in_a_thread(task):
        task.call("asking", "hello")

    run = await testing.run(caller if is_async else in_a_thread, "go", agents=AGENTS)
    assert run.outcome == InputRequired("Which one?", slot="one", schema={"type": "string"})


async def test_progress_of_a_child_is_progress_of_its_caller():
    async def stepping(task):
        await task.progress("step 1 of 1")

    async def caller(task):
        await task.call("stepping", "hello")

    assert (await testing.run(caller, "go", agents={"stepping": stepping})).recorder.progress == [
        "stepping: step 1 of 1"
    ]


async def test_a_circle_of_calls_and_an_unknown_agent_fail_in_words():
    async def again(task):
        await task.call("again", "again")

    async def lost(task):
        await task.call("nobody", "hello")

    assert "8 levels deep" in (await testing.run(again, "go", agents={"again": again})).said
    assert (await testing.run(lost, "go", agents=AGENTS)).outcome == Failed(
        "There is no agent 'nobody' to be called.", "unknown_agent"
    )


async def test_without_other_agents_a_call_says_what_to_do():
    async def caller(task):
        await task.call("shout", "hello")

    assert "testing.run" in (await testing.run(caller, "go")).said


async def test_an_answer_at_once_calls_nobody():
    class Caller(SkillHandler):
        async def on_request(self, task):
            await task.call("shout", "hello")

    with pytest.raises(HandlerError, match="can only be called from a task"):
        await answer(Caller(), Message.from_wire({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "go"}]}))
