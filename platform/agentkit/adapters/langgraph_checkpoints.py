"""The checkpoints of a LangGraph graph that has no checkpointer of its own, for `agentkit.adapters.langgraph`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agentkit.adapters import Saves
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
        self.saves: Saves | None = None

    async def restore(self, thread: Any, *, in_steps: bool) -> bool:
        """Load the conversation's checkpoint, and what an earlier attempt of the turn saved: was there any?"""
        if KEPT in self.task.session.memory:
            checkpoint, metadata, writes = self._loaded(self.task.session.memory[KEPT])
            config: Any = {"configurable": {**thread["configurable"], "checkpoint_ns": ""}}
            config = await self.aput(config, checkpoint, metadata, checkpoint["channel_versions"])
            for task_id in {one[0] for one in writes}:
                await self.aput_writes(config, [(one[1], one[2]) for one in writes if one[0] == task_id], task_id)
        if not in_steps:
            return False
        saves, goes_on = Saves(self.task, "graph"), False
        async for saved in saves.earlier():
            name, *given = self._loaded(saved)
            await getattr(self, name)(*given)
            goes_on = True
        self.saves = saves
        return goes_on

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
        if self.saves is not None:
            await self.saves.add(self._dumped(saved))

    def _dumped(self, value: Any) -> list[str]:
        kind, content = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(content).decode("ascii")]

    def _loaded(self, kept: list[str]) -> Any:
        return self.serde.loads_typed((kept[0], base64.b64decode(kept[1])))


def _named(config: Any) -> Any:
    """A checkpoint's config without the run's objects."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return {"configurable": {name: config["configurable"][name] for name in names if name in config["configurable"]}}
