"""An agent whose head is a language model: it works in steps, with tools, and is heard while it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from agentkit.context import SyncTaskContext, TaskContext
from agentkit.llm.asking import Said, ask, conversation, heard_by_nobody, in_thread
from agentkit.llm.importing import imported
from agentkit.llm.models import AnyModel
from agentkit.llm.tools import Tool
from agentkit.messages import Message
from agentkit.outcomes import AgentFailure

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentkit.llm.toolsets import Toolset


class LlmWorker:
    """Many turns of a language model with tools, until it has an answer.

    helper = LlmWorker("You help with travel plans.", [weather, AgentTool("translator", "Translates text.")])
    return await helper.run(task)

    Its text is streamed as tokens; calls of tools, their results and its thoughts are told to the task, and what it
    used is recorded. Tools that are called together run side by side. What a tool raises goes back to the model.
    """

    def __init__(
        self,
        instructions: str,
        tools: Sequence[Tool] = (),
        *,
        model: AnyModel = None,
        max_steps: int = 10,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """A step is one answer of the model, with the tools that it calls; `settings` are those of pydantic-ai."""
        self.instructions = instructions
        self.tools = tools
        self.model = model
        self.max_steps = max_steps
        self.settings = settings

    async def run(
        self,
        task: TaskContext | None = None,
        thread: Said | None = None,
        message: str | Message | None = None,
        *,
        stream: bool = True,
    ) -> str:
        """Works until there is an answer, and gives it: all that was streamed, or the last words without `stream`.

        The model is told the task's conversation; or `thread`; or `message`, alone or after `thread`.

        Raises:
            AgentFailure: no model is configured, it cannot be used, or it took more than `max_steps`.
        """
        messages = [
            *(conversation(task, thread) if thread is not None else []),
            *([] if message is None else conversation(task, message)),
        ]
        messages = messages or conversation(task, None)
        return await self._work(task or heard_by_nobody(messages), messages, stream=stream)

    def sync(
        self,
        task: SyncTaskContext | None = None,
        thread: Said | None = None,
        message: str | Message | None = None,
        *,
        stream: bool = True,
    ) -> str:
        """The same for a handler that runs in a thread, and for a script without an event loop."""
        return in_thread(task, lambda on_loop: self.run(on_loop, thread, message, stream=stream))

    async def _work(self, task: TaskContext, messages: list[Message], *, stream: bool) -> str:
        await imported("agentkit.llm.toolsets", "agentkit.llm.telling")
        from pydantic_ai import UsageLimitExceeded, UsageLimits

        from agentkit.llm.telling import Teller
        from agentkit.llm.toolsets import connected

        teller = Teller(task, stream=stream)
        async with connected(self.tools) as servers:
            try:
                last: str = await ask(
                    self._agent,
                    self.instructions,
                    task,
                    messages,
                    self.model,
                    toolsets=[*self._toolsets, *servers],
                    usage_limits=UsageLimits(request_limit=self.max_steps),
                    event_stream_handler=teller.follow,
                )
            except UsageLimitExceeded:
                raise AgentFailure(
                    f"The agent came to no answer within its limit of {self.max_steps} steps.", "step_limit"
                ) from None
        return teller.text or last

    @cached_property
    def _toolsets(self) -> list[Toolset]:
        from agentkit.llm.toolsets import functions_and_agents

        return functions_and_agents(self.tools)

    @cached_property
    def _agent(self) -> Agent[TaskContext, str]:
        from pydantic_ai import Agent, AgentRetries, ModelSettings

        return Agent(
            instructions=self.instructions,
            # Wrong arguments go back to the model, as often as there are steps.
            retries=AgentRetries(tools=self.max_steps, output=2),
            model_settings=cast(ModelSettings, self.settings or {}),
            deps_type=TaskContext,
            name="worker",
        )
