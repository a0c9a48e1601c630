"""The showcase's agents on the platform with a real worker: recorded, and stoppable."""

import asyncio
import base64
import uuid
from pathlib import Path
from typing import Any

import pytest

import db as database
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import cancel
from apps.features.credentials import requests
from apps.features.credentials.requests import GivenCredential
from apps.features.forks import editing
from apps.record import lineage, projection
from apps.record.models import Artifact, Context, Event, Task, TaskState
from examples.showcase import load_showcase
from tests.engine.delegating import done, ended, sent, until, words
from tests.examples.pipelines import sample
from tests.examples.saying import AGENTS, NOTE
from tests.llm.endpoint import Endpoint, hangs
from tests.working import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


@pytest.fixture
def cast(db) -> dict[str, Agent]:
    return {slug: register_hosted(slug, path) for slug, path in AGENTS.items()}


@pytest.fixture
def ask(ada, cast, said):
    """Sends to an agent, context or task; returns the task once it settles."""

    async def asked(slug, text, **fields):
        return await done(ada.principal, cast[slug], said(text, **fields))

    return asked


def progress_of(task):
    events = Event.objects.filter(task=task.pk, type="agent_status", payload__state="working").order_by("index")
    said = [event.payload.get("message") or {} for event in events]
    return [part["text"] for one in said for part in one.get("parts", [])]


def delivered(task):
    artifacts = Artifact.objects.delivered().filter(task=task.pk)
    return {artifact.name: "".join(part.get("text", "") for part in artifact.parts) for artifact in artifacts}


async def the_record_holds():
    for context in await database.run(list, Context.objects.all()):
        assert await database.run(projection.differences, context.pk) == []


async def test_the_steps_of_a_chain_are_in_the_record(ask):
    task = await ask("writer", "Write about bees")
    assert task.state == "completed"
    told = await database.run(progress_of, task)
    assert told[:3] == ["Outlining…", "Drafting 3 sections…", "Polishing. Round 1: Leave out “really”."]
    assert NOTE in words(task)
    assert task.status_message["metadata"]["models"] == ["scripted:writer"]
    await the_record_holds()


async def test_a_question_of_a_worker_reaches_the_person_and_no_file_is_written_twice(ask):
    answers = {
        "Which e-mail address should the contact page show?": "bee@example.org",
        "Whose name should be in the license?": "Ada",
    }
    task = await ask("builder", "A website about bees, with a contact page and a license")
    while answers:
        assert task.state == TaskState.INPUT_REQUIRED, words(task)
        task = await ask("builder", answers.pop(words(task)), taskId=str(task.pk))
    assert task.state == "completed", words(task)
    files = await database.run(delivered, task)
    assert list(files) == ["index.html", "about.html", "style.css", "contact.html", "LICENSE.txt"]
    assert "bee@example.org" in files["contact.html"]
    assert "- Ada" in files["LICENSE.txt"]
    assert await database.run(Task.objects.filter(parent=task.pk).count) == 6, "a plan and five files"
    await the_record_holds()


async def test_a_question_is_passed_up_through_the_router_and_its_answer_down(ask):
    task = await ask("smart-router", "A website with a contact page")
    assert words(task) == "Which e-mail address should the contact page show?"
    task = await ask("smart-router", "bee@example.org", taskId=str(task.pk))
    assert "bee@example.org" in (await database.run(delivered, task))["contact.html"]
    assert await database.run(Task.objects.filter(parent=task.pk).count) == 1
    await the_record_holds()


async def test_a_trip_goes_from_question_to_question_to_a_key_to_the_plan(ada, ask):
    task = await ask("travel", "I want to go away")
    for answer in ("Lisbon", "tomorrow", "2"):
        assert task.state == TaskState.INPUT_REQUIRED
        task = await ask("travel", answer, taskId=str(task.pk))
    assert task.state == TaskState.AUTH_REQUIRED
    secret, link = "k-0123456789", task.status_message["metadata"]["url"].rpartition("/")[2]
    await database.run(lambda: requests.give(requests.find_request(link), GivenCredential(secret), ada))
    await until(lambda: state_of(task.pk) == "completed")
    page = (await database.run(delivered, task))["itinerary.md"]
    assert page.startswith("# Three days in Lisbon")
    log = await database.run(lambda: str(list(Event.objects.values_list("payload", flat=True))))
    assert secret not in log
    await the_record_holds()


async def test_a_stop_of_the_builder_stops_its_workers(ada, cast, said, endpoint: Endpoint):
    endpoint.replies = [hangs("")]
    receipt = await sent(ada.principal, cast["builder"], said("A website about bees"))
    assert await asyncio.to_thread(endpoint.hanging.wait, 20)
    await database.run(cancel.cancel_by_id, ada.principal, cast["builder"], str(receipt.task))
    assert (await ended(receipt)).state == "canceled"
    await until(lambda: list(Task.objects.filter(parent=receipt.task).values_list("state", flat=True)) == ["canceled"])
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)


async def test_an_edited_answer_goes_on_from_what_was_known_before_it(ada, ask):
    task = await ask("travel", "I want to go away")
    for answer in ("Lisbon", "3 May"):
        task = await ask("travel", answer, taskId=str(task.pk))
    assert "How many" in words(task)

    def find():
        rows = lineage.messages(Context.objects.get(pk=task.context_id))
        return next(row.pk for row in rows if any(part.get("text") == "3 May" for part in row.parts))

    message, key = await database.run(find), uuid.uuid4().hex
    edit = {"key": key, "running": "cancel"}
    other = await ended(await editing.edit(ada.principal, task.context_id, message, [{"text": "4 May"}], **edit))
    assert other.state == TaskState.INPUT_REQUIRED
    assert "How many" in words(other), "Lisbon and the date are known"


def file(name: str, content: str = "") -> dict[str, Any]:
    raw = base64.b64encode((content or sample(name)).encode()).decode()
    return {"parts": [{"raw": raw, "filename": name, "mediaType": "text/csv"}]}


async def test_the_research_plan_runs_from_a_message_to_its_report(ada, said, tmp_path: Path, settings: Any):
    settings.DATA_DIR = tmp_path
    assert (await database.run(load_showcase)).problems == ()
    agent = await database.run(lambda: Agent.objects.get(slug="research"))
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
        task = await ended(await sent(ada.principal, agent, said(**{"text": "", "taskId": str(task.pk), **answer})))
    assert task.state == "completed", words(task)
    found = await database.run(delivered, task)
    charts = [f"{name}-chart.png" for name in ("screening", "expression", "validation")]
    assert {"report.md", "report.pdf", "report.html", *charts} <= found.keys()
    for told in (*charts, "PX-07 (IC50 0.3624 µM)", "3 of 10 compounds hit: PX-07, PX-12, PX-03.", "## Limitations"):
        assert told in found["report.md"]
    assert "Genes of stressed cells rise: ATFM4, DDTX3, HSPQ." in found["report.md"]
    assert "Tested, though not selected" not in found["report.md"]
    assert await database.run(lambda: Task.objects.filter(parent=task.pk, state="completed").count()) == 14
    await the_record_holds()
