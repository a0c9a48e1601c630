"""The Assistant: the agent that answers messages that name no agent (`settings.DEFAULT_AGENT`).

A language model answers, with tools and the other agents. Without a model, the agent that fits a message best gets it,
and a message that fits none is answered by what works now.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.conf import settings

from agentkit import Artifact, Call, ChildResult, Completed, InputRequired, Skill, SkillHandler, TaskContext
from agentkit.llm import MODEL_WISHES, AgentTool, Asked, LlmWorker, NoModel, UseTool, has_model, scripted
from apps.agents.definitions import registered_tools, turn_tools
from apps.agents.models import Agent
from apps.agents.search import find_agents
from apps.engine.turns.delegation import principal_of
from apps.record.models import Task
from apps.routing.choosing import pass_on
from apps.routing.suggestions import NO_MODEL, SUGGESTIONS, suggested_messages
from parley import db

HANDLER = "apps.routing.assistant:Assistant"
TOOLS = ("current_time", "calculate", "read_file")
MAX_AGENTS = 100  # that a model may call; providers limit the number of tools

INSTRUCTIONS = (
    "You are the assistant of this installation of Parley. Answer the user yourself where you can, in their language "
    "and in Markdown. The tools named ask_… are other agents: call one where its work is what the user wants, and name "
    "the files that it needs. The files that agents make reach the user with your answer, so do not repeat what is in "
    "them. If you do not know something, say so."
)


class Assistant(SkillHandler):
    """Answers questions, reads files, calculates, and has other agents do what they are made for."""

    name = "Assistant"
    category = "General"
    skills = (
        Skill(
            "assist",
            "Answer questions",
            "Answers by a language model, which can tell the time, calculate, read files and call other agents.",
            tags=["assistant", "questions", "tools"],
            examples=["What can you do?", "What is (17 + 4) * 2?", "What time is it in Europe/Paris?"],
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True
    offers_models = True
    steerable = True
    wishes = MODEL_WISHES
    time_limit = 4 * 3600.0  # it waits for other agents

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        if not (task.message.text.strip() or task.files or task.message.data):
            return InputRequired("How can I help you?", slot="request")
        if task.client.demands or task.client.calls:
            return await answer(task)
        passed_on = await pass_on(task, named_only=await has_model())
        return passed_on or await answer(task)


async def answer(task: TaskContext) -> Completed:
    """The answer of the language model. Without one, of a calculation or the clock, or what works now."""
    agents = await db.run(_callable_agents, uuid.UUID(task.task_id))
    if task.client.demands and not await has_model():
        raise NoModel
    if not await has_model() and not _tool_calls(task.message.text):
        return welcome(agents)
    heard: list[ChildResult] = []

    async def delegate(call: Call) -> ChildResult:
        if task.delegate is None:
            raise AssertionError("the platform lets tasks call agents")
        heard.append(await task.delegate(call))
        return heard[-1]

    tools, added = registered_tools(), await db.run(turn_tools, task)
    worker = LlmWorker(
        INSTRUCTIONS,
        [*(tools[name].function for name in TOOLS), *added, *map(_agent_tool, agents)],
        model=scripted(_play, name="assistant", unless_configured=True),
    )
    text = await worker.run(replace(task, delegate=delegate))
    for result in heard:
        if result.text.strip() == text.strip():
            return result.passed_on()
    return Completed(text, [made for result in heard for made in _files(result)])


def _agent_tool(agent: Agent) -> AgentTool:
    return AgentTool(agent.slug, f"{agent.name}: {agent.description}")


def _callable_agents(task_id: uuid.UUID) -> list[Agent]:
    """The listed agents that the task's owner may use and that can work, without those that answer any message."""
    owner = principal_of(Task.objects.select_related("owner").get(pk=task_id))
    house = (settings.DEFAULT_AGENT, settings.ROUTER_AGENT)
    found = [agent for agent in find_agents(owner) if agent.is_available and agent.slug not in house]
    return found[:MAX_AGENTS]


def _files(result: ChildResult) -> Iterable[Artifact]:
    """What another agent made besides its words."""
    if result.state != "completed":
        return
    for artifact in result.artifacts:
        if [part.get("text") for part in artifact.parts] != [result.text]:
            yield Artifact(artifact.parts, artifact.name, artifact.description)


def welcome(agents: Sequence[Agent]) -> Completed:
    """What works without a language model, with sentences to try."""
    tries = suggested_messages(agents)
    lines = [f"- **{one.agent.name}**: {one.agent.description}" for one in tries]
    said = [
        "Hello! No language model is connected to Parley yet, so I cannot answer this myself."
        + (" These agents work now:" if tries else ""),
        *(["\n".join(lines)] if lines else []),
        "I can also tell the time, calculate, and pass a message on to the agent that fits it. "
        "Once a language model is connected, ask me anything.",
    ]
    shown = [{"agent": one.agent.slug, "text": one.words} for one in tries]
    return Completed("\n\n".join(said), metadata={SUGGESTIONS: shown, NO_MODEL: True})


ARITHMETIC = re.compile(r"[\d(][\d\s.()]*(?:[-+*/%][\d\s.()]*)+[\d)]")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
CLOCK = re.compile(r"\bwhat (?:time|day|date)\b|\btime is it\b", re.IGNORECASE)
ZONE = re.compile(r"\b[A-Z][a-z]+/[A-Z]\w+\b")
MAX_SEARCHED = 2000  # characters of a message


def _tool_calls(text: str) -> list[UseTool]:
    """The tools that a message asks for in so many words."""
    said = text[:MAX_SEARCHED]
    sums = [found[0].strip() for found in ARITHMETIC.finditer(DATE.sub(" ", said))]
    calls = [UseTool("calculate", expression=one) for one in sums[:3]]
    if CLOCK.search(said):
        zone = ZONE.search(said)
        calls.append(UseTool("current_time", time_zone=zone[0] if zone else "UTC"))
    return calls


def _play(asked: Asked) -> str | list[UseTool]:
    """Works without a language model."""
    if asked.results:
        return "\n\n".join(str(result.content) for result in asked.results)
    return _tool_calls(asked.text)
