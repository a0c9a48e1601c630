"""An agent of Google's Agent Development Kit: `from agentkit.adapters.google_adk import serve; serve(agent)`.

Its text streams, transfers are progress, and tool calls are tool calls. A tool with `require_confirmation` asks whether
it may run, a long-running tool asks for its result, and a requested input is a question. The session is kept in the
conversation's memory. With `retry_safe=True`, a turn that starts again repeats no finished tool call.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Unpack

from google.adk.agents import BaseAgent, LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.adk.workflow import Workflow
from google.genai import types

from agentkit.adapters import APPROVAL, APPROVE, approval_question, arguments_of, ended, keep, plain, serving, words_of
from agentkit.adapters.google_adk_results import keeping_results
from agentkit.content.emissions import Emission, Progress, Thought, Token, ToolCall, ToolResult, Usage
from agentkit.content.messages import File, Message, data_part, text_part
from agentkit.context import TaskContext
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Failed, InputRequired, Outcome

KEPT = "google_adk"
"""The key of a conversation's memory with its session, and of a task's with a session that waits, and the answers."""
RESULT = "tool_result"
"""The slot of the question for a long-running tool's result, or for an input."""
CONFIRMATION, INPUT = "adk_request_confirmation", "adk_request_input"
"""Calls that the kit makes itself."""
USER = "user"


class AdkAgent(SkillHandler):
    """An agent or a workflow of the kit, or an `App`."""

    def __init__(self, theirs: BaseAgent | Workflow | App, **traits: Unpack[Traits]) -> None:
        self.app = theirs if isinstance(theirs, App) else App(name=theirs.name, root_agent=theirs)
        root: Any = self.app.root_agent
        self.name = self.app.name.replace("_", " ")
        self.description = getattr(root, "description", "") or f"The agent {self.name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Outcome:
        waiting = task.memory.get(KEPT) if task.slot in (APPROVAL, RESULT) else None
        if waiting is not None:
            waiting["answers"].append(_answered(waiting["calls"].pop(0), task))
            if waiting["calls"]:
                return question(waiting["calls"][0])
        runner = InMemoryRunner(app=keeping_results(self.app, task) if self.retry_safe else self.app)
        session = await self._session(runner, task, waiting["session"] if waiting else None)
        parts = [*map(types.Part.model_validate, waiting["answers"])] if waiting else parts_of(task.message)
        heard = Heard(self.app.root_agent)
        async with aclosing(_events(runner, session.id, types.Content(role="user", parts=parts))) as events:
            async for event in events:
                for emission in heard.emissions(event):
                    await task.say(emission)
        if heard.failure is not None:
            return heard.failure
        newest = await runner.session_service.get_session(app_name=self.app.name, user_id=USER, session_id=session.id)
        kept = {"state": plain(newest.state), "events": [_dumped(event) for event in newest.events]}
        if heard.calls:
            task.memory[KEPT] = {"session": kept, "calls": heard.calls, "answers": []}
            return question(heard.calls[0])
        keep(task.session.memory, KEPT, kept)
        return await ended(task, heard.said, heard.answer)

    async def _session(self, runner: InMemoryRunner, task: TaskContext, waiting: Any) -> Any:
        """The session that was kept, or one with the texts of the conversation."""
        kept = waiting or task.session.memory.get(KEPT)
        names = {"app_name": self.app.name, "user_id": USER, "session_id": task.context_id}
        session = await runner.session_service.create_session(state=kept["state"] if kept else None, **names)
        root = self.app.root_agent.name
        said = [_said(one, root) for one in task.history] if kept is None else map(Event.model_validate, kept["events"])
        for event in said:
            await runner.session_service.append_event(session, event)
        return session


