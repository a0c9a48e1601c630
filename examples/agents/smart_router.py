"""A router that chooses between a message and a task, and for a task chooses the agent that does the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentkit import (
    Artifact,
    Completed,
    Decision,
    Message,
    ResponseType,
    Skill,
    SkillHandler,
    Start,
    TaskContext,
    by_words,
)
from agentkit.llm import by_model, has_model, skill_by_model
from agentkit.selecting import by_rules, has_files, says
from examples.steps import ON_CARD, Step, noted


@dataclass(frozen=True)
class Route:
    """An agent that gets work, and the words that select it."""

    agent: str
    does: str
    words: Sequence[str]
    example: str = ""


ROUTES = (
    Route("reviewer", "reviews a text", ["review", "proofread", "critique", "correct"], "Review: The the cat sat."),
    Route("writer", "writes a short text", ["write", "draft", "compose", "article", "essay"], "Write about the tides"),
    Route("builder", "builds a small project", ["build", "website", "project"], "Build a website about bees"),
    Route("travel", "plans a trip", ["trip", "travel", "journey", "flight", "holiday"], "A trip to Lisbon on 3 May"),
    Route("report", "reports on a table", ["report", "csv", "statistics", "chart"]),
)  # fmt: skip
TALK = "talk"
WORDS = {route.agent: route.words for route in ROUTES}

is_work = says(*(word for words in WORDS.values() for word in words))
at_once = by_rules((has_files, "task"), (is_work, "task"), otherwise="message")
judged = by_model("Greetings, thanks, and questions about this agent itself are small; all else is passed on.")


def _talked(said: str) -> str:
    known = "\n".join(f"- {route.agent}: {route.does}" for route in ROUTES)
    heard = " ".join(said.split())
    begin = f"I do not know who can help with “{heard[:100]}”." if heard else "Hello!"
    return f"{begin} I pass your message to the right agent:\n\n{known}\n\nTry: {ROUTES[1].example}"


ANSWER = Step(
    "smart-router",
    "Answer what was `said` in one or two sentences. You pass work on to other agents: "
    + "; ".join(f"{route.agent} {route.does}" for route in ROUTES),
    str,
    offline=_talked,
)


async def which_agent(message: Message, skills: Sequence[Skill]) -> Decision:
    """Selects the agent by a language model or by words. Asks if words match several agents."""
    if await has_model():
        return await skill_by_model()(message, skills)
    if not is_work(message):
        return Start("report" if has_files(message) else TALK)
    return by_words(WORDS)(message, skills)


class SmartRouter(SkillHandler):
    """Answers small talk at once, and passes work on to the agent that does it."""

    name = "Smart router"
    description = f"Answers small talk, and passes work to the right agent. {ON_CARD}"
    skills = (
        Skill(TALK, "Small talk", "Says hello and what it can do.", tags=["talk"], examples=["What can you do?"]),
        *(
            Skill(
                route.agent,
                f"Pass to {route.agent}",
                f"Passes the message to the agent {route.agent}, which {route.does}.",
                tags=["router", *map(str.casefold, route.words)],
                examples=[route.example] if route.example else [],
                input_modes=["*/*"],
            )
            for route in ROUTES
        ),
    )
    choose_skill = staticmethod(which_agent)
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    # The task keeps its skill, so a repeated turn goes to the same agent.
    retry_safe = True

    async def select_response_type(self, message: Message) -> ResponseType:
        """Small talk gets a message, work a task. A language model decides, or else words do."""
        return await judged(message) if await has_model() else at_once(message)

    async def on_request(self, task: TaskContext) -> Completed:
        if task.skill in (None, TALK) or not task.task_id:  # without a task there are no calls to other agents
            return Completed(await noted(await ANSWER(task, said=task.message.text)))
        route = next(route for route in ROUTES if route.agent == task.skill)
        await task.progress(f"Passing this to {route.agent}, which {route.does}…")
        # Only the parts: metadata would name a skill of this agent.
        result = await task.call(route.agent, task.message.parts, key="work")
        passed_on = [Artifact(one.parts, one.name, one.description) for one in result.artifacts]
        return Completed(f"{route.agent.capitalize()} worked on this.\n\n{result.text}", passed_on)
