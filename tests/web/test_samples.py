"""A question for a file offers samples: to look at, and to answer with."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import AsyncClient, Client

import db
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.accept import Receipt
from apps.record.content import blobs
from apps.record.models import Message, Task
from tests.web import telling

pytestmark = pytest.mark.django_db

WELLS = {"filename": "wells.csv", "mediaType": "text/csv", "text": "well,value\na,1\n"}
FILE = {"type": "string", "format": "binary", "title": "Wells", "x-samples": [WELLS]}


@pytest.fixture
def ask(ada: User, report: Agent) -> Any:
    return lambda schema: telling.asked(ada, report, {"name": "wells", "schema": schema})


def test_a_sample_is_offered_and_downloaded_by_those_who_are_asked_only(
    ada_browser: Client, bob_browser: Client, client: Client, ask: Any
) -> None:
    asked = ask(FILE)
    address = f"/tasks/{asked.task}/samples/wells.csv"
    for page in ("/inbox", f"/sessions/{asked.context}"):
        shown = ada_browser.get(page).text
        assert (address in shown, "answer-wells:wells.csv" in shown) == (True, True), page
    response = ada_browser.get(address)
    assert (response.getvalue(), response["Content-Type"]) == (b"well,value\na,1\n", "text/csv")
    assert "attachment" in response["Content-Disposition"]
    assert bob_browser.get(address).status_code == 404
    assert client.get(address)["Location"].startswith("/sign-in")
    assert ada_browser.get(address.replace("wells.csv", "other.csv")).status_code == 404
    Task.objects.filter(pk=asked.task).update(slot=None)
    assert ada_browser.get(address).status_code == 404


@pytest.mark.parametrize(
    "given",
    [
        None,
        "wells.csv",
        [1, None, {}, {"filename": 5, "text": "x"}, {"filename": "", "text": "x"}, {"filename": "a\nb", "text": "x"}],
        [{"filename": "a.bin", "raw": "no base64!"}, {"filename": "a.csv"}],
    ],
)
def test_what_is_no_sample_is_not_offered_and_breaks_no_page(ada_browser: Client, ask: Any, given: Any) -> None:
    ask({**FILE, "x-samples": given})
    page = ada_browser.get("/inbox")
    assert (page.status_code, "answer-wells" in page.text, "/samples/" in page.text) == (200, True, False)


async def sent(browser: AsyncClient, asked: Receipt, **form: Any) -> Any:
    said = {"answers": "1", "task": str(asked.task), "message": str(uuid.uuid4()), **form}
    return await browser.post(f"/sessions/{asked.context}/messages", said)


@pytest.mark.django_db(transaction=True)
async def test_the_sample_is_the_answer_with_the_other_fields_of_the_form(ada_at_work: AsyncClient, ask: Any) -> None:
    plate = {"type": "string", "minLength": 2}
    form = {"type": "object", "properties": {"wells": FILE, "plate": plate}, "required": ["wells", "plate"]}
    asked = await db.run(ask, form)
    use = {"sample": "answer-wells:wells.csv"}
    refused = await sent(ada_at_work, asked, **use)
    assert (refused.status_code, refused.json()["field"]) == (422, "answer-plate")
    for chosen in ("answer-wells:other.csv", "answer-other:wells.csv", "wells.csv"):
        refused = await sent(ada_at_work, asked, sample=chosen, **{"answer-plate": "P7"})
        assert refused.status_code == 422, chosen
    assert (await sent(ada_at_work, asked, **use, **{"answer-plate": "P7"})).status_code == 201
    answer = await db.run(Message.objects.filter(task=asked.task, role="user").latest, "index")
    values, file = answer.parts
    assert (values["data"], file["filename"], file["mediaType"]) == ({"plate": "P7"}, "wells.csv", "text/csv")
    assert await db.run(blobs.content_of, file) == b"well,value\na,1\n"
