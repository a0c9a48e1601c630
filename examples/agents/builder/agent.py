"""The Builder: it has the work planned, hands out each file, and delivers what comes back."""

from __future__ import annotations

from typing import Any

from agentkit import (
    Artifact,
    Call,
    Completed,
    InputRequired,
    Message,
    Outcome,
    ReceivedArtifact,
    Skill,
    SkillHandler,
    TaskContext,
    data_part,
)
from examples import sources
from examples.agents.builder.plans import Assignment, Plan
from examples.prose import counted, words
from examples.steps import ON_CARD, noted

WORKER = "builder-worker"


class Builder(SkillHandler):
    """Builds small projects: plans the files, has each written by another agent at the same time, delivers them all."""

    name = "Builder"
    description = (
        "Builds small projects: plans the files, has each written by another agent at the same time, and delivers "
        f"them all. {ON_CARD}"
    )
    skills = (
        Skill(
            "build",
            "Build a small project",
            "Plans up to six files for a website, a Python module or a set of notes, and has the agent builder-worker "
            "write them side by side. What only you can know, it asks.",
            tags=["files", "website", "python", "orchestrator", "delegation"],
            examples=["A website about bees, with a contact page", "A Python module for tide tables, with a license"],
            output_modes=["text/html", "text/css", "text/x-python", "text/markdown", "application/json"],
        ),
    )
    input_modes = ("text/plain", "text/*")
    output_modes = ("text/html", "text/css", "text/x-python", "text/markdown", "application/json", "text/plain")
    # Executed again, after a crash or a question, it finds the plan and the files that there are: each is a task.
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        brief = await sources.of_turn(task)
        if not words(brief):
            return InputRequired("What shall I build? For example: a website about bees.", slot="brief")
        await task.progress("Planning…")
        planned = await task.call(WORKER, _request("plan", brief=brief), key="plan")
        plan = Plan.model_validate(planned.artifacts[0].data[0])
        files = await self._written(task, brief, plan)
        said = f"Here are {counted(len(files), 'file')}: {', '.join(plan.names)}."
        return Completed(await noted(said), files)

    async def _written(self, task: TaskContext, brief: str, plan: Plan) -> list[Artifact]:
        """All files, in the order of the plan; each is told when it is there."""
        total = len(plan.files)
        assignments = [Assignment(brief=brief, files=plan.names, **file.model_dump()) for file in plan.files]
        calls = [Call(WORKER, _request("write", **one.model_dump()), key=one.name) for one in assignments]
        await task.progress(f"Having {counted(total, 'file')} written…", 0, total)
        written: dict[str, ReceivedArtifact] = {}
        async for result in task.as_completed(*calls):
            file = result.artifacts[0]
            written[file.name] = file
            await task.progress(f"File {len(written)} of {total}: {file.name}", len(written), total)
        return [Artifact(written[name].parts, name, written[name].description) for name in plan.names]


def _request(skill: str, **known: Any) -> Message:
    """Data for one of the worker's skills."""
    return Message.from_wire({"parts": [data_part(known)], "metadata": {"skillId": skill}})
