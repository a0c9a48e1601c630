"""A worker takes steps with tools, its own and its client's, until it has an answer."""

import asyncio
import json
import sys
from typing import Any

import pytest

from agentkit import (
    AgentFailure,
    CallClient,
    Completed,
    Failed,
    HandlerError,
    InputRequired,
    Message,
    SyncTaskContext,
    TaskContext,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Usage,
    handlers,
    runner,
    testing,
    tool,
)
from agentkit.llm import AgentTool, LlmWorker
from tests.model_agents.agents import double, handler_of
from tests.model_agents.endpoint import Endpoint, calls, hangs, says


async def weather(city: str, days: int = 1) -> dict[str, int]:
    """The weather to come.

    Args:
        city: where
        days: how far ahead
    """
    return {city: 20 + days}


async def helped(*tools, text: str = "x", **more) -> testing.Run:
    return await testing.run(handler_of(LlmWorker("Help.", list(tools))), text, **more)


def results_of(run: testing.Run) -> list[ToolResult]:
    return [one for one in run.emissions if isinstance(one, ToolResult)]


def told_to(endpoint: Endpoint) -> list[str]:
    return [str(content) for role, content in endpoint.said() if role == "tool"]


async def test_text_is_streamed_as_it_comes(endpoint):
    endpoint.replies = [says("It ", "is ", "20°.", thinking="Rome, then.")]
    run = await helped()
    assert run.outcome.message == "It is 20°."
    thought, *tokens, usage = run.emissions
    assert (thought, usage) == (Thought("Rome, then."), Usage("test-model", 1, 20, 5))
    assert tokens == [Token("It "), Token("is "), Token("20°.")]


async def test_tools_are_called_and_their_results_go_back(endpoint):
    endpoint.replies = [calls(("weather", {"city": "Rome", "days": 3}), text="Let me see."), says("23° in Rome.")]
    run = await helped(weather)
    assert run.emissions == [
        Token("Let me see."),
        ToolCall("call-1-0", "weather", {"city": "Rome", "days": 3}),
        ToolResult("call-1-0", "weather", {"Rome": 23}),
        Token("\n\n23° in Rome."),
        Usage("test-model", 2, 40, 10),
    ]
    assert run.outcome.message == run.text == "Let me see.\n\n23° in Rome."
    assert endpoint.said()[-1] == ("tool", '{"Rome":23}')

    async def unstreamed(task: TaskContext) -> str:
        return await LlmWorker("Help.", [weather]).run(task, stream=False)

    endpoint.replies = [calls(("weather", {"city": "Rome"}), text="Let me see."), says("21°")]
    run = await testing.run(unstreamed, "x")
    assert (run.text, run.outcome.message) == ("", "21°"), "without streaming, the last words are the answer"


async def test_tools_are_described_by_signature_and_docstring(endpoint):
    @tool(name="loudly", description="Louder!")
    def renamed(text: str, task: SyncTaskContext) -> str:
        return text

    endpoint.replies = [says("ok")]
    await LlmWorker("Help.", [weather, renamed, AgentTool("poet", "Writes poems.")]).run(message="x")
    found = {one["function"]["name"]: one["function"] for one in endpoint.requests[0]["tools"]}
    city, days = (found["weather"]["parameters"]["properties"][name] for name in ("city", "days"))
    assert (city["type"], city["description"]) == ("string", "where")
    assert (days["default"], days["description"]) == (1, "how far ahead")
    assert list(found["loudly"]["parameters"]["properties"]) == ["text"]
    descriptions = [found[name]["description"] for name in ("weather", "loudly", "ask_poet")]
    assert descriptions == ["The weather to come.", "Louder!", "Writes poems."]
    with pytest.raises(HandlerError, match="A tool needs a name"):
        await LlmWorker("Help.", [lambda text: text]).run(message="x")


async def test_errors_and_long_results_go_back_cut(endpoint):
    def explode() -> str:
        """Explodes."""
        raise RuntimeError("boom " * 1000)

    def book() -> str:
        """A whole book."""
        return "word " * 100_000

    async def leave() -> str:
        """Exits."""
        sys.exit(3)

    endpoint.replies = [calls(("explode", {}), ("leave", {}), ("book", {})), says("That did not work.")]
    run = await helped(explode, leave, book)
    left, result = sorted(str(one.result) for one in results_of(run) if one.is_error)
    assert ("SystemExit" in left, result[:22], len(result) < 1100) == (True, "RuntimeError: boom boo", True)
    assert isinstance(run.outcome, Completed)
    _, told, cut = sorted(told_to(endpoint), key=len)
    assert ("RuntimeError: boom" in told, len(told) < 1300) == (True, True)
    assert cut.endswith("[the first 100000 of 500000 characters]")


