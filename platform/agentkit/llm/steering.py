"""What arrives while a model works: messages, which it is told before its next request, and the wish to stop.

It imports the model library: import it late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestContext

from agentkit.content.messages import Message
from agentkit.context import TaskContext
from agentkit.llm.conversations import Spotlight, to_model_messages
from agentkit.llm.reading import USUAL, Sight

READ = ":read"
"""After a bookmark's name: the name in a task's memory of the ids of messages that a suspended turn has read."""


class StopsAfterStep(Exception):
    """Somebody asked the turn to stop, and a step has ended. `text`: the model's newest words."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass
class Steering(AbstractCapability[TaskContext]):
    """Reads the inbox between a step and the next request. A turn of one request reads nothing.

    A suspended turn keeps its messages with the model (`conversations.bookmarked`): what it has read comes once.
    """

    task: TaskContext
    page: str
    spotlight: Spotlight
    _known: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._known = self.task.memory.pop(self.page + READ, [])

    def keep(self) -> None:
        """For the next turn, if this one is suspended."""
        if self._known:
            self.task.memory[self.page + READ] = self._known

    async def before_model_request(
        self, ctx: RunContext[TaskContext], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if ctx.run_step > 1:
            if self.task.stop_requested:
                raise StopsAfterStep(_newest_words(ctx.messages))
            new = [one for one in await self.task.inbox.unread() if one.id not in self._known]
            sight = getattr(ctx.model, "sight", USUAL)
            for part in await asyncio.to_thread(self._prompts, new, sight) if new else []:
                ctx.enqueue(part)
            self._known += [one.id for one in new]
        return request_context

    def _prompts(self, messages: list[Message], sight: Sight) -> list[UserPromptPart]:
        """It reads files."""
        told = to_model_messages(messages, self.spotlight, sight)
        return [part for one in told for part in one.parts if isinstance(part, UserPromptPart)]


def _newest_words(messages: Sequence[ModelMessage]) -> str:
    return next((one.text or "" for one in reversed(messages) if isinstance(one, ModelResponse)), "")
