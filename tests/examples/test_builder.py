"""The Builder gets a plan and each file from its worker."""

import json

import pytest
from pydantic import ValidationError

from agentkit import InputRequired, testing
from examples.agents import builder
from examples.agents.builder import Assignment, Builder, BuilderWorker, Plan
from tests.examples.saying import NOTE, content, empty, form
from tests.llm.endpoint import Endpoint, calls, says

AGENTS = {"builder-worker": BuilderWorker}


async def built(brief):
    return await testing.run(Builder, brief, agents=AGENTS)


def names_of(run):
    return [artifact.name for artifact in run.artifacts]


async def test_files_are_planned_and_each_is_written_and_told():
    run = await built("A website about bees <script>alert(1)</script>")
    assert names_of(run) == ["index.html", "about.html", "style.css"]
    first, second, *told = run.recorder.progress
    assert (first, second) == ("Planning…", "Writing 3 files…")
    assert [line[:11] for line in told] == ["File 1 of 3", "File 2 of 3", "File 3 of 3"]
    page = content(run, "index.html")
    assert "bees</title>" in page
    assert '<a href="about.html">' in page
    assert "<script>" not in page
    assert run.said.endswith(NOTE)


async def test_another_brief_is_another_project():
    assert names_of(await built("Notes on tides")) == ["README.md", "notes.md"]
    assert names_of(await built("index.html and data.json about owls")) == ["index.html", "data.json"]


async def test_the_worker_plans_asks_before_it_writes_and_uses_the_answer():
    planned = await testing.run(BuilderWorker, "A website about bees")
    assert (planned.skill, planned.said[:10]) == ("plan", "3 files: i")
    wanted = {"brief": "A tool", "name": "LICENSE.txt", "purpose": "who may use it", "question": "Whose name?"}
    asked = await testing.run(BuilderWorker, form(**wanted), skill="write")
    assert (asked.said, asked.outcome.slot) == ("Whose name?", "answer")
    again = await testing.run(BuilderWorker, empty(), skill="write", slot="answer", memory=dict(asked.memory))
    assert again.said == "Whose name?"
    run = await testing.run(BuilderWorker, "Ada", skill="write", slot="answer", memory=asked.memory)
    assert "- Ada" in content(run, "LICENSE.txt")
    lacking = await testing.run(BuilderWorker, "write something", skill="write")
    assert isinstance(lacking.outcome, InputRequired)
    assert "Name: an answer is needed." in lacking.said


def test_names_stay_within_the_project_and_each_is_there_once():
    for name in ("../up.txt", "/etc/passwd", "a/../b", ".hidden", "a b", "a//b", "", "x" * 101):
        with pytest.raises(ValidationError):
            Assignment(name=name, purpose="x", brief="x")
    assert Assignment(name="docs/a_b-c.d.md", purpose="x", brief="x")
    file = {"name": "a.md", "purpose": "x"}
    with pytest.raises(ValidationError, match=r"a\.md is there twice"):
        Plan.model_validate({"files": [file, file]})
    with pytest.raises(ValidationError):
        Plan.model_validate({"files": [{"name": f"{n}.md", "purpose": "x"} for n in range(7)]})
    assert len(builder.offline_plan(" ".join(f"file{n}.md" for n in range(9))).files) == 6


async def test_with_a_model_each_file_is_what_it_wrote(endpoint: Endpoint):
    files = [{"name": "a.md", "purpose": "one"}, {"name": "b.md", "purpose": "two"}]

    async def write(asking):
        await says(f"content of {json.loads(asking.body['messages'][-1]['content'])['name']}")(asking)

    endpoint.replies = [calls(("final_result", {"files": files})), write, write]
    run = await built("Two files")
    assert [content(run, name) for name in ("a.md", "b.md")] == ["content of a.md", "content of b.md"]
    assert NOTE not in run.said