async def test_wrong_arguments_and_unknown_tools_go_back(endpoint):
    endpoint.replies = [
        calls(("weather", {"city": "Rome", "days": "soon"})),
        calls(("weather", "{nonsense")),
        calls(("fly", {})),
        says("I give up."),
    ]
    run = await helped(weather)
    assert isinstance(run.outcome, Completed)
    assert [word in told for word, told in zip(("days", "JSON", "fly"), told_to(endpoint), strict=True)] == [True] * 3
    assert [one.is_error for one in results_of(run)] == [True] * 3


async def test_a_stop_ends_the_models_request(endpoint):
    def in_thread(task: SyncTaskContext) -> str:
        return LlmWorker("Help.").sync(task)

    endpoint.replies = [hangs("It ", *["is "] * 2000)]  # mostly unread
    recorder = testing.Recorder()
    task = testing.task_for(testing.user_message("x"), recorder)
    handler = handlers.as_handler(in_thread)
    driven = asyncio.create_task(runner.drive(handler, task))
    await asyncio.wait_for(recorder.heard.wait(), 20)
    driven.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driven
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)
    assert recorder.text.startswith("It")


async def test_it_is_told_a_conversation_thread_or_message(endpoint):
    def message(role: str, text: str) -> Message:
        return Message.from_wire({"messageId": text, "role": f"ROLE_{role}", "parts": [{"text": text}]})

    earlier = [message("USER", "one"), message("AGENT", "two")]
    task = testing.task_for(testing.user_message("three"), testing.Recorder(), history=earlier)
    worker = LlmWorker("Help.")
    endpoint.usual = says("ok")
    for given, said in (
        ([task], ["one", "two", "three"]),
        ([task, [*earlier, message("USER", "again")]], ["one", "two", "again"]),
        ([task, None, "alone"], ["alone"]),
        ([task, earlier, "then"], ["one", "two", "then"]),
    ):
        await worker.run(*given)
        assert [content for _, content in endpoint.said()][1:] == said
    with pytest.raises(HandlerError, match="ends with a message of the user"):
        await worker.run(task, earlier)
    with pytest.raises(HandlerError, match="Without a task"):
        await worker.run()


async def test_usage_is_told_on_failure_and_limit(endpoint):
    weather_asked = calls(("weather", {"city": "Rome"}))
    endpoint.replies = [weather_asked]
    run = await helped(weather)
    assert run.outcome.code == "model_refused"
    assert run.emissions[-1] == Usage("test-model", 1, 20, 5)
    endpoint.replies, endpoint.requests[:] = [weather_asked] * 5, []
    run = await testing.run(handler_of(LlmWorker("Help.", [weather], max_steps=3)), "x")
    assert run.outcome == Failed("The agent came to no answer within its limit of 3 steps.", "step_limit")
    assert len(endpoint.requests) == 3
    assert run.emissions[-1] == Usage("test-model", 3, 60, 15)


async def test_an_agent_is_a_tool(endpoint):
    def writer(text: str) -> str:
        if text == "fail":
            raise AgentFailure("No ink.")
        return f"A poem about {text}."

    endpoint.replies = [
        calls(("ask_poem_writer", {"message": "rain"}), ("ask_poem_writer", {"message": "fail"})),
        says("Here."),
    ]
    run = await helped(AgentTool("poem-writer", "Writes poems."), agents={"poem-writer": writer})
    results = {one.is_error: one.result for one in results_of(run)}
    assert results[False] == "A poem about rain."
    assert "No ink." in results[True]


async def test_an_answered_agents_call_goes_on(endpoint):
    heard = []

    async def painter(task: TaskContext) -> str | InputRequired:
        heard.append(task.message.text)
        return "It is blue." if len(heard) > 1 else InputRequired("Which colour?", slot="colour")

    painting = {"agents": {"painter": painter}}
    endpoint.replies = [calls(("ask_painter", {"message": "Paint the wall"})), says("Done: blue.")]
    asked = await helped(AgentTool("painter", "Paints."), text="Paint!", **painting)
    assert asked.outcome == InputRequired("Which colour?", slot="colour")
    assert len(endpoint.requests) == 1
    run = await helped(AgentTool("painter", "Paints."), text=asked.task.message, memory=asked.memory, **painting)
    assert run.outcome.message == "Done: blue."
    assert heard == ["Paint the wall"] * 2
    assert endpoint.said(1)[1:] == [("user", "Paint!"), ("assistant", None), ("tool", "It is blue.")]
    assert run.memory == {}


