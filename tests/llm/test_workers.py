"""A worker takes steps with tools until it has an answer."""

import asyncio
import sys
import threading

import pytest

from agentkit import (
    AgentFailure,
    Completed,
    Failed,
    HandlerError,
    InputRequired,
    Message,
    Progress,
    Stopped,
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
from tests.llm.endpoint import Endpoint, calls, hangs, says


async def weather(city: str, days: int = 1) -> dict[str, int]:
    """The weather to come.

    Args:
        city: where
        days: how far ahead
    """
    return {city: 20 + days}


def shout(text: str, task: SyncTaskContext) -> str:
    """Says it loudly."""
    task.progress(f"in {threading.current_thread().name.partition('_')[0]}")
    return text.upper()


async def whisper(task: TaskContext, text: str) -> str:
    """Says it softly."""
    await task.progress("psst")
    return text.lower()


def explode() -> str:
    """Explodes."""
    raise RuntimeError("boom " * 1000)


def handler_of(worker: LlmWorker):
    async def handler(task: TaskContext) -> str:
        return await worker.run(task)

    return handler


async def test_text_is_streamed_as_it_comes_and_is_the_answer(endpoint: Endpoint):
    endpoint.replies = [says("It ", "is ", "20°.", thinking="Rome, then.")]
    run = await testing.run(handler_of(LlmWorker("Help.")), "Weather in Rome?")
    assert run.outcome.message == "It is 20°."
    thought, *tokens, usage = run.emissions
    assert (thought, usage) == (Thought("Rome, then."), Usage("test-model", 1, 20, 5))
    assert tokens == [Token("It "), Token("is "), Token("20°.")]


async def test_tools_are_called_and_told_and_their_results_go_back(endpoint: Endpoint):
    endpoint.replies = [calls(("weather", {"city": "Rome", "days": 3}), text="Let me see."), says("23° in Rome.")]
    run = await testing.run(handler_of(LlmWorker("Help.", [weather])), "Weather in Rome?")
    assert run.emissions == [
        Token("Let me see."),
        ToolCall("call-1-0", "weather", {"city": "Rome", "days": 3}),
        ToolResult("call-1-0", "weather", {"Rome": 23}),
        Token("\n\n23° in Rome."),
        Usage("test-model", 2, 40, 10),
    ]
    assert run.outcome.message == run.text == "Let me see.\n\n23° in Rome."
    assert endpoint.said()[-1] == ("tool", '{"Rome":23}')


async def test_what_the_client_says_to_models_follows_the_workers_instructions(endpoint: Endpoint):
    endpoint.usual = says("ok")
    wire = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    await LlmWorker("Help.").run(message=Message.from_wire({**wire, "metadata": {"instructions": "Rhyme."}}))
    await LlmWorker("Help.").run(message=Message.from_wire({**wire, "metadata": {"instructions": {"no": "text"}}}))
    told, untold = (" ".join(text for role, text in endpoint.said(at) if role == "system") for at in (0, 1))
    assert told.startswith("Help.")
    assert told.endswith("Rhyme.")
    assert untold == "Help."


async def test_a_tool_is_described_by_its_signature_and_docstring(endpoint: Endpoint):
    @tool(name="loudly", description="Louder!")
    def renamed(text: str, task: SyncTaskContext) -> str:
        return text

    endpoint.replies = [says("ok")]
    await LlmWorker("Help.", [weather, whisper, renamed]).run(message="x")
    found = {one["function"]["name"]: one["function"] for one in endpoint.requests[0]["tools"]}
    city, days = (found["weather"]["parameters"]["properties"][name] for name in ("city", "days"))
    assert (city["type"], city["description"]) == ("string", "where")
    assert (days["default"], days["description"]) == (1, "how far ahead")
    assert found["weather"]["description"] == "The weather to come."
    assert list(found["whisper"]["parameters"]["properties"]) == ["text"]
    assert found["loudly"]["description"] == "Louder!"


def test_a_tool_that_says_not_what_it_is_for_is_refused():
    worker = LlmWorker("Help.", [lambda text: text])
    with pytest.raises(HandlerError, match="A tool needs a name"):
        worker.sync(message="x")

    def silent(text: str) -> str:
        return text

    with pytest.raises(HandlerError, match="The tool silent needs a docstring"):
        LlmWorker("Help.", [silent]).sync(message="x")


async def test_tools_are_given_the_task_and_run_in_threads_where_they_are_not_async(endpoint: Endpoint):
    endpoint.replies = [calls(("shout", {"text": "Hi"}), ("whisper", {"text": "Hi"})), says("done")]
    run = await testing.run(handler_of(LlmWorker("Help.", [shout, whisper])), "x")
    assert {one.text for one in run.emissions if isinstance(one, Progress)} == {"in tool", "psst"}
    assert {content for role, content in endpoint.said() if role == "tool"} == {"HI", "hi"}


async def test_tools_that_are_called_together_run_side_by_side(endpoint: Endpoint):
    both = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        """Meets the other."""
        await both.wait()
        return name

    endpoint.replies = [calls(("meet", {"name": "a"}), ("meet", {"name": "b"})), says("done")]
    async with asyncio.timeout(20):
        run = await testing.run(handler_of(LlmWorker("Help.", [meet])), "x")
    assert {one.result for one in run.emissions if isinstance(one, ToolResult)} == {"a", "b"}


async def test_what_a_tool_raises_goes_back_to_the_model_in_few_words_and_a_long_result_is_cut(endpoint: Endpoint):
    def book() -> str:
        """A whole book."""
        return "word " * 100_000

    async def leave() -> str:
        """Exits."""
        sys.exit(3)

    endpoint.replies = [calls(("explode", {}), ("leave", {}), ("book", {})), says("That did not work.")]
    run = await testing.run(handler_of(LlmWorker("Help.", [explode, leave, book])), "x")
    left, result = sorted(str(one.result) for one in run.emissions if isinstance(one, ToolResult) and one.is_error)
    assert "SystemExit" in left
    assert result.startswith("RuntimeError: boom boom")
    assert len(result) < 1100
    assert isinstance(run.outcome, Completed)
    _, told, cut = sorted((str(content) for role, content in endpoint.said() if role == "tool"), key=len)
    assert "RuntimeError: boom" in told
    assert len(told) < 1300
    assert cut.endswith("[the first 100000 of 500000 characters]")
    assert len(cut) < 101_000


async def test_wrong_arguments_and_unknown_tools_go_back_to_the_model(endpoint: Endpoint):
    endpoint.replies = [
        calls(("weather", {"city": "Rome", "days": "soon"})),
        calls(("weather", "{nonsense")),
        calls(("fly", {})),
        says("I give up."),
    ]
    run = await testing.run(handler_of(LlmWorker("Help.", [weather])), "x")
    assert isinstance(run.outcome, Completed)
    told = [str(content) for role, content in endpoint.said() if role == "tool"]
    assert "days" in told[0]
    assert "JSON" in told[1]
    assert "fly" in told[2]
    results = [one for one in run.emissions if isinstance(one, ToolResult)]
    assert [one.is_error for one in results] == [True] * 3


async def test_a_stop_while_the_model_speaks_ends_the_request(endpoint: Endpoint):
    endpoint.replies = [hangs("It ", *["is "] * 2000)]  # mostly unread
    message, recorder = testing.user_message("x"), testing.Recorder()
    task = testing.task_for(message, recorder)
    driven = asyncio.create_task(runner.drive(handlers.as_handler(handler_of(LlmWorker("Help."))), task))
    await asyncio.wait_for(recorder.heard.wait(), 20)
    driven.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driven
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)
    assert recorder.text.startswith("It")


