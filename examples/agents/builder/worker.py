"""The Builder's worker: it plans, or writes one file; what it needs to know for that, it asks."""

from __future__ import annotations

from agentkit import Artifact, Completed, InputRequired, Outcome, SkillHandler, Start, TaskContext, by_words, skill
from agentkit.parts import guessed_media_type
from examples.agents.builder import script
from examples.agents.builder.plans import MOST_FILES, Assignment, Plan
from examples.prose import counted
from examples.steps import ON_CARD, Step, noted

PLAN = Step(
    "builder-worker",
    f"Plan the files of the small project that `brief` describes, at most {MOST_FILES}. Where a file needs something "
    "that only the person can know, such as a name or an address, put the question into `question`.",
    Plan,
    offline=script.planned,
)
WRITE = Step(
    "builder-worker",
    "Write the file `name` of the project that `brief` describes, for its `purpose`; `files` are all files of the "
    "project, `answer` is what the person said to `question`. Answer with nothing but the file's content.",
    str,
    offline=script.written,
)


class BuilderWorker(SkillHandler):
    """Plans the files of a small project, or writes one of them. The Builder calls it."""

    name = "Builder's worker"
    description = f"Plans the files of a small project, or writes one of them. The Builder calls it. {ON_CARD}"
    input_modes = ("application/json", "text/plain")
    output_modes = ("application/json", "text/html", "text/css", "text/x-python", "text/markdown", "text/plain")
    choose_skill = by_words({}, otherwise=Start("plan"))
    retry_safe = True

    @skill(
        id="plan",
        name="Plan",
        description="Gives the files of a project: their names, what each is for, and what must be asked first.",
        tags=["plan", "files"],
        examples=["A website about bees"],
    )
    async def plan(self, task: TaskContext) -> Completed:
        given = [value["brief"] for value in task.message.data if isinstance(value, dict) and "brief" in value]
        plan = await PLAN(task, brief=str(given[0]) if given else task.message.text)
        said = f"{counted(len(plan.files), 'file')}: {', '.join(plan.names)}."
        return Completed(await noted(said), [Artifact.json("plan.json", plan.model_dump())])

    @skill(
        id="write",
        name="Write a file",
        description="Writes one file. It is told as data: `brief`, `name`, `purpose`, and perhaps a `question`.",
        tags=["write", "file"],
    )
    async def write(self, task: TaskContext) -> Outcome:
        answer = ""
        if "assignment" in task.memory:
            assignment, answer = Assignment.model_validate(task.memory["assignment"]), task.message.text.strip()
        else:
            assignment = task.answer_as(Assignment)
        if assignment.question and not answer:
            task.memory["assignment"] = assignment.model_dump()
            return InputRequired(assignment.question, slot="answer")
        content = await WRITE(task, **assignment.model_dump(), answer=answer)
        file = Artifact.text(
            assignment.name, content, guessed_media_type(assignment.name), description=assignment.purpose
        )
        return Completed(await noted(f"{assignment.name} has {counted(len(content.splitlines()), 'line')}."), [file])
