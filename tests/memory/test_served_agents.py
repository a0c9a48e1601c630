"""Agents that `agentkit` serves read memory if they ask for it."""

import pytest

from agentkit import InputRequired, SkillHandler, as_handler
from agentkit.content.memories import URI
from agentkit.serving.protocol import Agent, Refused, card_of
from tests.agentkit.test_serving import sent

MEMORY = {"instructions": "Be brief.", "entries": [{"id": "1", "text": "Eats no meat.", "notedAt": "2030-12-24"}]}


class Cook(SkillHandler):
    """Says what it knows, after a question."""

    takes_memory = True

    async def on_request(self, task):
        return InputRequired(known(task), slot="wish")

    async def on_input_received(self, task):
        return known(task)


class Stranger(Cook):
    takes_memory = False


def known(task):
    return " ".join(one.text for one in task.user_memory.entries) if task.user_memory else "Nothing."


def message(memory, **fields):
    return sent("hello", extensions=[URI], metadata={URI: memory}, **fields)


def question_of(task):
    return task["status"]["message"]["parts"][0]["text"]


async def test_each_message_says_what_is_known():
    agent = Agent(as_handler(Cook))
    task = (await agent.call("SendMessage", message(MEMORY)))["task"]
    assert question_of(task) == "Eats no meat."
    assert "meat" not in str(task["history"][0])
    done = (await agent.call("SendMessage", sent("soup", taskId=task["id"])))["task"]
    assert done["artifacts"][0]["parts"][0]["text"] == "Nothing."


async def test_agent_gets_memory_only_if_its_card_asks():
    cards = [card_of(as_handler(one), "http://x")["capabilities"]["extensions"] for one in (Cook, Stranger)]
    assert [URI in [one["uri"] for one in extensions] for extensions in cards] == [True, False]
    task = (await Agent(as_handler(Stranger)).call("SendMessage", message(MEMORY)))["task"]
    assert question_of(task) == "Nothing."
    assert "meat" not in str(task)


async def test_served_agent_refuses_what_is_no_memory():
    with pytest.raises(Refused, match="object with id"):
        await Agent(as_handler(Cook)).call("SendMessage", message({"entries": ["tea"]}))
