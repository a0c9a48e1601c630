"""A crew or a flow of CrewAI: `from agentkit.adapters.crewai import serve; serve(crew)`, or `serve(MyFlow)`, a class.

Both get the inputs `message` and `history`, texts, and the message's data. Tasks of a crew and methods of a flow are
progress, tools are tool calls, and what a crew's last task says streams. A method with `@human_feedback` asks, and the
answer resumes the flow, whose state is kept in the conversation's memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Unpack

from crewai import Crew, Flow
from crewai.crews.crew_output import CrewOutput
from crewai.flow import HumanFeedbackPending, PendingFeedbackContext, flow_config, start
from crewai.flow.persistence import FlowPersistence

from agentkit.adapters import arguments_of, ended, keep, plain, serving, words_of
from agentkit.content.emissions import Emission, Progress, Token, ToolCall, ToolResult
from agentkit.content.messages import data_part, text_part
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Completed, InputRequired

KEPT = "crewai"
"""The key of a conversation's memory with a flow's state, and of a task's with a flow that waits."""
FEEDBACK = "feedback"
"""The slot of the question that a method's `@human_feedback` asks."""


class CrewAgent(SkillHandler):
    """A `Crew`, a flow's class, or a function that makes a flow and passes its keyword arguments on."""

    def __init__(self, theirs: Crew | type[Flow[Any]], **traits: Unpack[Traits]) -> None:
        self.theirs = theirs
        self.name = (theirs.name or "crew" if isinstance(theirs, Crew) else theirs.__name__).replace("_", " ")
        self.description = f"The CrewAI {'crew' if isinstance(theirs, Crew) else 'flow'} {self.name}."
        if flow_config.hitl_provider is None:
            flow_config.hitl_provider = Asking()
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        state, said = StateInMemory(), ""
        run, names = self._run(task, state)
        async with aclosing(_emissions(run, *names)) as emissions:
            async for emission in emissions:
                said += emission.text if isinstance(emission, Token) else ""
                await task.say(emission)
        result = run.result
        if isinstance(result, HumanFeedbackPending):
            task.memory[KEPT] = state.waiting
            return question(result.context)
        if state.state is not None:
            keep(task.session.memory, KEPT, state.state)
        if isinstance(result, CrewOutput):
            used = result.token_usage
            await task.usage("model", used.successful_requests, used.prompt_tokens, used.completion_tokens)
            result = result.pydantic or result.json_dict or result.raw
        return await ended(task, said, result)

    def _run(self, task: TaskContext, state: StateInMemory) -> tuple[Running, tuple[str, str]]:
        """What runs, with the id of the task that says the answer, and the flow's name."""
        if isinstance(self.theirs, Crew):
            crew = self.theirs.copy()  # its tasks keep their results
            return Running(lambda: crew.akickoff(inputs=inputs(task))), (str(crew.tasks[-1].id), "")
        if task.slot == FEEDBACK and KEPT in task.memory:
            state.waiting = task.memory[KEPT]
            flow = self.theirs.from_pending(state.waiting["context"]["flow_id"], state)
            return Running(lambda: flow.resume_async(str(task.answer))), ("", _name(flow))
        flow, state.state = self.theirs(persistence=state), task.session.memory.get(KEPT)
        known = {} if state.state is None else {"id": state.state["id"]}
        return Running(lambda: flow.kickoff_async(inputs=inputs(task) | known)), ("", _name(flow))


class Running(Flow):
    """Runs a crew or another flow, and streams its events."""

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(suppress_flow_events=True)
        self._work = work
        self._result: Any = None

    @property
    def result(self) -> Any:
        return self._result

    @start()
    async def run(self) -> None:
        self._result = await self._work()


class Asking:
    """Asks people for feedback by a question of the task: see `crewai.flow.HumanFeedbackProvider`."""

    def request_feedback(self, context: PendingFeedbackContext, flow: Flow[Any]) -> str:
        raise HumanFeedbackPending(context)


class StateInMemory(FlowPersistence):
    """A flow's state for one turn, and what it waits for."""

    state: dict[str, Any] | None = None
    waiting: dict[str, Any] = {}

    def init_db(self) -> None:
        pass

    def save_state(self, flow_uuid: str, method_name: str, state_data: Any) -> None:
        self.state = {"id": flow_uuid, **plain(state_data)}

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        return self.state

    def save_pending_feedback(self, flow_uuid: str, context: PendingFeedbackContext, state_data: Any) -> None:
        self.save_state(flow_uuid, context.method_name, state_data)
        self.waiting = {"context": plain(context.to_dict()), "state": self.state}

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], PendingFeedbackContext] | None:
        return self.waiting["state"], PendingFeedbackContext.from_dict(self.waiting["context"])


agent = CrewAgent
serve = serving(agent)


def inputs(task: TaskContext) -> dict[str, Any]:
    """The message and what was said before, as texts, and the values of the message's data."""
    said = {"message": words_of(task.message), "history": "\n".join(words_of(one) for one in task.history)}
    return said | {name: value for one in task.message.data if isinstance(one, dict) for name, value in one.items()}


def _name(flow: Flow[Any]) -> str:
    return str(flow.name or type(flow).__name__)


def question(asked: PendingFeedbackContext) -> InputRequired:
    """The message of `@human_feedback` with what people are to see; `emit` is its choices."""
    schema = {"type": "string", "enum": list(asked.emit)} if asked.emit else None
    output = asked.method_output
    shown = text_part(output) if isinstance(output, str) else data_part(plain(output))
    return InputRequired([text_part(asked.message), shown], FEEDBACK, schema)


async def _emissions(run: Running, answering: str, flow: str) -> AsyncGenerator[Emission]:
    """`answering` is the task whose text is the answer, and `flow` the name of the flow whose methods are progress."""
    async with run.astream() as frames:
        async for frame in frames:
            match frame.type, frame.data:
                case "llm_stream_chunk", {"task_id": said_by, "chunk": str(text)} if said_by == answering and text:
                    yield Token(text)
                case "task_started", {"task_name": str(name)}:
                    yield Progress(name)
                case "method_execution_started", {"flow_name": name, "method_name": method} if name == flow:
                    yield Progress(str(method).replace("_", " "))
                case "tool_usage_started", {"tool_name": name, "tool_args": given}:
                    yield ToolCall(frame.id, name, arguments_of(given))
                case "tool_usage_finished", {"tool_name": name, "started_event_id": call} as data:
                    yield ToolResult(str(call), name, plain(data["output"]), bool(data["failure"]))
                case "tool_usage_error", {"tool_name": name, "started_event_id": call} as data:
                    yield ToolResult(str(call), name, str(data["error"]), is_error=True)
