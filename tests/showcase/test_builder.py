"""The Builder has a plan made and each file written by its worker, and delivers them all."""

import ast
import json

import pytest
from pydantic import ValidationError

from agentkit import InputRequired, testing
from apps.showcase.agents.builder import script
from apps.showcase.agents.builder.agent import Builder
from apps.showcase.agents.builder.plans import Assignment, Plan
from apps.showcase.agents.builder.worker import BuilderWorker
from tests.llm.endpoint import Endpoint, calls, says
from tests.showcase.saying import NOTE, content, empty, form

AGENTS = {"builder-worker": BuilderWorker}


async def built(brief):
    return await testing.run(Builder, brief, agents=AGENTS)


async def test_files_are_planned_and_each_is_written_and_told():
    run = await built("A website about bees and honey")
    assert [artifact.name for artifact in run.artifacts] == ["index.html", "about.html", "style.css"]
    first, second, *told = run.recorder.progress
    assert (first, second) == ("Planning…", "Having 3 files written…")
    assert [line[:11] for line in told] == ["File 1 of 3", "File 2 of 3", "File 3 of 3"]
    page = content(run, "index.html")
    assert "<title>Bees and honey</title>" in page
    assert '<a href="about.html">' in page
    assert run.said.endswith(NOTE)


async def test_another_brief_is_another_project():
    bees, tides = await built("A website about bees"), await built("A Python module for tides")
    assert [artifact.name for artifact in tides.artifacts] == ["tides.py", "test_tides.py", "README.md"]
    assert {artifact.name for artifact in bees.artifacts}.isdisjoint(artifact.name for artifact in tides.artifacts)
    wasps = await built("A website about wasps")
    assert content(wasps, "style.css") != content(bees, "style.css")


@pytest.mark.parametrize(
    "brief", ["A Python module for tides", 'A Python tool that says "\\x" and """', "python 🎉 مرحبا"]
)
async def test_what_is_python_can_be_run_and_its_tests_hold(brief):
    run = await built(brief)
    module, tests = [content(run, artifact.name) for artifact in run.artifacts[:2]]
    names: dict[str, object] = {}
    exec(compile(ast.parse(module), "module", "exec"), names)  # what this very repository wrote
    assert names["describe"]() == names["ABOUT"]
    assert f"== {json.dumps(names['ABOUT'], ensure_ascii=False)}" in tests


async def test_files_that_are_named_are_the_files():
    run = await built("index.html and data.json about owls")
    assert [artifact.name for artifact in run.artifacts] == ["index.html", "data.json"]
    assert json.loads(content(run, "data.json"))["about"] == "owls"


async def test_a_brief_is_text_in_a_page():
    run = await built("A website about <script>alert(1)</script> --> bees")
    assert "<script>" not in content(run, "index.html")


async def test_without_a_brief_it_asks():
    asked = await built(empty())
    assert isinstance(asked.outcome, InputRequired)
    run = await testing.run(Builder, "notes on bees", slot=asked.outcome.slot, agents=AGENTS)
    assert [artifact.name for artifact in run.artifacts] == ["README.md", "notes.md", "checklist.md"]


async def test_what_only_the_person_knows_is_asked():
    run = await built("A website about bees, with a contact page")
    assert isinstance(run.outcome, InputRequired)
    assert run.said == "Which e-mail address shall the contact page show?"


WANTED = {"brief": "A tool", "name": "LICENSE.txt", "purpose": "who may use it", "question": "Whose name?"}


async def test_the_worker_asks_before_it_writes_and_uses_the_answer():
    asked = await testing.run(BuilderWorker, form(**WANTED), skill="write")
    assert (asked.said, asked.outcome.slot) == ("Whose name?", "answer")
    again = await testing.run(BuilderWorker, empty(), skill="write", slot="answer", memory=dict(asked.memory))
    assert again.said == "Whose name?"
    run = await testing.run(BuilderWorker, "Ada", skill="write", slot="answer", memory=asked.memory)
    assert "Copyright Ada." in content(run, "LICENSE.txt")


async def test_the_worker_plans_for_whoever_writes_to_it():
    run = await testing.run(BuilderWorker, "A website about bees")
    assert run.skill == "plan"
    assert run.said.startswith("3 files: index.html, about.html, style.css.")


async def test_an_assignment_that_lacks_something_is_asked_for():
    run = await testing.run(BuilderWorker, "write something", skill="write")
    assert isinstance(run.outcome, InputRequired)
    assert "Name: an answer is needed." in run.said


@pytest.mark.parametrize("name", ["../up.txt", "/etc/passwd", "a/../b", ".hidden", "a b", "a//b", "", "x" * 101])
def test_names_stay_within_the_project(name):
    with pytest.raises(ValidationError):
        Assignment(name=name, purpose="x", brief="x")
    assert Assignment(name="docs/a_b-c.d.md", purpose="x", brief="x")


def test_a_plan_names_each_file_once_and_not_too_many():
    file = {"name": "a.md", "purpose": "x"}
    with pytest.raises(ValidationError, match=r"a\.md is there twice"):
        Plan.model_validate({"files": [file, file]})
    with pytest.raises(ValidationError):
        Plan.model_validate({"files": [{"name": f"{n}.md", "purpose": "x"} for n in range(7)]})
    assert len(script.planned(" ".join(f"file{n}.md" for n in range(9))).files) == 6


async def test_with_a_model_each_file_is_what_it_wrote(endpoint: Endpoint):
    files = [{"name": "a.md", "purpose": "one"}, {"name": "b.md", "purpose": "two"}]

    async def write(asking):
        await says(f"content of {json.loads(asking.body['messages'][-1]['content'])['name']}")(asking)

    endpoint.replies = [calls(("final_result", {"files": files})), write, write]
    run = await built("Two files")
    assert [content(run, name) for name in ("a.md", "b.md")] == ["content of a.md", "content of b.md"]
    assert NOTE not in run.said