TOOL = {"name": "weather", "description": "The weather.", "parameters": {"type": "object", "properties": {"city": {}}}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def said(text: str, **wishes: Any) -> Message:
    return Message.from_wire({"role": "ROLE_USER", "parts": [{"text": text}], "metadata": {"client": wishes}})


def given(*results: Any, **wishes: Any) -> dict[str, Any]:
    data = {"toolResults": [{"callId": call["id"], "result": result} for call, result in results]}
    return {"role": "ROLE_USER", "parts": [{"data": data}], "metadata": {"client": wishes} if wishes else {}}


def handler(*tools: Any, **options: Any):
    return handler_of(LlmWorker("Help.", [double, *tools], **options))


async def test_a_clients_tool_waits_for_its_result(endpoint):
    endpoint.replies = [calls(("weather", {"city": "Rome"})), says("20°.")]
    asked = await testing.run(handler(), said("Weather?", tools=[TOOL], mustCall=["weather"]))
    assert isinstance(asked.outcome, CallClient)
    [call] = asked.outcome.calls
    assert (call["name"], call["arguments"]) == ("weather", {"city": "Rome"})
    run = await asked.answer(given((call, {"degrees": 20}), tools=[TOOL]))
    assert run.outcome.message == "20°."
    assert [one.get("tool_choice", "auto") == "auto" for one in endpoint.requests] == [False, True], "demanded once"
    result = endpoint.requests[1]["messages"][-1]
    assert (result["role"], '{"degrees": 20}' in result["content"]) == ("tool", True)


@tool(needs_approval=True)
def erase(name: str) -> str:
    """Erases a file."""
    return f"{name} is gone"


async def test_own_and_approved_tools_work_beside_the_clients(endpoint):
    wanted = ("weather", {}), ("double", {"number": 4}), ("erase", {"name": "a.txt"})
    endpoint.replies = [calls(*wanted), calls(("weather", {})), says("Done.")]
    first = await testing.run(handler(erase), said("All.", tools=[TOOL]))
    assert not isinstance(first.outcome, CallClient), "people approve before the client is asked"
    second = await first.answer("approve")
    third = await second.answer(given((second.outcome.calls[0], "cold")))
    fourth = await third.answer(given((third.outcome.calls[0], "warm")))
    assert fourth.said == "Done."
    results = " ".join(one["content"] for one in endpoint.requests[2]["messages"] if one["role"] == "tool")
    assert all(word in results for word in ("cold", "8", "a.txt is gone", "warm"))


async def test_an_answer_has_the_clients_form(endpoint):
    endpoint.replies = [calls(("final_result", {"town": "Rome"})), calls(("final_result", {"city": "Rome"}))]
    run = await testing.run(handler(), said("Where?", output={"name": "place", "schema": SCHEMA}))
    assert json.loads(run.said) == {"city": "Rome"}
    assert len(endpoint.requests) == 2, "an unfit answer is asked for again"


async def test_settings_reach_the_model_within_the_agents_limit(endpoint):
    endpoint.replies = [says("Yes.")]
    wishes = {"max_tokens": 500, "stop_sequences": ["."], "seed": 7}
    await testing.run(handler(settings={"max_tokens": 100}), said("Hi.", settings=wishes))
    body = endpoint.requests[0]
    sent = body.get("max_tokens") or body.get("max_completion_tokens")
    assert (sent, body["stop"], body["seed"]) == (100, ["."], 7)


@pytest.mark.parametrize(
    "wishes",
    [
        {"settings": {"extra_body": {"model": "dear"}, "extra_headers": {"X": "y"}, "timeout": 9}},
        {"settings": {"max_tokens": "x", "stop_sequences": [1], "seed": True, "temperature": None}},
        {"settings": "x"},
        {"tools": 5},
    ],
)
async def test_impossible_wishes_are_ignored(endpoint, wishes):
    endpoint.usual = says("Yes.")
    await testing.run(handler(), said("Hi."))
    assert (await testing.run(handler(), said("Hi.", **wishes))).said == "Yes."
    assert endpoint.requests[0] == endpoint.requests[1]
