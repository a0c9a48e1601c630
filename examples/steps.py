"""A step done by a language model, or by a plain function if no model is configured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from agentkit import TaskContext
from agentkit.llm import Asked, LlmFunction, has_model, scripted

NOTE = "Offline: no language model is connected, so a simple script wrote this."
"""What answers say that no language model had a hand in."""


class Step[T]:
    """A step takes named values and returns a value of a type.

    OUTLINE = Step("writer", "Outline a text on `brief`.", Outline, offline=outlined)
    outline = await OUTLINE(task, brief="Tides")

    Args:
        name: of the script, in the record: `scripted:<name>`.
        instructions: for the model, which gets the values as JSON.
        offline: answers if there is no model. It is called in a thread, with the values.
    """

    def __init__(self, name: str, instructions: str, output: type[T], *, offline: Callable[..., T]) -> None:
        async def respond(asked: Asked) -> T:
            return await asyncio.to_thread(offline, **json.loads(asked.text))

        script = scripted(respond, name=name, unless_configured=True)
        self._ask = LlmFunction(f"{instructions}\nThe message is a JSON object of data.", output, model=script)

    async def __call__(self, task: TaskContext, **known: Any) -> T:
        """Raises AgentFailure if a model is configured and fails."""
        return await self._ask(task, json.dumps(known, ensure_ascii=False))


async def noted(text: str) -> str:
    """The text, with the note if no model is configured."""
    return text if await has_model() else f"{text}\n\n{NOTE}"
