"""The checkpoints of a LangGraph graph that has no checkpointer of its own, for `agentkit.adapters.langgraph`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agentkit.adapters import MOST_KEPT
from agentkit.context import TaskContext

KEPT = "langgraph"
"""The key of a conversation's memory with its newest checkpoint."""


class TurnSaver(InMemorySaver):
    """The checkpoints of one turn.

    The newest is kept in the conversation's memory. If the turn is `in_steps`, all that the graph saves, after each of
    its nodes, is a step of the turn.
    """

    def __init__(self, task: TaskContext) -> None:
        super().__init__()
        self.task = task
        self.is_in_steps = False
        self._steps = 0
        self._one_by_one = asyncio.Lock()

    async def restore(self, thread: Any, *, in_steps: bool) -> bool:
        """Load the conversation's checkpoint, and what an earlier attempt of the turn saved: was there any?"""
        if KEPT in self.task.session.memory:
            checkpoint, metadata, writes = self._loaded(self.task.session.memory[KEPT])
            config: Any = {"configurable": {**thread["configurable"], "checkpoint_ns": ""}}
            config = await self.aput(config, checkpoint, metadata, checkpoint["channel_versions"])
            for task_id in {one[0] for one in writes}:
                await self.aput_writes(config, [(one[1], one[2]) for one in writes if one[0] == task_id], task_id)
        while in_steps and self.task.attempt > 1:
            try:
                saved = await self._step(_goes_on_here)
            except LookupError:
                break
            name, *given = self._loaded(saved)
            await getattr(self, name)(*given)
        self.is_in_steps = in_steps
        return self._steps > 0

    async def keep(self, thread: Any) -> None:
        """Keep the newest checkpoint in the conversation's memory."""
        if (newest := await self.aget_tuple(thread)) is not None:
            kept = [newest.checkpoint, newest.metadata, newest.pending_writes or []]
            self.task.session.memory[KEPT] = self._dumped(kept)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        made = await super().aput(config, checkpoint, metadata, new_versions)
        await self._save("aput", _named(config), checkpoint, metadata, new_versions)
        return made

    async def aput_writes(self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = "") -> None:
        await super().aput_writes(config, writes, task_id, task_path)
        await self._save("aput_writes", _named(config), list(writes), task_id, task_path)

    async def _save(self, *saved: Any) -> None:
        async with self._one_by_one:
            if self.is_in_steps and len("".join(kept := self._dumped(saved))) <= MOST_KEPT:
                await self._step(lambda: kept)

    async def _step(self, run: Callable[[], Any]) -> Any:
        kept = await self.task.step("keep graph", run, key=str(self._steps))
        self._steps += 1
        return kept

    def _dumped(self, value: Any) -> list[str]:
        kind, content = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(content).decode("ascii")]

    def _loaded(self, kept: list[str]) -> Any:
        return self.serde.loads_typed((kept[0], base64.b64decode(kept[1])))


def _goes_on_here() -> Any:
    raise LookupError("The graph goes on from here.")


def _named(config: Any) -> Any:
    """A checkpoint's config without the run's objects."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return {"configurable": {name: config["configurable"][name] for name in names if name in config["configurable"]}}