async def test_a_stop_in_a_thread_ends_the_request_too(endpoint: Endpoint):
    def handler(task: SyncTaskContext) -> str:
        return LlmWorker("Help.").sync(task)

    endpoint.replies = [hangs()]
    task = testing.task_for(testing.user_message("x"), testing.Recorder())
    driven = asyncio.create_task(runner.drive(handlers.as_handler(handler), task))
    assert await asyncio.to_thread(endpoint.hanging.wait, 20)
    driven.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driven
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)


async def test_a_stop_in_or_after_a_tool_asks_the_model_no_more(endpoint: Endpoint):
    async def stop(task: TaskContext) -> str:
        """Stops the task."""
        task.stop_signal.set()
        return "stopped"

    async def stopped(task: TaskContext) -> str:
        """Is stopped."""
        raise Stopped

    for tool_, called in ((stop, [("stop", {})]), (stopped, [("stopped", {}), ("weather", {"city": "Rome"})])):
        endpoint.replies, endpoint.requests[:] = [calls(*called), says("never")], []
        task = testing.task_for(testing.user_message("x"), testing.Recorder())
        with pytest.raises(Stopped):
            await LlmWorker("Help.", [tool_, weather]).run(task)
        assert len(endpoint.requests) == 1


async def test_it_is_told_the_conversation_or_a_thread_or_a_message_or_both(endpoint: Endpoint):
    def message(role: str, text: str) -> Message:
        return Message.from_wire({"messageId": text, "role": f"ROLE_{role}", "parts": [{"text": text}]})

    earlier = [message("USER", "one"), message("AGENT", "two")]
    task = testing.task_for(testing.user_message("three"), testing.Recorder(), history=earlier)
    worker = LlmWorker("Help.")
    endpoint.replies = [says("ok")] * 5
    await worker.run(task)
    await worker.run(task, [*earlier, message("USER", "again")])
    await worker.run(task, message="alone")
    await worker.run(task, earlier, "then")
    said = [[content for _, content in endpoint.said(index)][1:] for index in range(4)]
    assert said == [["one", "two", "three"], ["one", "two", "again"], ["alone"], ["one", "two", "then"]]
    with pytest.raises(HandlerError, match="ends with a message of the user"):
        await worker.run(task, earlier)
    with pytest.raises(HandlerError, match="Without a task"):
        await worker.run()


