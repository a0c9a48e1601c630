"""An agent that answers with what people's files say, and cites it: retrieval without a language model."""

from agentkit import Completed, InputRequired, Skill, SkillHandler, TaskContext

MOST = 3  # passages of an answer
LONGEST = 600  # characters of each
NOTHING = (
    "I found nothing about that in your files. Ask in a project that has files, or give me a collection on my page, "
    "under Knowledge."
)


class Librarian(SkillHandler):
    """Finds what your files and pages say, and shows where."""

    name = "Librarian"
    skills = (
        Skill(
            "look-up",
            "Look up",
            "Quotes the passages of your project's files and of its collections that fit best, with a link to each.",
            tags=["knowledge", "quote", "citation"],
            examples=["Quote what my files say about hotels"],
        ),
    )
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        question = task.message.text.strip()
        if not question:
            return InputRequired("What shall I look up?", slot="question")
        found = await task.search(question, MOST)
        quotes = [f"> {_quoted(one.text)} {task.cite(one)}" for one in found]
        return Completed("\n\n".join(quotes) or NOTHING)


def _quoted(text: str) -> str:
    """A passage without its headings as one paragraph, and without what Markdown would make of its signs."""
    line = " ".join(" ".join(one for one in text.splitlines() if not one.startswith("#")).split())
    cut = line if len(line) <= LONGEST else line[:LONGEST].rsplit(" ", 1)[0] + " …"
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#|!$~" else letter for letter in cut)
