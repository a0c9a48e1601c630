"""An agent that answers directly knows the conversation's history."""

import pytest

import db as database
from agentkit import Artifact, Completed, SkillHandler
from apps.agents.registration import register_hosted
from apps.engine.send import send
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)


class Chatting(SkillHandler):
    """Tells what it is given, and counts what it is told; works on what is work."""

    def select_response_type(self, message):
        return "task" if "work" in message.text else "message"

    async def on_request(self, task):
        memory = task.session.memory
        memory["heard"] = memory.get("heard", 0) + 1
        if "much" in task.message.text:
            memory["much"] = "x" * 70_000
        if "odd" in task.message.text:
            memory["odd"] = float("nan")
        if "work" in task.message.text:
            return Completed("worked", [Artifact.text("work.txt", "what was made")])
        made = [part["text"] for one in task.references for artifact in one.artifacts for part in artifact.parts]
        return f"{[one.text for one in task.history]} {made} {memory['heard']}"


@pytest.fixture
def chatting(db):
    return register_hosted("chatting", f"{__name__}:Chatting")


def text_of(sent):
    return sent.answer["parts"][0]["text"]


async def conversation_of(sent):
    return await database.run(Context.objects.get, pk=sent.context)


async def test_it_is_given_what_was_said_and_what_it_keeps(ada, chatting, said):
    first = await send(ada.principal, chatting, said("I am Ada"))
    assert text_of(first) == "[] [] 1"
    context = await conversation_of(first)
    second = await send(ada.principal, chatting, said("Who am I?", contextId=context.context_id))
    assert text_of(second) == "['I am Ada', '[] [] 1'] [] 2"
    assert (await conversation_of(first)).memory == {"heard": 2}
    assert await database.run(projection.differences, first.context) == []


async def test_tasks_and_answers_of_a_conversation_know_each_other(ada, chatting, said):
    worked = await send(ada.principal, chatting, said("work"))
    await carry_out(await database.run(lambda: Run.objects.get().pk))
    context = await conversation_of(worked)
    asked = await send(ada.principal, chatting, said("and?", contextId=context.context_id))
    assert text_of(asked) == "['work', 'worked'] ['what was made'] 2"


async def test_a_task_of_another_conversation_is_known_where_its_owner_refers_to_it(ada, bob, chatting, said):
    worked = await send(ada.principal, chatting, said("work", contextId="ours"))
    await carry_out(await database.run(lambda: Run.objects.get().pk))
    asked = await send(ada.principal, chatting, said("and?", referenceTaskIds=[str(worked.task)]))
    assert text_of(asked) == "[] ['what was made'] 1"
    asked = await send(bob.principal, chatting, said("and?", contextId="ours", referenceTaskIds=[str(worked.task)]))
    assert text_of(asked) == "[] [] 1"


async def test_a_cleared_conversation_is_forgotten(ada, chatting, said):
    first = await send(ada.principal, chatting, said("I am Ada", contextId="mine"))
    await database.run(deletion.delete_context, ada.principal, chatting, "mine")
    assert text_of(await send(ada.principal, chatting, said("Who am I?", contextId="mine"))) == "[] [] 1"
    assert (await conversation_of(first)).memory == {}


async def test_what_cannot_be_kept_is_an_error_and_leaves_the_memory_as_it_was(ada, chatting, said):
    first = await send(ada.principal, chatting, said("hello", contextId="mine"))
    for text, code in (("much", "memory_too_large"), ("odd", "invalid_agent_response")):
        sent = await send(ada.principal, chatting, said(text, contextId="mine"))
        assert sent.answer["metadata"]["error"]["code"] == code
        assert (await conversation_of(first)).memory == {"heard": 1}
