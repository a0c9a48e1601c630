"""Takes turns of agents without code, by the agent version that the run names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.core.exceptions import ValidationError

from agentkit import Completed, HandlerError, Outcome, SkillHandler, TaskContext, drive
from agentkit.llm import AgentTool, LlmWorker, McpServer, NoModel
from agentkit.llm.tools import Tool
from agentkit.tools import ToolFunction
from apps.agents import definitions
from apps.agents.definitions import Definition
from apps.agents.models import Agent
from apps.agents.registration import error_text
from apps.engine.turns.assignment import Assignment, ReleaseSlot
from apps.engine.turns.delegation import principal_of
from apps.engine.turns.handlers import Impairment
from apps.model_agents import language_models
from apps.record.models import Task
from parley import db

NO_VERSION = "The agent {} has no version: save it once more in admin."


class ModelHandler(SkillHandler):
    def __init__(self, worker: LlmWorker, *, streaming: bool) -> None:
        self.worker = worker
        self.streaming = streaming

    async def on_request(self, task: TaskContext) -> Completed:
        return Completed(await self.worker.run(task, stream=self.streaming))


async def execute(assignment: Assignment, task: TaskContext, _: ReleaseSlot) -> Outcome:
    """Take one turn. Raises HandlerError if the version names something that is missing."""
    agent = assignment.agent
    version = agent.current_version
    if version is None:
        raise HandlerError(NO_VERSION.format(agent.slug))
    definition = Definition.read(version.content)
    settings = {"temperature": definition.temperature, "max_tokens": definition.max_tokens}
    settings |= assignment.options.get("settings", {})
    worker = LlmWorker(
        definition.instructions,
        await db.run(_tools, agent, definition, task),
        model=assignment.options.get("model") or definition.model or None,
        max_steps=definition.max_steps,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    return await drive(ModelHandler(worker, streaming=definition.streaming), task)


def health_problem(agent: Agent) -> str | Impairment:
    """Why the agent cannot work here, or works by another model, as a sentence for operators; "" if all is well."""
    version = agent.current_version
    if version is None:
        return NO_VERSION.format(agent.slug)
    try:
        definition = Definition.read(version.content)
        problem = language_models.problem_of(definition.model)
        _functions(definition.tools)
    except ValidationError as error:
        return f"Its version {version.number} cannot be read: save it once more in admin. {error_text(error)}"
    except (NoModel, HandlerError) as error:
        return str(error)
    return Impairment(problem) if problem else ""


def _functions(names: Iterable[str]) -> list[ToolFunction]:
    known = definitions.registered_tools()
    if missing := [name for name in names if name not in known]:
        raise HandlerError(f"There is no tool {', '.join(missing)} here: name its module in AGENT_TOOLS.")
    return [known[name].function for name in names]


def _tools(agent: Agent, definition: Definition, task: TaskContext) -> list[Tool]:
    headers = definitions.tool_server_headers(agent, definition)
    return [
        *_functions(definition.tools),
        *(
            AgentTool(other.slug, f"{other.name}: {other.description}")
            for other in _callable_agents(definition.agents, task.task_id)
        ),
        *(McpServer(server.url, headers[server.url]) for server in definition.mcp_servers),
        *definitions.turn_tools(task),
    ]


def _callable_agents(slugs: Sequence[str], task_id: str) -> list[Agent]:
    """The agents among these that the task's owner may use. The model must not learn of others."""
    if not slugs:
        return []
    owner = principal_of(Task.objects.select_related("owner").get(pk=task_id))
    there = {other.slug: other for other in Agent.objects.visible_to(owner).filter(slug__in=slugs)}
    return [there[slug] for slug in slugs if slug in there]
