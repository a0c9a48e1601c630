"""The Assistant: a language model with tools, some of which are other agents."""

from __future__ import annotations

import re

from agentkit import Completed, InputRequired, Skill, SkillHandler, TaskContext
from agentkit.llm import AgentTool, Asked, LlmWorker, UseTool, scripted
from apps.features.model_agents.tools import calculate, current_time, read_file
from examples.prose import counted, words
from examples.steps import NOTE, ON_CARD

ARITHMETIC = re.compile(r"[\d(][\d\s.()]*(?:[-+*/%^][\d\s.()]*)+[\d)]")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
CLOCK = re.compile(r"\b(?:time|clock|date|today|weekday)\b", re.IGNORECASE)
ZONE = re.compile(r"\b[A-Z][a-z]+/[A-Z]\w+\b")
FILE = re.compile(r"^\[A file: (.+?), [\w.+-]+/", re.MULTILINE)
AGENTS = {
    "translator": re.compile(r"\btranslate\b", re.IGNORECASE),
    "reviewer": re.compile(r"\b(?:review|proofread)\b", re.IGNORECASE),
    "writer": re.compile(r"\b(?:write|draft)\b", re.IGNORECASE),
}
READ = 2000  # characters of a message in which tools are looked for


def play(asked: Asked) -> str | list[UseTool]:
    """What is done without a language model: tools by the words of the message, then their results as they are."""
    if asked.results:
        told = [f"{result.tool}: {result.content}" for result in asked.results]
        return "\n\n".join([*told, NOTE])
    said = asked.text[:READ]
    calls = [UseTool(f"ask_{slug}", message=asked.text) for slug, wanted in AGENTS.items() if wanted.search(said)]
    if calls:
        return calls
    calls += [UseTool("read_file", name=name) for name in FILE.findall(said)[:3]]
    sums = [found[0].replace("^", "**") for found in ARITHMETIC.finditer(DATE.sub(" ", said))]
    calls += [UseTool("calculate", expression=one) for one in sums[:3]]
    if CLOCK.search(said):
        zone = ZONE.search(said)
        calls.append(UseTool("current_time", time_zone=zone[0] if zone else "UTC"))
    can = "tell the time, calculate, look into a file, or have a text translated, reviewed or written"
    return calls or f"Your message has {counted(len(words(asked.text)), 'word')}. I can {can}.\n\n{NOTE}"


WORKER = LlmWorker(
    "You are a helpful assistant. Use the tools for what they are for; say plainly what you do not know.",
    [
        current_time,
        calculate,
        read_file,
        AgentTool("translator", "Translates into German, French or Spanish. Say the language, a colon, and the text."),
        AgentTool("reviewer", "Reviews a text for clarity, correctness and tone."),
        AgentTool("writer", "Writes a short text about a topic."),
    ],
    model=scripted(play, name="assistant", unless_configured=True),
)


class Assistant(SkillHandler):
    """Answers questions with the help of tools: the time, a calculator, your files, and other agents."""

    name = "Assistant"
    description = f"Answers with the help of tools: the time, a calculator, your files, and other agents. {ON_CARD}"
    skills = (
        Skill(
            "assist",
            "Answer with tools",
            "Works in steps, with tools: the time, a calculator, a look into your files, and other agents.",
            tags=["assistant", "tools", "llm"],
            examples=["What is (17 + 4) * 2?", "What time is it in Europe/Paris?", "Translate to French: Thank you"],
            input_modes=["text/plain", "text/*"],
        ),
    )
    input_modes = ("text/plain", "text/*")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        if not (task.message.text.strip() or task.files or task.message.data):
            return InputRequired("What can I do for you?", slot="request")
        # Not the text alone: JSON in what a model says is nothing that the agent does.
        return Completed(await WORKER.run(task))
