"""The Assistant: a language model with tools, some of which are other agents."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agentkit import Completed, InputRequired, Skill, SkillHandler, TaskContext
from agentkit.llm import AgentTool, Asked, LlmWorker, UseTool, scripted
from examples.steps import NOTE, ON_CARD
from examples.texts import counted, words

ARITHMETIC = re.compile(r"[\d(][\d\s.()]*(?:[-+*/%][\d\s.()]*)+[\d)]")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
CLOCK = re.compile(r"\b(?:time|clock|date|today|weekday)\b", re.IGNORECASE)
ZONE = re.compile(r"\b[A-Z][a-z]+/[A-Z]\w+\b")
AGENTS = {
    "reviewer": re.compile(r"\b(?:review|proofread)\b", re.IGNORECASE),
    "writer": re.compile(r"\b(?:write|draft)\b", re.IGNORECASE),
}
READ = 2000  # characters of a message that are searched for tools


OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def calculate(expression: str) -> float:
    """Calculates with numbers, + - * / % and parentheses."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                return OPERATORS[type(sign)](value(left), value(right))
        raise ValueError("Only numbers, + - * / % and parentheses can be calculated.")

    return value(ast.parse(expression.strip()[:200], mode="eval").body)


def current_time(time_zone: str = "UTC") -> str:
    """Tells the date and time, in a time zone such as Europe/Paris."""
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"There is no time zone {time_zone!r}.") from None
    return f"{datetime.now(zone):%A, %d %B %Y, %H:%M} ({time_zone})"


def play(asked: Asked) -> str | list[UseTool]:
    """Works without a language model: chooses tools by the words of the message, and returns their results
    unchanged.
    """
    if asked.results:
        told = [f"{result.tool}: {result.content}" for result in asked.results]
        return "\n\n".join([*told, NOTE])
    said = asked.text[:READ]
    calls = [UseTool(f"ask_{slug}", message=asked.text) for slug, wanted in AGENTS.items() if wanted.search(said)]
    if calls:
        return calls
    sums = [found[0] for found in ARITHMETIC.finditer(DATE.sub(" ", said))]
    calls += [UseTool("calculate", expression=one) for one in sums[:3]]
    if CLOCK.search(said):
        zone = ZONE.search(said)
        calls.append(UseTool("current_time", time_zone=zone[0] if zone else "UTC"))
    can = "tell the time, calculate, or ask another agent to write or review a text"
    return calls or f"Your message has {counted(len(words(asked.text)), 'word')}. I can {can}.\n\n{NOTE}"


WORKER = LlmWorker(
    "You are a helpful assistant. Use the tools where they help. If you do not know something, say so.",
    [
        current_time,
        calculate,
        AgentTool("reviewer", "Reviews a text for clarity, correctness and tone."),
        AgentTool("writer", "Writes a short text about a topic."),
    ],
    model=scripted(play, name="assistant", unless_configured=True),
)


class Assistant(SkillHandler):
    """Answers questions with the help of tools: the time, a calculator, and other agents."""

    name = "Assistant"
    description = f"Answers questions with tools: the time, a calculator, and other agents. {ON_CARD}"
    skills = (
        Skill(
            "assist",
            "Answer with tools",
            "Uses the time, a calculator, and other agents as tools.",
            tags=["assistant", "tools", "llm"],
            examples=["What is (17 + 4) * 2?", "What time is it in Europe/Paris?", "Write about the tides"],
            input_modes=["text/plain", "text/*"],
        ),
    )
    input_modes = ("text/plain", "text/*")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        if not (task.message.text.strip() or task.files or task.message.data):
            return InputRequired("How can I help you?", slot="request")
        # Not only the text: JSON in a model's words must not become an action of the agent.
        return Completed(await WORKER.run(task))
