"""Workflows of LlamaIndex, with their own package. It runs in an environment without Parley."""

import asyncio

import pytest
from workflows import Context, Workflow, step
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

from agentkit import Completed, Failed, InputRequired, ToolCall, ToolResult, testing
from agentkit.adapters.llama_index import agent


class Middle(Event):
    text: str


class Echo(Workflow):
    @step
    async def reply(self, ctx: Context, event: StartEvent) -> StopEvent:
        for word in ("You ", "said ", event.message):
            ctx.write_event_to_stream(Event(delta=word))
        return StopEvent(result=f"You said {event.message}")


async def test_text_streams_and_is_the_answer():
    run = await testing.run(agent(Echo()), "hello")
    assert run.text == run.said == "You said hello"


async def test_progress_and_tool_calls_are_reported():
    class Looking(Workflow):
        @step
        async def look(self, ctx: Context, event: StartEvent) -> StopEvent:
            called = {"tool_name": "weather", "tool_kwargs": {"city": "Rome"}, "tool_id": "1"}
            ctx.write_event_to_stream(Event(msg="Looking…"))
            ctx.write_event_to_stream(Event(**called))
            ctx.write_event_to_stream(Event(**called, tool_output="Sun"))
            return StopEvent(result={"city": "Rome"})

    run = await testing.run(agent(Looking()), "hello")
    assert run.recorder.progress == ["Looking…"]
    kinds = [one for one in run.emissions if isinstance(one, ToolCall | ToolResult)]
    assert kinds == [ToolCall("1", "weather", {"city": "Rome"}), ToolResult("1", "weather", "Sun")]
    assert run.delivered[0].data == [{"city": "Rome"}]


class Trip(Workflow):
    @step
    async def ask(self, event: StartEvent) -> InputRequiredEvent:
        return InputRequiredEvent(prefix="Which city?", known=["Rome", "Oslo"])

    @step
    async def book(self, event: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=f"Booked {event.response}")


class Waiting(Workflow):
    @step
    async def ask(self, ctx: Context, event: StartEvent) -> StopEvent:
        asked = InputRequiredEvent(prefix="Which city?", known=["Rome", "Oslo"])
        given = await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked)
        return StopEvent(result=f"Booked {given.response}")


@pytest.mark.parametrize("kind", [Trip, Waiting])
async def test_required_input_is_a_question(kind):
    asked = await testing.run(agent(kind()), "a trip")
    assert isinstance(asked.outcome, InputRequired)
    assert asked.said == "Which city?"
    assert asked.outcome.parts[1]["data"] == {"known": ["Rome", "Oslo"]}
    assert (await asked.answer("Rome")).outcome == Completed("Booked Rome")


async def test_conversation_keeps_the_context():
    class Counting(Workflow):
        @step
        async def count(self, ctx: Context, event: StartEvent) -> StopEvent:
            count = await ctx.store.get("count", default=0) + 1
            await ctx.store.set("count", count)
            return StopEvent(result=str(count))

    session = {}
    runs = [await testing.run(agent(Counting()), "hello", session=session) for _ in range(3)]
    assert [run.said for run in runs] == ["1", "2", "3"]
    assert (await testing.run(agent(Counting()), "hello")).said == "1"


class Answer(StopEvent):
    city: str


async def test_own_stop_event_is_data():
    class Typed(Workflow):
        @step
        async def reply(self, event: StartEvent) -> Answer:
            return Answer(city="Rome")

    assert (await testing.run(agent(Typed()), "hello")).delivered[0].data == [{"city": "Rome"}]


async def test_timeout_fails_the_task():
    class Slow(Workflow):
        @step
        async def wait(self, event: StartEvent) -> StopEvent:
            await asyncio.sleep(60)
            return StopEvent()

    run = await testing.run(agent(Slow(timeout=0.1)), "hello")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.code == "timeout"


async def test_exception_fails_the_turn():
    class Broken(Workflow):
        @step
        async def reply(self, event: StartEvent) -> StopEvent:
            raise ValueError("It is broken.")

    with pytest.raises(ValueError, match="It is broken"):
        await testing.run(agent(Broken()), "hello")


async def test_turn_that_starts_again_repeats_no_step():
    ran, begun, effects = [], asyncio.Event(), testing.RememberedEffects()

    class Steps(Workflow):
        @step
        async def first(self, event: StartEvent) -> Middle:
            ran.append("first")
            return Middle(text=event.message)

        @step
        async def second(self, event: Middle) -> StopEvent:
            ran.append("second")
            if not begun.is_set():
                begun.set()
                await asyncio.sleep(60)
            return StopEvent(result=event.text)

    message = testing.user_message("go")

    async def attempt(number):
        task = testing.task_for(message, testing.Recorder(), attempt=number, effects=effects)
        return await agent(Steps(), retry_safe=True).on_request(task)

    killed = asyncio.create_task(attempt(1))
    await begun.wait()
    while "done" not in [one.state for one in effects.claims.values()][1:]:  # noqa: ASYNC110  # the begin of the second step
        await asyncio.sleep(0)
    killed.cancel()
    await asyncio.wait({killed})
    assert (await attempt(2)).message == "go"
    assert ran == ["first", "second", "second"]


async def test_answered_workflow_goes_on_after_a_crash():
    ran, effects, answer = [], testing.RememberedEffects(), testing.user_message("Rome")

    class Crashing(Workflow):
        @step
        async def ask(self, event: StartEvent) -> InputRequiredEvent:
            return InputRequiredEvent(prefix="Which city?")

        @step
        async def book(self, event: HumanResponseEvent) -> StopEvent:
            ran.append(event.response)
            if len(ran) == 1:
                raise RuntimeError("the process dies")
            return StopEvent(result=f"Booked {event.response}")

    asked = await testing.run(agent(Crashing()), "a trip")

    async def attempt(number):
        fields = {"slot": "input", "asked": {"name": "input"}, "memory": {**asked.memory}, "effects": effects}
        task = testing.task_for(answer, testing.Recorder(), attempt=number, **fields)
        return await agent(Crashing(), retry_safe=True).on_request(task)

    with pytest.raises(RuntimeError):
        await attempt(1)
    assert (await attempt(2)).message == "Booked Rome"
