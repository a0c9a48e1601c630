"""Authors try agents without a platform."""

import pytest
from pydantic import BaseModel

from agentkit import (
    AuthRequired,
    Completed,
    Credential,
    ExistingTask,
    HandlerError,
    InputRequired,
    ResponseType,
    SkillHandler,
    testing,
)


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


async def test_an_answer_is_the_next_turn_with_all_that_the_task_knows():
    asked = await testing.run(Packer, "Oslo")
    answered = await asked.answer("3")
    assert answered.said == "['Oslo', 'How many days?'] {'asked': 1}"
    assert [one.text for one in answered.delivered] == ["# Oslo, 3 days"]


async def test_an_answer_belongs_to_the_same_task():
    asked = await testing.run(Packer, "Oslo")
    assert (await asked.answer("3")).task.task_id == asked.task.task_id
    assert (await testing.run(Packer, "Oslo")).task.task_id != asked.task.task_id


async def test_an_answer_that_does_not_fit_is_asked_for_again_and_can_be_given_again():
    refused = await (await testing.run(Packer, "Oslo")).answer("many")
    assert isinstance(refused.outcome, InputRequired)
    assert (await refused.answer("3")).delivered[0].text == "# Oslo, 3 days"


async def test_one_run_can_be_answered_in_several_ways():
    async def counting(task):
        task.memory["turns"] = task.memory.get("turns", 0) + 1
        return InputRequired(str(task.memory["turns"]))

    asked = await testing.run(counting, "go")
    assert [(await asked.answer(text)).said for text in ("one", "other")] == ["2", "2"]


async def test_a_credential_lets_the_same_message_go_on():
    async def mailing(task):
        credential = await task.credential("mail")
        if credential is None:
            return AuthRequired("Your token?", service="mail", auth_type="bearer")
        return Completed(f"{task.message.text} {task.resumed} {task.slot}")

    asked = await testing.run(mailing, "any news?")
    answered = await asked.answer(credentials={"mail": Credential("mail", "bearer", secret="s3cret")})
    assert answered.said == "any news? True credential"


async def test_files_and_whole_messages_are_answers_too():
    async def taking(task):
        if task.slot is None:
            return InputRequired("Which file?")
        return Completed(f"{task.message.text}{[file.name for file in task.files]}")

    asked = await testing.run(taking, "go")
    assert (await asked.answer("this", files={"a.txt": b"a"})).said == "this['a.txt']"
    assert (await asked.answer(testing.user_message("that"))).said == "that[]"


async def test_a_run_that_asked_nothing_or_for_another_agent_cannot_be_answered():
    run = await testing.run(lambda text: text, "hello")
    with pytest.raises(ValueError, match="asked nothing"):
        await run.answer("hello")

    async def calling(task):
        return (await task.call("packer", "Oslo")).text

    asked = await testing.run(calling, "go", agents={"packer": Packer})
    assert asked.said == "How many days?"
    with pytest.raises(ValueError, match="in a run of its own"):
        await asked.answer("3")


class Choosing(SkillHandler):
    def select_response_type(self, message, task):
        return "message" if task else message.text

    async def on_request(self, task):
        return "done"


async def test_how_a_message_would_be_answered_can_be_asked():
    assert await testing.response_type(Choosing, "task") is ResponseType.TASK
    assert await testing.response_type(Choosing, "task", ExistingTask("1", "completed")) is ResponseType.MESSAGE
    with pytest.raises(HandlerError):
        await testing.response_type(Choosing, "perhaps")