class Heard:
    """What a run said."""

    def __init__(self, root: Any) -> None:
        self.speaker = root.name
        self.is_typed = isinstance(root, LlmAgent) and root.output_schema is not None
        self.said = ""
        self.answer: Any = ""
        self.calls: list[dict[str, Any]] = []  # that people are asked about
        self.failure: Failed | None = None
        self._streamed = False

    def emissions(self, event: Event) -> list[Emission]:
        said: list[Emission] = []
        if event.author not in (USER, self.speaker) and event.content:
            self.speaker = event.author
            said.append(Progress(f"{self.speaker} takes over."))
        for part in (event.content and event.content.parts) or []:
            if part.text and (event.partial or not self._streamed):
                said.append(Thought(part.text) if part.thought else Token(part.text))
        self.said += "".join(one.text for one in said if isinstance(one, Token))
        self._streamed = bool(event.partial)
        return said if event.partial else [*said, *self._whole(event)]

    def _whole(self, event: Event) -> list[Emission]:
        """Of an event that is not a piece of another one."""
        said: list[Emission] = []
        if event.error_code:
            self.failure = Failed(
                event.error_message or str(event.error_code), "model", {"code": str(event.error_code)}
            )
        for call in event.get_function_calls():
            shown = {"id": call.id, "tool": call.name, "arguments": arguments_of(call.args)}
            if call.id in (event.long_running_tool_ids or ()):
                self.calls.append(shown)
            if call.name not in (CONFIRMATION, INPUT):
                said.append(ToolCall(str(call.id), str(call.name), shown["arguments"]))
        for given in event.get_function_responses():
            said.append(ToolResult(str(given.id), str(given.name), plain(given.response)))
        if used := event.usage_metadata:
            tokens = (used.prompt_token_count or 0, used.candidates_token_count or 0)
            said.append(Usage(event.model_version or "model", 1, *tokens))
        if event.output is not None:
            self.answer = plain(event.output)
        elif event.is_final_response() and event.content:
            text = "".join(part.text or "" for part in event.content.parts or [] if not part.thought)
            self.answer = json.loads(text) if self.is_typed else text
        return said


agent = AdkAgent
serve = serving(agent)


async def _events(runner: InMemoryRunner, session: str, message: types.Content) -> AsyncGenerator[Event]:
    streaming = RunConfig(streaming_mode=StreamingMode.SSE)
    run = runner.run_async(user_id=USER, session_id=session, new_message=message, run_config=streaming)
    async with aclosing(run) as events:
        async for event in events:
            yield event


def question(call: dict[str, Any]) -> InputRequired:
    """About a call that waits for people."""
    given = call["arguments"]
    if call["tool"] == CONFIRMATION:
        asked = given.get("originalFunctionCall") or {}
        return approval_question(str(asked.get("name") or "tool"), asked.get("args"))
    if call["tool"] == INPUT:
        schema = given.get("response_schema")
        text = text_part(str(given.get("message") or "The agent asks:"))
        parts = [text, data_part(given["payload"])] if given.get("payload") is not None else [text]
        return InputRequired(parts, RESULT, schema if isinstance(schema, dict) else None)
    shown = {"tool": call["tool"], "arguments": given}
    return InputRequired([text_part(f"What is the result of {call['tool']}?"), data_part(shown)], RESULT)


def _answered(call: dict[str, Any], task: TaskContext) -> dict[str, Any]:
    """The answer as the call's response."""
    given = {"confirmed": task.answer == APPROVE} if call["tool"] == CONFIRMATION else task.answer
    response = types.FunctionResponse(
        id=call["id"], name=call["tool"], response=given if isinstance(given, dict) else {"result": given}
    )
    return _dumped(types.Part(function_response=response))


def parts_of(message: Message) -> list[types.Part]:
    """A person's message with its files."""
    return [types.Part(text=words_of(message)), *map(_file, message.files)]


def _file(file: File) -> types.Part:
    if file.url is not None:
        return types.Part.from_uri(file_uri=file.url, mime_type=file.media_type)
    return types.Part.from_bytes(data=file.read(), mime_type=file.media_type)


def _said(message: Message, agent_name: str) -> Event:
    by_agent = message.role == "agent"
    content = types.Content(role="model" if by_agent else "user", parts=[types.Part(text=words_of(message))])
    return Event(author=agent_name if by_agent else USER, content=content, invocation_id=message.id)


def _dumped(value: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = value.model_dump(mode="json", exclude_none=True, by_alias=True)
    return dumped
