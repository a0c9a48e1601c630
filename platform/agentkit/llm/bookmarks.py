"""Where a conversation with a model stood when another agent asked for something: the turn that follows goes on there.

So the model is not asked again for what it said, and calls the same agents with the same words, which finds their
tasks. This module imports the model library: import it late.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic_ai import capture_run_messages
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from agentkit.context import TaskContext
from agentkit.delegation import BOOKMARK, Suspended
from agentkit.messages import Message


@contextmanager
def bookmarked(task: TaskContext, instructions: str, messages: Sequence[Message]) -> Iterator[list[ModelMessage]]:
    """Gives what an earlier turn said of this conversation; keeps it for the next where this one is suspended."""
    page = _page(instructions, messages)
    before = ModelMessagesTypeAdapter.validate_python(task.memory.pop(page, []))
    with capture_run_messages() as said:
        try:
            yield before
        except Suspended:
            new = [message for message in said if message.run_id is not None]
            while new and not isinstance(new[-1], ModelResponse):
                new.pop()  # what the tools of the last step gave; they are called again
            task.memory[page] = ModelMessagesTypeAdapter.dump_python(new, mode="json")
            raise


def _page(instructions: str, messages: Sequence[Message]) -> str:
    told: list[Any] = [instructions, *(message.parts for message in messages)]
    return BOOKMARK + hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
