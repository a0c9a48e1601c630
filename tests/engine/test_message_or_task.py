"""Agents choose for each message between a direct answer and a task, and a skill, a question or a refusal."""

import threading

import pytest

from agentkit import (
    Artifact,
    Completed,
    InputRequired,
    Reject,
    SkillHandler,
    SyncTaskContext,
    by_rules,
    by_words,
)
from agentkit import agent as described
from agentkit.selecting import says
from apps.accounts.principals import ANONYMOUS
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.engine.send import send
from apps.engine.turns.output import memory_changes
from apps.record import wire
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task
from parley import db
from tests.engine.delegating import carried_on, take_turn, the_record_holds, words
from tests.engine.skilled import Office, Trip
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


class Choosing(SkillHandler):
    """Answers questions at once and does work in tasks."""

    response_type = by_rules((says("work"), "task"), (says("ask"), "task"), otherwise="message")

    async def on_request(self, task):
        return InputRequired("What?") if "ask" in task.message.text else f"answer to {task.message.text}"


@pytest.fixture
async def choosing(agent):
    return await agent(Choosing)


async def test_rules_choose_unless_a_task_is_required(ada, choosing, said):
    at_once = await send(ada.principal, choosing, said("a question"))
    assert (at_once.task, at_once.answer["parts"]) == (None, [{"text": "answer to a question"}])
    assert not await Task.objects.aexists()
    assert not await Run.objects.aexists()
    events = Event.objects.order_by("index").values_list("type", flat=True)
    assert [one async for one in events] == ["user_message", "agent_message"]
    await the_record_holds()
    assert (await send(ada.principal, choosing, said("some work"))).task is not None
    assert (await send(ada.principal, choosing, said("a question"), require_task=True)).task is not None


async def test_asking_at_once_makes_a_task(ada, agent, said):
    @described(response_type="message")
    async def asking(task):
        return InputRequired("What?") if "ask" in task.message.text else {"n": 1}

    asker, message = await agent(asking), said("ask me")
    assert (await send(ada.principal, asker, said())).answer["parts"] == [{"data": {"n": 1}}]
    sent = await send(ada.principal, asker, message)
    assert (await carried_on(sent.task)).state == "input-required"
    assert (await send(ada.principal, asker, message)).task == sent.task


async def test_question_of_a_session_is_answered(ada, choosing, said):
    async def talk(message, **options):
        return await send(ada.principal, choosing, message, **{"finds_question": True} | options)

    first, answer = said("a question", contextId="c"), said("another question", contextId="c")
    answered = await talk(first)
    sent = await talk(said("ask me", contextId="c"))
    await carried_on(sent.task)
    assert (await talk(first)).answer == answered.answer, "repeated while the task asks"
    named = await talk(said("a question", taskId=str(sent.task)), finds_question=False)
    assert (named.task, named.answer) == (sent.task, None), "a continuing task stays a task"
    await carried_on(sent.task)
    sent = await talk(said("ask me", contextId="c"))
    await carried_on(sent.task)
    assert (await talk(answer)).task == sent.task
    await carried_on(sent.task)
    again = await talk(answer)
    assert (again.task, again.repeated) == (sent.task, True)
    assert (await talk(said("a third question", contextId="c"))).task is None


def choosing_by(choose):
    """A handler that chooses by a function of the message and the newest task."""

    class Chooser(SkillHandler):
        def select_response_type(self, message, task):
            return choose(message, task)

        async def on_request(self, task):
            return "done"

    return Chooser


async def test_newest_task_of_the_conversation_counts(ada, agent, said):
    following = await agent(choosing_by(lambda _, task: "message" if task and task.state == "completed" else "task"))
    first = await send(ada.principal, following, said(contextId="c"))
    await carried_on(first.task)
    assert (await send(ada.principal, following, said(contextId="c"))).task is None
    assert (await send(ada.principal, following, said(contextId="d"))).task is not None


async def test_repeated_message_is_answered_as_before(ada, agent, said):
    choices = ["task", "message"]
    fickle = await agent(choosing_by(lambda *_: choices.pop()))
    for is_task in (False, True):
        message = said()
        first, again = [await send(ada.principal, fickle, message) for _ in range(2)]
        assert (first.task, first.answer) == (again.task, again.answer)
        assert bool(first.task) is is_task


