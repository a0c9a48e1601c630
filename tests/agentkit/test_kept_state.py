"""The caller keeps the state of a served agent: another process goes on from it."""

from typing import Any

import pytest

from agentkit import InputRequired, SkillHandler, TaskContext, agent, as_handler
from agentkit.serving.protocol import Agent, Refused, card_of
from agentkit.serving.state import URI
from agentkit.serving.tasks import ASKS, COMPLETED, WORKING
from tests.agentkit.test_serving import Travel, sent

JSON = dict[str, Any]


def keeping(text: str, state: JSON | None = None, **fields: Any) -> JSON:
    """A message of a caller that keeps the state."""
    return sent(text, extensions=[URI], metadata={URI: state or {}}, **fields)


async def told(served: Agent, params: JSON) -> JSON:
    task: JSON = (await served.call("SendMessage", params))["task"]
    return task


def process(of: object) -> Agent:
    return Agent(as_handler(of))


def words(task: JSON) -> str:
    text: str = task["status"]["message"]["parts"][0]["text"]
    return text


async def test_question_is_answered_at_another_process():
    asked = await told(process(Travel), keeping("A trip"))
    ids = {"taskId": asked["id"], "contextId": asked["contextId"]}
    done = await told(process(Travel), keeping("Rome", asked["metadata"][URI], **ids))
    assert (done["id"], done["status"]["state"], words(done)) == (asked["id"], COMPLETED, "Booked: Rome.")
    assert done["metadata"][URI]["task"] is None, "an ended task has no state"


async def test_conversation_goes_on_at_another_process():
    asked = await told(process(Travel), keeping("A trip", contextId="holiday"))
    state = {"conversation": asked["metadata"][URI]["conversation"]}
    assert words(await told(process(Travel), keeping("A trip", state, contextId="holiday"))) == "Where to? (question 2)"


async def test_history_goes_on_at_another_process():
    async def rememberer(task: TaskContext) -> str:
        """Remembers."""
        return " ".join(message.text for message in task.history)

    first = await told(process(rememberer), keeping("one"))
    state = {"conversation": first["metadata"][URI]["conversation"]}
    second = await told(process(rememberer), keeping("two", state, contextId=first["contextId"]))
    assert words(second).startswith("one")


async def test_answers_without_task_carry_the_state():
    @agent(response_type="message")
    async def counter(task: TaskContext) -> str:
        visits = task.session.memory["visits"] = task.session.memory.get("visits", 0) + 1
        return str(visits)

    said = (await process(counter).call("SendMessage", keeping("hello", contextId="c")))["message"]
    again = (await process(counter).call("SendMessage", keeping("hello", said["metadata"][URI], contextId="c")))[
        "message"
    ]
    assert [one["parts"][0]["text"] for one in (said, again)] == ["1", "2"]


class Baker(SkillHandler):
    """Bakes in three steps."""

    retry_safe = True

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.breaks_at = ""

    async def on_request(self, task: TaskContext) -> str:
        self.attempt = task.attempt
        return " ".join([await task.step(name, self.work, name) for name in ("mix", "knead", "bake")])

    async def work(self, name: str) -> str:
        if name == self.breaks_at:
            raise RuntimeError("the process ended")
        self.ran.append(name)
        return f"{name}!"


async def test_finished_steps_do_not_run_again():
    broken, fresh = Baker(), Baker()
    broken.breaks_at = "bake"
    steps: JSON = {}
    message = keeping("bread")
    async for event in await Agent(broken).call("SendStreamingMessage", message):
        update = event.get("statusUpdate", {})
        if update.get("status", {}).get("state") == WORKING:
            steps |= update.get("metadata", {}).get(URI, {}).get("steps", {})
    again = message["message"] | {"taskId": "t", "metadata": {URI: {"steps": steps}}}
    done = await told(Agent(fresh), {"message": again})
    assert (broken.ran, fresh.ran, words(done)) == (["mix", "knead"], ["bake"], "mix! knead! bake!")
    assert (broken.attempt, fresh.attempt) == (1, 2)


async def test_unknown_task_without_state_is_refused():
    for params in (sent("Rome", taskId="t"), sent("Rome", taskId="t", extensions=[URI])):
        with pytest.raises(Refused) as refused:
            await process(Travel).call("SendMessage", params)
        assert refused.value.code == -32001


async def test_other_callers_get_no_state():
    assert "metadata" not in await told(process(Travel), sent("A trip"))


@pytest.mark.parametrize("state", [{"task": {"question": {}}}, {"conversation": {"memory": 1}}, {"steps": []}, "x"])
async def test_states_that_cannot_be_read_are_refused(state):
    with pytest.raises(Refused) as refused:
        await process(Travel).call("SendMessage", keeping("Rome", state, taskId="t"))
    assert refused.value.code == -32602


async def test_too_large_state_is_not_sent(caplog):
    async def hoarder(task: TaskContext) -> InputRequired:
        """Keeps a lot."""
        task.memory["all"] = "x" * 1024 * 1024
        return InputRequired("And then?")

    asked = await told(process(hoarder), keeping("hello"))
    assert (asked["status"]["state"], asked["metadata"][URI]["task"]) == (ASKS, None)
    assert "larger than 1 MiB" in caplog.text


def test_card_says_whether_turns_can_be_repeated():
    for handler, is_safe in ((Travel(), False), (Baker(), True)):
        (declared,) = card_of(handler, "http://a/")["capabilities"]["extensions"]
        assert (declared["uri"], declared["params"]) == (URI, {"retrySafe": is_safe, "wholeStreams": True})
