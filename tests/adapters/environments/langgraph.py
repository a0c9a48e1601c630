"""Graphs as agents, with LangGraph's own package. It runs in an environment without Parley."""

import asyncio

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from typing_extensions import TypedDict

from agentkit import Completed, InputRequired, ToolCall, ToolResult, Usage, testing
from agentkit.adapters.langgraph import agent

USED = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def model(*said):
    return GenericFakeChatModel(messages=iter(said))


def line(*nodes, state=MessagesState, checkpointer=None):
    """A graph of these functions, one after the other."""
    graph = StateGraph(state)
    names = [f"step {at}" for at in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=checkpointer, name="travel_desk")


def talker(*said):
    chat = model(*said)

    async def talk(state: MessagesState):
        return {"messages": [await chat.ainvoke(state["messages"])]}

    return talk


async def ask(state: MessagesState):
    get_stream_writer()({"progress": "Looking at the map…"})
    city = interrupt({"question": "Which city?", "known": ["Rome", "Oslo"]})
    return {"messages": [HumanMessage(f"To {city}")]}


async def test_models_text_streams_and_is_the_answer():
    run = await testing.run(agent(line(talker(AIMessage("Good day to you")))), "hello")
    assert run.text == run.said == "Good day to you"


async def test_interrupt_is_a_question_and_resumes():
    asked = await testing.run(agent(line(ask, talker(AIMessage("Booked")))), "a trip")
    assert isinstance(asked.outcome, InputRequired)
    assert (asked.outcome.parts[0]["text"], asked.outcome.parts[1]["data"]["known"]) == (
        "Which city?",
        ["Rome", "Oslo"],
    )
    assert asked.recorder.progress == ["Looking at the map…"]
    assert (await asked.answer("Rome")).said == "Booked"


async def test_interrupt_resumes_after_a_restart():
    asked = await testing.run(agent(line(ask, talker(AIMessage("Booked")))), "a trip", session=(kept := {}))
    restarted = agent(line(ask, talker(AIMessage("Booked"))))
    run = await testing.run(restarted, "Rome", session=kept, slot="interrupt")
    assert run.said == "Booked"
    assert asked.task.context_id == run.task.context_id


async def test_thread_remembers_earlier_messages():
    async def count(state: MessagesState):
        return {"messages": [AIMessage(str(len(state["messages"])))]}

    graph, session = agent(line(count)), {}
    assert [(await testing.run(graph, "hello", session=session)).said for _ in range(3)] == ["1", "3", "5"]


async def test_tool_calls_and_usage_are_reported():
    @tool
    def weather(city: str) -> str:
        """The weather."""
        return f"Sun in {city}"

    async def call(state: MessagesState):
        wanted = [{"name": "weather", "args": {"city": "Rome"}, "id": "1"}]
        return {"messages": [AIMessage("", tool_calls=wanted, usage_metadata=USED)]}

    run = await testing.run(agent(line(call, ToolNode([weather]), talker(AIMessage("Sun")))), "hello")
    kinds = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert kinds == [ToolCall("1", "weather", {"city": "Rome"}), ToolResult("1", "weather", "Sun in Rome")]
    assert Usage("model", 1, 3, 4) in run.emissions
    assert run.outcome == Completed("Sun")


class Numbers(TypedDict):
    values: list[int]
    total: int


async def test_graphs_without_messages_take_and_give_data():
    def add(state: Numbers):
        return {"total": sum(state["values"])}

    run = await testing.run(agent(line(add, state=Numbers)), {"values": [1, 2]})
    assert run.delivered[0].data == [{"values": [1, 2], "total": 3}]


async def test_own_checkpointer_goes_on_after_a_crash():
    ran = []

    async def first(state: MessagesState):
        ran.append("first")
        return {"messages": [HumanMessage("one")]}

    async def second(state: MessagesState):
        ran.append("second")
        if len(ran) == 2:
            raise RuntimeError("the process dies")
        return {"messages": [AIMessage("done")]}

    handler = agent(line(first, second, checkpointer=InMemorySaver()))
    with pytest.raises(RuntimeError):
        await testing.run(handler, "go")
    message = testing.user_message("go")
    task = testing.task_for(message, testing.Recorder(), attempt=2)
    assert (await handler.on_request(task)).message == "done"
    assert ran == ["first", "second", "second"]


async def test_conversations_do_not_mix():
    graph = agent(line(ask, talker(AIMessage("Booked"))))
    one, two = await asyncio.gather(*(testing.run(graph, _in(name)) for name in ("a", "b")))
    assert isinstance(one.outcome, InputRequired)
    assert isinstance(two.outcome, InputRequired)
    assert (await two.answer("Oslo")).task.context_id == "b"


def _in(context: str):
    return testing.Message.from_wire(testing.user_message("a trip").wire | {"contextId": context})


def attempts(make, message):
    """Runs an attempt of one turn, each with a new agent, as another process would."""
    effects = testing.RememberedEffects()

    async def attempt(number, **fields):
        fields |= {"attempt": number, "effects": effects}
        return await make().on_request(testing.task_for(testing.Message(message.wire), testing.Recorder(), **fields))

    return attempt


async def test_stopped_turn_repeats_no_finished_node():
    ran, begun = [], asyncio.Event()

    async def first(state: MessagesState):
        ran.append("first")
        return {"messages": [HumanMessage("one")]}

    async def second(state: MessagesState):
        ran.append("second")
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return {"messages": [AIMessage("done")]}

    attempt = attempts(lambda: agent(line(first, second), retry_safe=True), testing.user_message("go"))
    killed = asyncio.create_task(attempt(1))
    await begun.wait()
    killed.cancel()
    await asyncio.wait({killed})
    assert (await attempt(2)).message == "done"
    assert ran == ["first", "second", "second"]
    assert (await attempt(3)).message == "done"
    assert len(ran) == 3


async def test_finished_node_beside_a_failed_one_stays():
    ran = []

    async def quick(state: MessagesState):
        ran.append("quick")
        return {"messages": [HumanMessage("quick")]}

    async def slow(state: MessagesState):
        ran.append("slow")
        await asyncio.sleep(0.05)
        if ran.count("slow") == 1:
            raise RuntimeError("the process dies")
        return {"messages": [AIMessage("slow")]}

    def fork():
        graph = StateGraph(MessagesState)
        for node in (quick, slow):
            graph.add_node(node)
            graph.add_edge(START, node.__name__)
            graph.add_edge(node.__name__, END)
        return agent(graph.compile(), retry_safe=True)

    attempt = attempts(fork, testing.user_message("go"))
    with pytest.raises(RuntimeError):
        await attempt(1)
    await attempt(2)
    assert sorted(ran) == ["quick", "slow", "slow"]


async def test_answered_question_is_not_asked_again():
    session, ran = {}, []

    async def book(state: MessagesState):
        ran.append(state["messages"][-1].text)
        if len(ran) == 1:
            raise RuntimeError("the process dies")
        return {"messages": [AIMessage("Booked")]}

    def desk():
        return agent(line(ask, book), retry_safe=True)

    await testing.run(desk(), "a trip", session=session)
    attempt = attempts(desk, testing.user_message("Rome"))
    answered = {"slot": "interrupt", "session": testing.Session(session)}
    with pytest.raises(RuntimeError):
        await attempt(1, **answered)
    assert (await attempt(2, **answered)).message == "Booked"
    assert ran == ["To Rome", "To Rome"]
