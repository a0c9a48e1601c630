"""The showcase's plans on the platform: questions are answered, files uploaded, and the report delivered."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import bridge
from apps.agents.models import Agent
from apps.conversations.models import Artifact, Task
from apps.showcase.loading import load
from tests.runtime.delegating import done, ended, sent, words
from tests.showcase.pipelines import sample
from tests.showcase.test_on_the_platform import the_record_holds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


@pytest.fixture
def loaded(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path
    assert load().problems == ()


def file(name: str, content: str = "") -> dict[str, Any]:
    raw = base64.b64encode((content or sample(name)).encode()).decode()
    return {"parts": [{"raw": raw, "filename": name, "mediaType": "text/csv"}]}


def form(**values: Any) -> dict[str, Any]:
    return {"parts": [{"data": values}]}


def delivered(task: Task) -> dict[str, Artifact]:
    return {artifact.name: artifact for artifact in Artifact.objects.delivered().filter(task=task)}


async def test_the_research_plan_runs_from_a_message_to_its_report(ada, said, loaded) -> None:
    agent = await bridge.run(lambda: Agent.objects.get(slug="research"))

    async def answered(task: Task, text: str = "", **fields: Any) -> Task:
        return await ended(await sent(ada.principal, agent, said(text, taskId=str(task.pk), **fields)))

    task = await done(ada.principal, agent, said("lung fibrosis"))
    for asked, answer in (
        ("Small molecules or biologics?", {"text": "small molecules"}),
        ("Which cell line:", {"text": "MRC-5"}),
        ("Upload the screening data", file("screening.csv")),
        ("Upload the expression data", file("wrong.csv", "name,control_1\nA,1\n")),
        ("The artifact `wrong.csv` has no column `gene`", file("poor.csv", "gene,PX-07_1,PX-07_2\nA,1,2\n")),
        ("There is no control: name its columns", file("expression.csv")),
        ("Upload the validation data", file("validation.csv")),
    ):
        assert (task.state, words(task)[: len(asked)]) == ("input-required", asked)
        task = await answered(task, **answer)
    assert task.state == "completed", words(task)
    found = await bridge.run(lambda: delivered(task))
    assert {"report.md", "report.pdf", "report.html"} <= found.keys()
    assert "PX-07 (IC50 0.3624 µM)" in found["report.md"].parts[0]["text"]
    assert await bridge.run(lambda: Task.objects.filter(parent=task.pk, state="completed").count()) == 14
    await the_record_holds()


async def test_the_trip_asks_for_what_is_missing_and_delivers_an_itinerary(ada, said, loaded) -> None:
    agent = await bridge.run(lambda: Agent.objects.get(slug="trip"))
    task = await done(ada.principal, agent, said(**form(city="Lisbon", departure="Oslo")))
    assert task.state == "input-required"
    more = said(taskId=str(task.pk), **form(arrival="2027-05-03", nights=3))
    task = await ended(await sent(ada.principal, agent, more))
    assert task.state == "completed", words(task)
    found = await bridge.run(lambda: delivered(task))
    assert found["itinerary.md"].parts[0]["text"].startswith("# 3 nights in Lisbon")
    await the_record_holds()