@pytest.mark.parametrize("text", ["error", "nonsense", "wait"])
async def test_failed_choice_makes_a_task(ada, agent, said, caplog, settings, text):
    let_go = threading.Event()

    def fail(message, _):
        if message.text == "wait":
            let_go.wait(10)
        if message.text == "nonsense":
            return "letter"
        raise RuntimeError("no idea")

    settings.SELECT_SECONDS = 0.2
    assert (await send(ada.principal, await agent(choosing_by(fail)), said(text))).task is not None
    assert "agent chooser chose no response type" in caplog.text
    assert ('A response type is "task" or "message"' in caplog.text) is (text == "nonsense")
    let_go.set()


async def test_direct_answers_stream_and_call_nothing(ada, agent, choosing, said):
    @described(response_type="message")
    async def calling(task):
        await task.progress("unheard")
        await task.artifact("half").append("half")
        if task.message.text == "call":
            await task.call("choosing", "hi")
        return "done"

    caller = await agent(calling)
    assert (await send(ada.principal, caller, said())).answer["parts"] == [{"text": "done"}, {"text": "half"}]
    refused = (await send(ada.principal, caller, said("call"))).answer
    assert refused["metadata"]["error"] == {"code": "agent_unavailable"}
    assert not await Event.objects.exclude(type__in=("user_message", "agent_message")).aexists()


# Skills


class Strict(Office):
    choose_skill = by_words(otherwise=Reject("Only trips and advice."))


@pytest.fixture
async def office(agent):
    return await agent(Office, access="public")


@pytest.fixture
async def strict(agent):
    return await agent(Strict, access="public")


TRIP = {"to": "Rome", "people": 2}


async def test_skill_is_chosen_once_for_all_turns(ada, office, said):
    sent = await send(ada.principal, office, said("I want to book a trip"))
    task = await carried_on(sent.task)
    for parts, told in (
        ([], "Where to?"),
        ([{"data": TRIP | {"people": 0}}], "People: Input should be greater than or equal to 1."),
        ([{"data": TRIP}], "Sure?"),
        ([{"text": "some advice: yes"}], "book: 2 to Rome"),
    ):
        if parts:
            task = await take_turn(ada.principal, office, said(taskId=str(task.pk), parts=parts))
        assert words(task) == told
    assert task.metadata == {"skill": "book"}
    assert [run.input["skill"] async for run in Run.objects.all()] == ["book"] * 4


async def test_unclear_message_is_answered_without_task(ada, office, strict, said):
    told = [
        (office, {}, "What would you like?\n\n- **Book**: ", "clarify"),
        (office, {"metadata": {"skillId": "fly"}}, "There is no skill 'fly' here.", "clarify"),
        (strict, {}, "Only trips and advice.", "rejected"),
    ]
    for agent, fields, sentence, code in told:
        for who in (ada.principal, ANONYMOUS):
            message = said("hello", **fields)
            sent = await send(who, agent, message)
            assert who is ANONYMOUS or (await send(who, agent, message)).answer == sent.answer
            assert sent.task is None
            assert sent.answer["parts"][0]["text"].startswith(sentence)
            assert sent.answer["metadata"]["error"] == {"code": code}
    await the_record_holds()
    assert await Task.objects.acount() == await Run.objects.acount() == 0
    assert await Message.objects.acount() == 2 * 2 * len(told)


async def test_required_task_asks_which_skill(ada, office, strict, said):
    sent = await send(ada.principal, office, said("Do it on Sunday"), require_task=True)
    asked = await carried_on(sent.task)
    assert (asked.state, words(asked).startswith("What would you like?")) == ("input-required", True)
    assert asked.status_message["metadata"]["error"] == {"code": "clarify"}
    task = await take_turn(ada.principal, office, said("Advise", taskId=str(sent.task)))
    assert (words(task), task.metadata) == ("advise: Do it on Sunday", {"skill": "advise"})
    sent = await send(ada.principal, strict, said("hello"), require_task=True)
    task = await carried_on(sent.task)
    assert (task.state, words(task)) == ("rejected", "Only trips and advice.")


async def test_value_of_a_slot_stays_with_its_agent(ada, agent, said):
    class Booking(SkillHandler):
        async def on_request(self, task):
            return InputRequired("Book it?", slot=Trip(**TRIP))

        def on_input_received(self, task: SyncTaskContext, slot: Trip):
            return f"{slot.people} to {slot.to}, {task.message.text}"

    booking = await agent(Booking)
    asked = await take_turn(ada.principal, booking, said("hello"))
    status = await Event.objects.select_related("context").filter(task=asked, type="agent_status").alast()
    assert status.payload["slot"]["value"] == TRIP
    assert "Rome" not in str(wire.stream_response(status, status.context))
    assert "Rome" not in str(await db.run(wire.load_task, asked))
    task = await take_turn(ada.principal, booking, said("yes", taskId=str(asked.pk)))
    assert words(task) == "2 to Rome, yes"


