"""What a client asks of an agent besides its message, at every door: tools of its own, a form of the answer, settings.

Agents that honor it get it as `metadata.client` of the message (see `agentkit.clients`). For others it has no effect,
which the response's header `Warning` says, or is refused where the client could not use another answer.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit import HandlerError
from agentkit.clients import CLIENT, RESULTS, Wish, calls_in
from agentkit.llm import MODEL_WISHES
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.repeats import was_sent
from apps.engine.turns import handlers
from apps.record.content.strict_json import digest_of
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import JSON
from apps.record.models import Task, TaskState
from apps.record.reading import lookup

TOOL_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
MAX_TOOLS = 128
MOST_TASKS = 3  # whose results are looked for: a thread waits in one
OUTPUT_TOOL = "final_result"  # of answers that have a form
CALL_ID = re.compile(r"call_([0-9a-f]{32})_([\w-]{1,32})", re.ASCII)
"""The id of a `turns.ClientCall`: the task, and the call's id in it."""


@dataclass(slots=True)
class Wishes:
    """What a client asks. The keys of `settings` are agentkit's, and its values are the client's field and the value.

    Attributes:
        tools: `{"name", "description", "parameters"}` each, as the client sent them.
        choice: "auto", "none", "required", or a list with the names of tools.
        output: `{"name", "schema"}`.
        output_field: the client's name for it.
        no_effect: fields that have no effect with any agent.
    """

    tools: Sequence[Any] = ()
    choice: str | Sequence[str] = "auto"
    output: JSON | None = None
    output_field: str = "response_format"
    settings: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    no_effect: list[str] = field(default_factory=list)

    async def told(self, agent: Agent) -> tuple[JSON, str]:
        """The metadata of the message, and the value of the header `Warning` or "". Raises InvalidParams."""
        honored = await honored_by(agent)
        ignored, client = list(self.no_effect), JSON()
        demands = self.choice not in ("auto", "none")
        if "tools" in honored:
            client |= self._tools()
        elif demands:
            raise InvalidParams(f"{agent.slug} calls no tools of clients. Send auto or none.", "tool_choice")
        elif self.tools:
            ignored.append("tools")
        if self.output is not None:
            if "output" not in honored:
                raise InvalidParams(f"{agent.slug} gives no answers of a given form. Leave it out.", self.output_field)
            client["output"] = self.output
        if "settings" in honored:
            client |= {"settings": {name: value for name, (_, value) in self.settings.items()}} if self.settings else {}
        else:
            ignored += [name for name, _ in self.settings.values()]
        warning = f'199 parley "{agent.slug} does not use {", ".join(ignored)}."' if ignored else ""
        return ({CLIENT: client} if client else {}), warning

    def _tools(self) -> JSON:
        if len(self.tools) > MAX_TOOLS:
            raise InvalidParams(f"At most {MAX_TOOLS}.", "tools")
        tools = [_checked_tool(at, one) for at, one in enumerate(self.tools)]
        names = [one["name"] for one in tools]
        if self.output is not None and OUTPUT_TOOL in names:
            raise InvalidParams(f"The name {OUTPUT_TOOL} is taken where the answer has a form.", "tools")
        demanded = names if self.choice == "required" else [] if isinstance(self.choice, str) else list(self.choice)
        if self.choice not in ("auto", "none") and not (demanded and set(demanded) <= set(names)):
            raise InvalidParams("Must name one of the tools.", "tool_choice")
        if self.choice == "none" or not tools:
            return {}
        return {"tools": tools} | ({"mustCall": demanded} if demanded else {})


def _checked_tool(at: int, tool: Any) -> JSON:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise InvalidParams("Must have 1 to 64 letters, digits, _ and -.", f"tools[{at}].name")
    description, parameters = tool.get("description") or "", tool.get("parameters") or {}
    if not isinstance(description, str):
        raise InvalidParams("Must be a string.", f"tools[{at}].description")
    if not isinstance(parameters, dict):
        raise InvalidParams("Must be an object, a JSON Schema.", f"tools[{at}].parameters")
    return {"name": name, "description": description, "parameters": parameters}


async def honored_by(agent: Agent) -> Sequence[Wish]:
    """What the agent honors of a client's wishes."""
    if agent.kind == Agent.Kind.MODEL:
        return MODEL_WISHES
    if agent.kind != Agent.Kind.HOSTED:
        return ()
    try:
        return (await handlers.handler_of(agent)).wishes
    except HandlerError:
        return ()


def json_or_text(text: str) -> Any:
    """What a tool gave, as JSON if it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def results_message(
    principal: Principal, agent: Agent, results: Mapping[str, Any], message_id: str = ""
) -> JSON | None:
    """The fields of the message that answers a task's calls; None if no task waits for one of these results.

    `results`: by the calls' ids; `message_id`: by default the same for the same calls, so that a request that is sent
    again is told from another. One that is sent again after its task failed, or was canceled, answers no calls.
    """
    named = {found: result for one, result in results.items() if (found := CALL_ID.fullmatch(one))}
    for task_id in list(dict.fromkeys(found[1] for found in named))[-MOST_TASKS:]:
        own = {found[2]: result for found, result in named.items() if found[1] == task_id}
        key = message_id or f"results-{task_id}-{digest_of(sorted(own))[:16]}"
        task = _task(principal, agent, task_id)
        is_new = not message_id and _has_failed(task)
        if _waits(task, own) or (not is_new and was_sent(principal.sender, agent, key)):
            data = [{"callId": call, "result": result} for call, result in own.items()]
            return {
                "messageId": key,
                "taskId": str(uuid.UUID(task_id)),
                "parts": [{"data": {RESULTS: data}}],
            }
    return None


def _task(principal: Principal, agent: Agent, task_id: str) -> Task | None:
    try:
        return lookup.find_agent_task(principal, agent, str(uuid.UUID(task_id)))
    except TaskNotFound:
        return None


def _has_failed(task: Task | None) -> bool:
    return task is not None and task.state != TaskState.COMPLETED and TaskState(task.state).is_terminal


def _waits(task: Task | None, calls: Iterable[str]) -> bool:
    if task is None or task.state != TaskState.INPUT_REQUIRED:
        return False
    return bool({one.id for one in calls_in(task.slot)} & set(calls))
