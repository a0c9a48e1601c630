"""An orchestrator and its workers: the Builder has a project planned, hands out the files, and collects them.

The worker plans, or writes one file; each is a task of its own. It asks people for what only they know. Without a
language model it plans by kind of project and fills the files with the brief.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, field_validator

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
    Start,
    TaskContext,
    by_words,
    data_part,
    skill,
)
from agentkit.content.messages import guessed_media_type
from examples import texts
from examples.steps import Step, noted
from examples.texts import counted, cut, sentences, terms, words

MOST_FILES = 6

# Names below the project's folder: no absolute paths, hidden files or "..".
SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
FileName = Annotated[str, StringConstraints(pattern=rf"^{SEGMENT}(/{SEGMENT}){{0,3}}$", max_length=100)]


NAMED = re.compile(r"(?<![\w./-])[A-Za-z_][\w-]{0,40}\.(?:html|css|py|md|txt|json)\b")
WEBSITE = re.compile(r"\b(?:web\s?sites?|web\s?pages?|home\s?pages?|sites?)\b", re.IGNORECASE)
KINDS = frozenset(words("build make create website websites page pages site small contact license project with notes"))
MOST_SENTENCES = 12


def _subject(brief: str) -> str:
    found = [term for term in terms(NAMED.sub(" ", brief), 12) if term not in KINDS][:2]
    return cut(" and ".join(found) or "this project", 60)


class PlannedFile(BaseModel):
    """One file. The worker asks `question` before it writes the file."""

    name: FileName
    purpose: str = Field(min_length=1, max_length=500)
    question: Annotated[str, Field(max_length=200)] = ""


class Plan(BaseModel):
    """Files that make a project."""

    files: list[PlannedFile] = Field(min_length=1, max_length=MOST_FILES)

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: list[PlannedFile]) -> list[PlannedFile]:
        names = [file.name for file in files]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"each file once, but {', '.join(sorted(twice))} is there twice")
        return files

    @property
    def names(self) -> list[str]:
        return [file.name for file in self.files]


class Assignment(PlannedFile):
    """A file to write, with the brief and the names of all files."""

    brief: str = Field(min_length=1)
    files: list[FileName] = Field(default_factory=list, max_length=MOST_FILES)


WORKER_SLUG = "builder-worker"


class Builder(SkillHandler):
    """Builds small projects: plans the files, has other agents write them in parallel, and delivers them."""

    name = "Builder"
    skills = (
        Skill(
            "build",
            "Build a small project",
            "Plans up to six files for a website or a set of notes and has builder-worker write them in parallel. "
            "Asks you for what only you know, such as an e-mail address.",
            tags=["files", "website", "orchestrator", "delegation"],
            examples=["A website about bees, with a contact page", "Notes on tide tables, with a license"],
            output_modes=["text/html", "text/css", "text/markdown", "application/json"],
        ),
    )
    input_modes = ("text/plain", "text/*")
    output_modes = ("text/html", "text/css", "text/markdown", "application/json", "text/plain")
    # A repeated turn finds the plan and finished files: each is a child task with a key.
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        brief = await texts.text_of_turn(task)
        if not words(brief):
            return InputRequired("What would you like me to build? For example, a website about bees.", slot="brief")
        await task.progress("Planning…")
        planned = await task.call(WORKER_SLUG, _request("plan", brief=brief), key="plan")
        plan = Plan.model_validate(planned.artifacts[0].data[0])
        files = await self._written(task, brief, plan)
        said = f"Here are {counted(len(files), 'file')}: {', '.join(plan.names)}."
        return Completed(await noted(said), files)

    async def _written(self, task: TaskContext, brief: str, plan: Plan) -> list[Artifact]:
        total = len(plan.files)
        assignments = [Assignment(brief=brief, files=plan.names, **file.model_dump()) for file in plan.files]
        calls = [Call(WORKER_SLUG, _request("write", **one.model_dump()), key=one.name) for one in assignments]
        await task.progress(f"Writing {counted(total, 'file')}…", 0, total)
        written: dict[str, ReceivedArtifact] = {}
        async for result in task.as_completed(*calls):
            file = result.artifacts[0]
            written[file.name] = file
            await task.progress(f"File {len(written)} of {total}: {file.name}", len(written), total)
        return [Artifact(written[name].parts, name, written[name].description) for name in plan.names]


def _request(skill: str, **known: Any) -> Message:
    return Message.from_wire({"parts": [data_part(known)], "metadata": {"skillId": skill}})


def offline_plan(brief: str) -> Plan:
    """The files that the brief names, or else typical ones."""
    subject = _subject(brief)
    if named := list(dict.fromkeys(NAMED.findall(brief)))[:MOST_FILES]:
        files = [PlannedFile(name=name, purpose=f"what the brief says of {name}") for name in named]
    elif WEBSITE.search(brief):
        files = [
            PlannedFile(name="index.html", purpose=f"the first page about {subject}"),
            PlannedFile(name="about.html", purpose=f"more about {subject}"),
            PlannedFile(name="style.css", purpose="how the pages look"),
        ]
    else:
        files = [
            PlannedFile(name="README.md", purpose=f"what this is: {subject}"),
            PlannedFile(name="notes.md", purpose=f"what is known of {subject}"),
        ]
    if "contact" in brief.casefold():
        asks = "Which e-mail address should the contact page show?"
        files.append(PlannedFile(name="contact.html", purpose="how to reach you", question=asks))
    if "license" in brief.casefold():
        asks = "Whose name should be in the license?"
        files.append(PlannedFile(name="LICENSE.txt", purpose="who may use it", question=asks))
    return Plan(files=files[:MOST_FILES])


PLAN = Step(
    "builder-worker",
    f"Plan the files of the small project that `brief` describes, at most {MOST_FILES}. Where a file needs something "
    "that only the person can know, such as a name or an address, put the question into `question`.",
    Plan,
    offline=offline_plan,
)


def offline_file(name: str, purpose: str, question: str, brief: str, files: Sequence[str], answer: str) -> str:
    """The brief as a page, a style sheet or a text."""
    title = _subject(brief).capitalize()
    said = [answer] if answer else [*sentences(brief)[:MOST_SENTENCES]]
    if name.endswith(".css"):
        return "body { max-width: 40rem; margin: 2rem auto; font: 1rem/1.6 system-ui, sans-serif; }\n"
    if name.endswith(".html"):
        links = " ".join(f'<a href="{escape(one)}">{escape(one[:-5])}</a>' for one in files if one.endswith(".html"))
        body = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in said)
        head = f'<meta charset="utf-8"><title>{escape(title)}</title><link rel="stylesheet" href="style.css">'
        lines = ["<!doctype html>", f'<html lang="en">{head}', f"<nav>{links}</nav>", f"<h1>{escape(title)}</h1>", body]
        return "\n".join([*lines, "</html>", ""])
    return "\n".join([f"# {title}", "", f"{purpose[:1].upper()}{purpose[1:]}.", "", *(f"- {one}" for one in said), ""])


WRITE = Step(
    "builder-worker",
    "Write the file `name` of the project that `brief` describes, for its `purpose`; `files` are all files of the "
    "project, `answer` is what the person said to `question`. Answer with nothing but the file's content.",
    str,
    offline=offline_file,
)


class BuilderWorker(SkillHandler):
    """Plans the files of a small project, or writes one of them. The Builder calls it."""

    name = "Builder's worker"
    input_modes = ("application/json", "text/plain")
    output_modes = ("application/json", "text/html", "text/css", "text/markdown", "text/plain")
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
        description="Writes one file from data: `brief`, `name`, `purpose`, and optionally a `question`.",
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
