"""A router that chooses between a message and a task, and for a task chooses the agent that does the work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from agentkit import Completed, Decision, Message, ResponseType, Skill, SkillHandler, Start, TaskContext
from agentkit.llm import by_model, has_model, skill_by_model
from agentkit.selecting import by_rules, has_files
from examples.steps import Step, noted


@dataclass(frozen=True)
class Route:
    """An agent that gets work, and the words that select it."""

    agent: str
    does: str
    words: Sequence[str]
    example: str = ""

    @property
    def name(self) -> str:
        return self.agent.capitalize()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{'|'.join(self.words)})\b", re.IGNORECASE)


ROUTES = (
    Route("reviewer", "reviews a text", ["review", "proofread", "critique", "correct"], "Review: The the cat sat."),
    Route("writer", "writes a short text", ["write", "draft", "compose", "article", "essay"], "Write about the tides"),
    Route("builder", "builds a small project", ["build", "website", "project"], "Build a website about bees"),
    Route("travel", "plans a trip", ["trip", "travel", "journey", "flight", "holiday"], "A trip to Lisbon on 3 May"),
    Route("report", "reports on a table", ["report", "csv", "statistics", "chart"]),
)  # fmt: skip
TALK = "talk"


def route_by_words(message: Message) -> Route | None:
    """The route whose words the message says first; None if it says none."""
    said = [(found.start(), route) for route in ROUTES if (found := route.pattern.search(message.text))]
    return min(said, key=lambda one: one[0])[1] if said else None


at_once = by_rules((has_files, "task"), (route_by_words, "task"), otherwise="message")
judged = by_model("Greetings, thanks, and questions about this agent itself are small; all else is passed on.")


def _talked(said: str) -> str:
    known = "\n".join(f"- **{route.name}** {route.does}." for route in ROUTES)
    return f"Hello! I pass work on to the agent that does it:\n\n{known}\n\nTry: {ROUTES[1].example}"


ANSWER = Step(
    "smart-router",
    "Answer what was `said` in one or two sentences. You also pass work on to other agents: "
    + "; ".join(f"{route.name} {route.does}" for route in ROUTES),
    str,
    offline=_talked,
)


async def which_agent(message: Message, skills: Sequence[Skill]) -> Decision:
    """Selects the agent by a language model or by words; what is for none is small talk."""
    if await has_model():
        decision = await skill_by_model()(message, skills)
        return decision if isinstance(decision, Start) else Start(TALK)
    if route := route_by_words(message):
        return Start(route.agent)
    return Start("report" if has_files(message) else TALK)


class SmartRouter(SkillHandler):
    """Answers small talk at once, and passes work on to the agent that does it."""

    name = "Smart router"
    skills = (
        Skill(TALK, "Small talk", "Says hello and what it can do.", tags=["talk"], examples=["What can you do?"]),
        *(
            Skill(
                route.agent,
                f"Pass to {route.name}",
                f"Passes the message to {route.name}, which {route.does}.",
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
        await task.progress(f"{route.name} is working on this…")
        # Only the parts: metadata would name a skill of this agent.
        result = await task.call(route.agent, task.message.parts, key="work")
        return result.passed_on()