# Memory and history


async def keeping(task):
    kept = str(task.session.memory)
    for change in task.message.data:
        task.session.memory.update(change)
    for key in [key for key, value in task.session.memory.items() if value is None]:
        del task.session.memory[key]
    match task.message.text:
        case "deep":
            task.session.memory.setdefault("seen", []).append("deep")
        case "raise":
            raise RuntimeError("boom")
    return kept


@pytest.fixture
async def keeper(agent):
    return await agent(keeping)


@pytest.fixture
def turn(ada, keeper, said):
    """A one-turn task, and the session's memory after it."""

    async def turn(text="", talk="mine", **values):
        message = said(parts=[{"text": text}, {"data": values}], contextId=talk)
        task = await take_turn(ada.principal, keeper, message)
        return task, (await Context.objects.aget(pk=task.context_id)).memory

    return turn


async def test_next_task_finds_the_memory(ada, keeper, turn):
    task, memory = await turn(name="Ada", seen=[1, 2])
    assert (words(task), memory) == ("{}", {"name": "Ada", "seen": [1, 2]})
    task, memory = await turn("deep", name=None)
    assert (words(task), memory) == ("{'name': 'Ada', 'seen': [1, 2]}", {"seen": [1, 2, "deep"]})
    task, memory = await turn("raise", tries=1)
    assert (task.state, memory["tries"]) == ("failed", 1), "a turn that fails keeps what it had noted"
    other, _ = await turn(talk="another")
    assert words(other) == "{}", "another conversation has its own"
    await db.run(deletion.delete_context, ada.principal, keeper, "mine")
    assert (await Context.objects.aget(pk=task.context_id)).memory == {}, "it is erased with its conversation"
    assert words((await turn())[0]) == "{}"


async def test_concurrent_tasks_merge_their_memory(ada, keeper, said, turn):
    task, before = await turn(a=1, b=1, gone=1)

    def side_by_side():
        held = [begin(accept.accept(ada.principal, keeper, said(contextId="mine")).run) for _ in range(2)]
        end(held[0], Completed("x"), session=memory_changes(before, {"a": 2, "b": 1, "gone": 1, "new": [1]}))
        end(held[1], Completed("x"), session=memory_changes(before, {"a": 1, "b": 2}))
        return Context.objects.get(pk=task.context_id).memory

    assert await db.run(side_by_side) == {"a": 2, "b": 2, "new": [1]}


# Direct answers


class Chatting(SkillHandler):
    """Tells what it is given, and counts what it is told; works on what is work."""

    def select_response_type(self, message):
        return "task" if "work" in message.text else "message"

    async def on_request(self, task):
        task.session.memory["heard"] = task.session.memory.get("heard", 0) + 1
        if "much" in task.message.text:
            task.session.memory["much"] = "x" * 70_000
        if "odd" in task.message.text:
            task.session.memory["odd"] = float("nan")
        if "work" in task.message.text:
            return Completed("worked", [Artifact.text("work.txt", "what was made")])
        made = [part["text"] for one in task.references for artifact in one.artifacts for part in artifact.parts]
        return f"{[one.text for one in task.history]} {made} {task.session.memory['heard']}"


@pytest.fixture
async def chatting(agent):
    return await agent(Chatting)


async def test_answers_know_history_tasks_and_memory(ada, chatting, said):
    async def told(text):
        sent = await send(ada.principal, chatting, said(text, contextId="c"))
        return sent.answer["parts"][0]["text"]

    assert await told("I am Ada") == "[] [] 1"
    assert await told("Who am I?") == "['I am Ada', '[] [] 1'] [] 2"
    await take_turn(ada.principal, chatting, said("work", contextId="c"))
    assert (await told("and?")).endswith("'work', 'worked'] ['what was made'] 4")
    for text, code in (("much", "memory_too_large"), ("odd", "invalid_agent_response")):
        sent = await send(ada.principal, chatting, said(text, contextId="c"))
        assert sent.answer["metadata"]["error"]["code"] == code
    assert (await Context.objects.aget()).memory == {"heard": 4}
