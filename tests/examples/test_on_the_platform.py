"""The showcase's agents on the platform with a real worker: recorded, and stoppable."""

import base64

import pytest

from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.record import projection
from apps.record.models import Artifact, Context, Task
from examples.showcase import AGENTS, load_showcase
from parley import db as database
from tests.engine.delegating import done, ended, sent, words
from tests.examples.saying import DATA

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


@pytest.fixture
def cast(db):
    return {shown.slug: register_hosted(shown.slug, shown.handler) for shown in AGENTS}


@pytest.fixture
def ask(ada, cast, said):
    """Sends to an agent, context or task; returns the task once it settles."""

    async def asked(slug, text, **fields):
        return await done(ada.principal, cast[slug], said(text, **fields))

    return asked


def delivered(task):
    artifacts = Artifact.objects.delivered().filter(task=task.pk)
    return {artifact.name: "".join(part.get("text", "") for part in artifact.parts) for artifact in artifacts}


async def the_record_holds():
    for context in await database.run(list, Context.objects.all()):
        assert await database.run(projection.differences, context.pk) == []


async def test_a_question_goes_up_through_the_router(ask):
    task = await ask("smart-router", "A website with a contact page")
    assert words(task) == "Which e-mail address should the contact page show?"
    task = await ask("smart-router", "bee@example.org", taskId=str(task.pk))
    assert "bee@example.org" in (await database.run(delivered, task))["contact.html"]
    assert await database.run(Task.objects.filter(parent=task.pk).count) == 1
    await the_record_holds()


def file(name, content=b""):
    raw = base64.b64encode(content or (DATA / name).read_bytes()).decode()
    return {"parts": [{"raw": raw, "filename": name, "mediaType": "text/csv"}]}


async def test_the_research_plan_runs_to_its_report(ada, said, tmp_path, settings):
    settings.DATA_DIR = tmp_path
    assert (await database.run(load_showcase)).problems == ()
    agent = await database.run(lambda: Agent.objects.get(slug="research"))
    task = await done(ada.principal, agent, said("lung fibrosis"))
    for asked, answer in (
        ("Small molecules or biologics?", {"text": "small molecules"}),
        ("Which cell line:", {"text": "MRC-5"}),
        ("Upload the screening data", file("screening.csv")),
        ("Upload the expression data", file("wrong.csv", b"name,control_1\nA,1\n")),
        ("The artifact `wrong.csv` has no column `gene`", file("poor.csv", b"gene,PX-07_1,PX-07_2\nA,1,2\n")),
        ("There is no control: name its columns", file("expression.csv")),
        ("Upload the validation data", file("validation.csv")),
    ):
        assert (task.state, words(task)[: len(asked)]) == ("input-required", asked)
        task = await ended(await sent(ada.principal, agent, said(**{"text": "", "taskId": str(task.pk), **answer})))
    assert task.state == "completed", words(task)
    found = await database.run(delivered, task)
    charts = [f"{name}-chart.png" for name in ("screening", "expression", "validation")]
    assert {"report.md", "report.pdf", "report.html", *charts} <= found.keys()
    for told in (
        *charts,
        "Genes of stressed cells rise: ATFM4, DDTX3, HSPQ.",
        "PX-07 (IC50 0.3624 µM)",
        "3 of 10 compounds hit: PX-07, PX-12, PX-03.",
        "## Limitations",
    ):
        assert told in found["report.md"]
    assert await database.run(lambda: Task.objects.filter(parent=task.pk, state="completed").count()) == 14
    await the_record_holds()
