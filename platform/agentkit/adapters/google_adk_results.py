"""Results of finished tool calls for an agent of Google's ADK whose turn starts again.

A plugin: the kit asks it before a tool runs, and tells it the result. Both come beside the agent's own callbacks, so
what these refuse or change stays so.
"""

from __future__ import annotations

from typing import Any

from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import BaseTool, ToolContext

from agentkit.adapters import FinishedCalls
from agentkit.context import TaskContext

STATE = "state_delta"
"""The only one of a tool's actions that is kept: a call that does more, such as a transfer, happens again."""


class KeptResults(BasePlugin):
    """Answers a call with its result of an earlier attempt, and writes the state that it wrote."""

    def __init__(self, finished: FinishedCalls) -> None:
        super().__init__("agentkit_kept_results")
        self.finished = finished
        self._keys: dict[str, str] = {}

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        key = self._keys[str(tool_context.function_call_id)] = self.finished.key(tool.name, tool_args)
        for kept in await self.finished.earlier(tool.name, key):
            tool_context.state.update(kept[STATE])
            result: dict[str, Any] = kept["result"]
            return result
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> None:
        acts = {name: value for name, value in tool_context.actions.model_dump(mode="json").items() if value}
        if not tool.is_long_running and acts.keys() <= {STATE}:
            key = self._keys[str(tool_context.function_call_id)]
            response = result if isinstance(result, dict) else {"result": result}  # as the kit makes it
            await self.finished.keep(tool.name, key, {"result": response, STATE: acts.get(STATE, {})})


def keeping_results(app: App, task: TaskContext) -> App:
    """The app for a turn of the task."""
    return app.model_copy(update={"plugins": [*app.plugins, KeptResults(FinishedCalls(task))]})
