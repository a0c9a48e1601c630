"""A function whose body is a language model: a conversation in, a value of a type out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, overload

from agentkit.context import SyncTaskContext, TaskContext
from agentkit.llm.asking import Said, ask, conversation, heard_by_nobody, in_thread
from agentkit.llm.importing import imported
from agentkit.llm.models import AnyModel

if TYPE_CHECKING:
    from pydantic_ai import Agent


class LlmFunction[T]:
    """One turn of a language model, whose answer is a value: a Pydantic model, `str`, `list[str]`, an enum, ….

    weather = LlmFunction("Say what the weather is.", Weather)
    found = await weather(task)                  # in a handler, about the task's conversation
    found = await weather(None, "In Rome, please.")  # anywhere

    An answer that does not fit is asked for again, with what is wrong about it.
    """

    @overload
    def __init__(
        self: LlmFunction[str],
        instructions: str,
        output: None = None,
        *,
        model: AnyModel = None,
        retries: int = 2,
        settings: Mapping[str, Any] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        instructions: str,
        output: type[T],
        *,
        model: AnyModel = None,
        retries: int = 2,
        settings: Mapping[str, Any] | None = None,
    ) -> None: ...
    def __init__(
        self,
        instructions: str,
        output: type[T] | None = None,
        *,
        model: AnyModel = None,
        retries: int = 2,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`output` is `str` by default; `settings` are those of pydantic-ai, such as `temperature`."""
        self.instructions = instructions
        self.output = cast("type[T]", output or str)
        self.model = model
        self.retries = retries
        self.settings = settings

    async def __call__(self, task: TaskContext | None, said: Said | None = None) -> T:
        """The value for `said`, or for the task's conversation.

        Raises:
            AgentFailure: no model is configured, it cannot be reached, or no answer fits.
        """
        await imported("agentkit.llm.failures")
        messages = conversation(task, said)
        answer = await ask(self._agent, self.instructions, task or heard_by_nobody(messages), messages, self.model)
        return cast(T, answer)

    def sync(self, task: SyncTaskContext | None, said: Said | None = None) -> T:
        """The same for a handler that runs in a thread, and for a script without an event loop."""
        return in_thread(task, lambda on_loop: self(on_loop, said))

    @cached_property
    def _agent(self) -> Agent[TaskContext, T]:
        from pydantic_ai import Agent, AgentRetries, ModelSettings

        return Agent(
            output_type=self.output,
            instructions=self.instructions,
            retries=AgentRetries(output=self.retries),
            model_settings=cast(ModelSettings, self.settings or {}),
            deps_type=TaskContext,
            name="function",
        )
