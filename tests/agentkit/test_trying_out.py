"""Authors try agents without a platform."""

import pytest
from pydantic import BaseModel

from agentkit import (
    Completed,
    InputRequired,
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


async def test_an_answer_is_the_tasks_next_turn():
    asked = await testing.run(Packer, "Oslo")
    answered = await asked.answer("3")
    assert answered.said == "['Oslo', 'How many days?'] {'asked': 1}"
    assert [one.text for one in answered.delivered] == ["# Oslo, 3 days"]
    assert answered.task.task_id == asked.task.task_id != (await testing.run(Packer, "Oslo")).task.task_id
    refused = await asked.answer("many")
    assert isinstance(refused.outcome, InputRequired)
    assert (await refused.answer("3")).delivered[0].text == "# Oslo, 3 days"


async def test_runs_without_own_questions_take_no_answer():
    run = await testing.run(lambda text: text, "hello")
    with pytest.raises(ValueError, match="asked nothing"):
        await run.answer("hello")

    async def calling(task):
        return (await task.call("packer", "Oslo")).text

    asked = await testing.run(calling, "go", agents={"packer": Packer})
    assert asked.said == "How many days?"
    with pytest.raises(ValueError, match="in a run of its own"):
        await asked.answer("3")
