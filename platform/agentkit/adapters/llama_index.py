"""A workflow of LlamaIndex: `from agentkit.adapters.llama_index import serve; serve(workflow)`.

It starts with `message` and `history`, texts, and the values of the message's data. Of the events that it streams, a
`delta` is text, `progress` or `msg` is progress, and a tool's name with its arguments or output is a tool call. An
`InputRequiredEvent` is a question, and its answer a `HumanResponseEvent`. The context is kept in the conversation's
memory. With `retry_safe=True` it is kept as each step begins, and a turn that starts again goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Unpack

from workflows import Context, Workflow
from workflows.errors import WorkflowTimeoutError
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StepState, StepStateChanged, StopEvent

from agentkit.adapters import Saves, arguments_of, ended, keep, plain, serving, words_of
from agentkit.content.emissions import Emission, Progress, Token, ToolCall, ToolResult
from agentkit.content.messages import data_part, text_part
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Failed, InputRequired, Outcome

KEPT = "llama_index"
"""The key of a conversation's memory with the context, and of a task's with one that waits."""
INPUT = "input"
QUESTIONS = ("prefix", "question", "message", "prompt", "msg")
"""The fields of an InputRequiredEvent that may have its question."""

type Start = Callable[[TaskContext], Mapping[str, Any]]
type Respond = Callable[[Mapping[str, Any], Any], Event]


def inputs(task: TaskContext) -> dict[str, Any]:
    """What a workflow starts with by default."""
    given = {"message": words_of(task.message), "history": "\n".join(words_of(one) for one in task.history)}
    return given | {name: value for one in task.message.data if isinstance(one, dict) for name, value in one.items()}


def response(asked: Mapping[str, Any], answer: Any) -> Event:
    """The event of an answer by default."""
    return HumanResponseEvent(response=answer)


class WorkflowAgent(SkillHandler):
    """A `Workflow`."""

    def __init__(
        self, theirs: Workflow, *, start: Start = inputs, respond: Respond = response, **traits: Unpack[Traits]
    ) -> None:
        """
        Args:
            start: the fields of the start event, for a turn.
            respond: the event of an answer, by the fields of the question's event.
        """
        self.theirs = theirs
        self.start = start
        self.respond = respond
        self.name = type(theirs).__name__
        self.description = f"The LlamaIndex workflow {self.name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Outcome:
        waiting = task.memory.get(KEPT) if task.slot == INPUT else None
        saves = Saves(task, "workflow") if self.retry_safe else None
        saved = [one async for one in saves.earlier()] if saves is not None else []
        if saved and "asked" in saved[-1]:
            return self._ask(task, saved[-1])
        run, said = self._run(task, saved[-1] if saved else None, waiting), ""
        try:
            async with aclosing(run.stream_events(expose_internal=saves is not None)) as events:
                async for event in events:
                    if isinstance(event, InputRequiredEvent):
                        asked = {"context": run.ctx.to_dict(), "asked": fields(event)}
                        if saves is not None:
                            await saves.add(asked)
                        return self._ask(task, asked)
                    if saves is not None and _begins_step(event) and run.ctx.is_running:
                        await saves.add({"context": run.ctx.to_dict()})
                    for emission in of_event(event):
                        said += emission.text if isinstance(emission, Token) else ""
                        await task.say(emission)
            result = await run
        except WorkflowTimeoutError as error:
            return Failed(str(error), "timeout")
        finally:
            if not run.is_done():
                await run.cancel_run()
        keep(task.session.memory, KEPT, run.ctx.to_dict())
        return await ended(task, said, fields(result) if isinstance(result, StopEvent) else result)

    def _ask(self, task: TaskContext, waiting: dict[str, Any]) -> InputRequired:
        task.memory[KEPT] = waiting
        return question(waiting["asked"])

    def _run(self, task: TaskContext, saved: Any, waiting: Any) -> Any:
        """The run, from what an earlier attempt saved, from the question, or from the start."""
        kept = saved or waiting
        known = kept["context"] if kept else task.session.memory.get(KEPT)
        context = Context.from_dict(self.theirs, known) if known else Context(self.theirs)
        run = self.theirs.run(ctx=context, **({} if kept else self.start(task)))
        if waiting and not saved:
            run.ctx.send_event(self.respond(waiting["asked"], task.answer))
        return run


agent = WorkflowAgent
serve = serving(agent)


def fields(event: Event) -> dict[str, Any]:
    """An event's fields, as JSON."""
    declared = {name: getattr(event, name) for name in type(event).model_fields}
    shown: dict[str, Any] = plain(declared | dict(event.items()))
    return shown


def _begins_step(event: Event) -> bool:
    """A step that begins is saved: what it takes is there, and it is not done."""
    return isinstance(event, StepStateChanged) and event.step_state == StepState.RUNNING


def question(asked: Mapping[str, Any]) -> InputRequired:
    """The fields of an InputRequiredEvent as a question: its text, with what else it has."""
    shown = dict(asked)
    text = next((shown.pop(name) for name in QUESTIONS if isinstance(shown.get(name), str)), "The agent asks:")
    schema = shown.pop("schema", None)
    parts = [text_part(text), data_part(shown)] if shown else [text_part(text)]
    return InputRequired(parts, INPUT, schema if isinstance(schema, dict) else None)


def of_event(event: Event) -> list[Emission]:
    """What an event says, by its fields: the events of LlamaIndex's agents have them."""
    if isinstance(text := getattr(event, "delta", None), str):
        return [Token(text)] if text else []
    if isinstance(name := getattr(event, "tool_name", None), str):
        call = str(getattr(event, "tool_id", ""))
        if (output := getattr(event, "tool_output", None)) is not None:
            shown = getattr(output, "content", None)
            return [
                ToolResult(
                    call, name, plain(output if shown is None else shown), bool(getattr(output, "is_error", False))
                )
            ]
        return [ToolCall(call, name, arguments_of(getattr(event, "tool_kwargs", {})))]
    lines = (getattr(event, name, None) for name in ("progress", "msg"))
    progress: list[Emission] = [Progress(line) for line in lines if isinstance(line, str)]
    return progress[:1]
