"""Agents are tried and call others in one process here; tests/engine covers crashes."""

import asyncio

import pytest
from pydantic import BaseModel

from agentkit import (
    Artifact,
    Call,
    ChildFailed,
    Completed,
    Failed,
    HandlerError,
    InputRequired,
    Rejected,
    SkillHandler,
    answer,
    as_handler,
    testing,
)


async def failing(task):
    return Failed("The oven is broken.", "oven")


QUESTION = InputRequired("Which one?", slot="one", schema={"type": "string"})
AGENTS = {
    "shout": lambda text: Artifact.text("loud", text.upper()),
    "failing": failing,
    "asking": lambda task: QUESTION,
    "rejecting": lambda task: Rejected("Not me."),
    "passing": lambda task: task.call("failing", "hello"),
}


async def run(caller, **agents):
    return await testing.run(caller, "go", agents=agents or AGENTS)


async def test_a_child_gets_content_of_any_kind():
    async def saying(task):
        return {"text": task.message.text, "data": task.message.data, "files": [file.name for file in task.files]}

    async def caller(task):
        binary = Artifact.bytes("a.bin", b"a", "application/octet-stream")
        result = await task.call("saying", [task.message, binary, {"n": 1}, "and this", *task.files])
        return [Artifact(result.artifacts[0].parts), Artifact.text("state", result.state)]

    done = await testing.run(caller, "hello", files={"b.txt": b"b"}, agents={"saying": saying})
    said = {"text": "hello\nand this", "data": [{"n": 1}], "files": ["b.txt", "a.bin", "b.txt"]}
    completed = {"text": "completed", "mediaType": "text/plain"}
    assert [one.parts for one in done.artifacts] == [[{"data": said}], [completed]]
    with pytest.raises(TypeError, match="not of int"):
        await run(lambda task: task.call("shout", 5))


@pytest.mark.parametrize(
    ("agent", "at_fault", "words"),
    [
        ("failing", "failing", "The oven is broken."),
        ("rejecting", "rejecting", "Not me."),
        ("passing", "failing", "Failing failed: The oven is broken."),
    ],
)
async def test_a_failed_child_fails_an_unlooking_caller(agent, at_fault, words):
    async def caller(task):
        await task.call(agent, "hello")

    async def looking(task):
        result = await task.call(agent, "hello", check=False)
        return Completed(f"{result.state}: {result.text}")

    async def catching(task):
        try:
            await task.call(agent, "hello", key="third")
        except ChildFailed as failed:
            return Completed(f"{failed.result.key}: {failed.result.text}")

    outcome = (await run(caller)).outcome
    assert (outcome.code, outcome.metadata) == ("child_failed", {"failedAgent": at_fault})
    assert outcome.parts[0]["text"].endswith(words)
    assert (await run(looking)).said.endswith(f": {words}")
    assert (await run(catching)).said == f"third: {words}"


async def test_parallel_calls_come_in_order_or_as_completed():
    meeting, let_go = asyncio.Barrier(3), asyncio.Event()

    async def meet(task):
        await meeting.wait()
        if task.message.text == "a":
            await let_go.wait()
        return task.message.text

    calls = Call("meet", "a", key="first"), Call("meet", "b"), Call("meet", "c", key="last")

    async def gathering(task):
        let_go.set()
        results = await task.gather(*calls)
        assert [result.key for result in results] == ["first", None, "last"]
        return Completed("".join(result.text for result in results))

    async def following(task):
        said = []
        async for result in task.as_completed(*calls):
            said.append(result.text)
            if len(said) == 2:
                let_go.set()
        return Completed(said[-1])

    assert (await run(gathering, meet=meet)).said == "abc"
    let_go.clear()
    assert (await run(following, meet=meet)).said == "a"


async def test_a_childs_progress_and_question_are_its_callers():
    async def stepping(task):
        await task.progress("step 1 of 1")
        return QUESTION

    async def caller(task):
        try:
            await task.call("stepping", "hello")
        except Exception:
            return "an except Exception lets it pass"

    ended = await run(caller, stepping=stepping)
    assert (ended.recorder.progress, ended.outcome) == (["Stepping: step 1 of 1"], QUESTION)


async def test_calls_of_nobody_or_in_a_circle_fail():
    async def again(task):
        await task.call("again", "again")

    assert "8 levels deep" in (await run(again, again=again)).said
    assert (await run(again)).outcome == Failed("There is no agent 'again' to be called.", "unknown_agent")
    with pytest.raises(HandlerError, match="can only be called from a task"):
        await answer(as_handler(again), testing.user_message("go"))


class Days(BaseModel):
    days: int


class Packer(SkillHandler):
    async def on_request(self, task):
        task.memory["place"] = task.message.text
        task.session.memory["asked"] = task.session.memory.get("asked", 0) + 1
        return InputRequired("How many days?", slot=Days)

    async def on_input_received(self, task, slot: Days):
        said = [message.text for message in task.history]
        async with task.artifact("list.md") as packing_list:
            await packing_list.append("# ")
            await packing_list.append(f"{task.memory['place']}, {slot.days} days")
        return Completed(f"{said} {task.session.memory}")


async def test_an_answer_is_the_tasks_next_turn():
    asked = await testing.run(Packer, "Oslo")
    answered = await asked.answer("3")
    assert answered.said == "['Oslo', 'How many days?'] {'asked': 1}"
    assert [one.text for one in answered.delivered] == ["# Oslo, 3 days"]
    assert answered.task.task_id == asked.task.task_id != (await testing.run(Packer, "Oslo")).task.task_id
    refused = await asked.answer("many")
    assert isinstance(refused.outcome, InputRequired)
    assert (await refused.answer("3")).delivered[0].text == "# Oslo, 3 days"
