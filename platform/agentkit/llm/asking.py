"""One conversation with a language model, for a task or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from agentkit.context import SyncTaskContext, TaskContext
from agentkit.emissions import Emission, Usage
from agentkit.errors import HandlerError
from agentkit.llm.importing import imported
from agentkit.llm.models import AnyModel, lent
from agentkit.messages import Message

if TYPE_CHECKING:
    from pydantic_ai import Agent

type Said = str | Message | Iterable[Message]
"""What a model is told: text, a message, or a conversation that ends with the user's words."""


async def ask(
    agent: Agent[TaskContext, Any],
    about: str,
    task: TaskContext,
    messages: list[Message],
    model: AnyModel,
    **options: Any,
) -> Any:
    """What the model answers at last; `about` are its instructions. Raises AgentFailure where it cannot be asked."""
    await imported("agentkit.llm.endpoints", "agentkit.llm.failures", "agentkit.llm.bookmarks")
    from pydantic_ai import RunUsage

    from agentkit.llm.bookmarks import bookmarked
    from agentkit.llm.conversations import prompt_of, to_model_messages
    from agentkit.llm.failures import told

    *earlier, newest = messages
    if newest.role != "user":
        raise HandlerError("A model is asked by a conversation that ends with a message of the user.")
    usage = RunUsage()
    async with lent(model) as lender:
        secrets = [getattr(getattr(lender, "client", None), "api_key", "")]
        try:
            with told(lender.model_name, secrets), bookmarked(task, about, messages) as before:
                result = await agent.run(
                    None if before else prompt_of(newest),
                    message_history=[*to_model_messages(earlier), *before],
                    model=lender,
                    deps=task,
                    usage=usage,
                    infer_name=False,
                    **options,
                )
        finally:
            if usage.requests:
                # Not `say`: a stop does not undo what was used.
                await task.emit(Usage(lender.model_name, usage.requests, usage.input_tokens, usage.output_tokens))
    return result.output


def conversation(task: TaskContext | None, said: Said | None) -> list[Message]:
    """What a model is told: `said`, or else the task's conversation with its newest message."""
    if said is None:
        if task is None:
            raise HandlerError("Without a task, say what the model is asked.")
        return [*task.history, task.message]
    if isinstance(said, str):
        wire = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": said}]}
        return [Message.from_wire(wire)]
    messages = [said] if isinstance(said, Message) else list(said)
    if not messages:
        raise HandlerError("The conversation is empty: nothing asks the model for an answer.")
    return messages


def heard_by_nobody(messages: list[Message]) -> TaskContext:
    """A task for work without one: what is said on the way goes unheard."""
    return TaskContext(task_id="", context_id="", message=messages[-1], emit=_unheard)


def in_thread[T](task: SyncTaskContext | None, work: Callable[[TaskContext | None], Coroutine[Any, Any, T]]) -> T:
    """Has async work done for code in a thread, on the host's loop, or without a task on a loop of its own."""
    if task is None:
        return asyncio.run(work(None))
    return task.wait_for(work(task.on_loop))


async def _unheard(emission: Emission) -> None:
    """There is nobody to hear it."""