async def test_without_streaming_the_last_words_are_the_answer(endpoint: Endpoint):
    async def handler(task: TaskContext) -> str:
        return await LlmWorker("Help.", [weather]).run(task, stream=False)

    endpoint.replies = [calls(("weather", {"city": "Rome"}), text="Let me see."), says("21°")]
    run = await testing.run(handler, "x")
    assert (run.text, run.outcome.message) == ("", "21°")


async def test_what_it_used_is_told_when_it_fails_in_the_end_or_stops_at_its_limit_of_steps(endpoint: Endpoint):
    weather_asked = calls(("weather", {"city": "Rome"}))
    endpoint.replies = [weather_asked]
    run = await testing.run(handler_of(LlmWorker("Help.", [weather])), "x")
    assert run.outcome.code == "model_refused"
    assert run.emissions[-1] == Usage("test-model", 1, 20, 5)
    endpoint.replies, endpoint.requests[:] = [weather_asked] * 5, []
    run = await testing.run(handler_of(LlmWorker("Help.", [weather], max_steps=3)), "x")
    assert run.outcome == Failed("The agent came to no answer within its limit of 3 steps.", "step_limit")
    assert len(endpoint.requests) == 3
    assert run.emissions[-1] == Usage("test-model", 3, 60, 15)


async def test_an_agent_is_a_tool(endpoint: Endpoint):
    def writer(text: str) -> str:
        if text == "fail":
            raise AgentFailure("No ink.")
        return f"A poem about {text}."

    worker = LlmWorker("Help.", [AgentTool("poem-writer", "Writes poems.")])
    endpoint.replies = [
        calls(("ask_poem_writer", {"message": "rain"}), ("ask_poem_writer", {"message": "fail"})),
        says("Here."),
    ]
    run = await testing.run(handler_of(worker), "x", agents={"poem-writer": writer})
    results = {one.is_error: one.result for one in run.emissions if isinstance(one, ToolResult)}
    assert results[False] == "A poem about rain."
    assert "No ink." in results[True]
    (described,) = endpoint.requests[0]["tools"]
    assert described["function"]["description"] == "Writes poems."
    assert len(AgentTool("a" * 63, "").name) == 64, "which every endpoint takes"


async def test_after_an_agents_question_the_same_call_goes_on_and_the_model_is_not_asked_again(endpoint: Endpoint):
    heard = []

    async def painter(task: TaskContext) -> str | InputRequired:
        heard.append(task.message.text)
        return "It is blue." if len(heard) > 1 else InputRequired("Which colour?", slot="colour")

    worker = LlmWorker("Help.", [AgentTool("painter", "Paints.")])
    endpoint.replies = [calls(("ask_painter", {"message": "Paint the wall"})), says("Done: blue.")]
    asked = await testing.run(handler_of(worker), "Paint!", agents={"painter": painter})
    assert asked.outcome == InputRequired("Which colour?", slot="colour")
    assert len(endpoint.requests) == 1
    run = await testing.run(handler_of(worker), asked.task.message, memory=asked.memory, agents={"painter": painter})
    assert run.outcome.message == "Done: blue."
    assert heard == ["Paint the wall"] * 2
    assert endpoint.said(1)[1:] == [("user", "Paint!"), ("assistant", None), ("tool", "It is blue.")]
    assert run.memory == {}


async def test_calls_that_an_endpoint_names_alike_are_told_apart(endpoint: Endpoint):
    again = calls(("weather", {"city": "Rome"}), prefix="call")
    endpoint.replies = [again, again, says("ok")]
    run = await testing.run(handler_of(LlmWorker("Help.", [weather])), "x")
    called = [one.call_id for one in run.emissions if isinstance(one, ToolCall)]
    assert called == [one.call_id for one in run.emissions if isinstance(one, ToolResult)]
    assert len(set(called)) == 2
