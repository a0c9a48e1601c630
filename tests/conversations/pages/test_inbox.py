"""The inbox shows a person's open questions, and its forms answer them; a question for a file offers samples."""

import uuid
from datetime import UTC, datetime

import pytest

from apps.conversations.sessions import commands
from apps.engine import accept, cancel
from apps.record.content import blobs
from apps.record.models import Context, Message, Task
from apps.record.reading.lookup import waiting_tasks
from tests.clients import telling

pytestmark = pytest.mark.django_db

NESTED = {"type": "object", "properties": {"home": {"type": "object", "properties": {"street": {"type": "string"}}}}}
WELLS = {"filename": "wells.csv", "mediaType": "text/csv", "text": "well,value\na,1\n"}
FILE = {"type": "string", "format": "binary", "title": "Wells", "x-samples": [WELLS]}


def ask(user, agent, schema=telling.FORMAT, name="format"):
    return telling.asked(user, agent, {"name": name, "schema": schema})


def test_questions_are_there_newest_first_in_local_time(ada_browser, ada, report):
    first, second = ask(ada, report), ask(ada, report)
    Task.objects.filter(pk=first.task).update(status_at=datetime(2026, 5, 31, 20, 0, tzinfo=UTC))
    ada_browser.cookies["zone"] = "Asia/Tokyo"
    for path, is_page in (("/inbox", True), ("/inbox/items", False)):
        shown = ada_browser.get(path).text
        assert ("<html" in shown) is is_page
        assert "1 Jun, 05:00" in shown
        assert shown.index(str(second.task)) < shown.index(str(first.task))
        for asked in (first, second):
            index = Task.objects.get(pk=asked.task).status_event
            for words in (
                f'action="/sessions/{asked.context}/messages"',
                f'href="/sessions/{asked.context}#m-{index}"',
            ):
                assert words in shown


@pytest.mark.parametrize(
    ("slot", "state", "shown"),
    [
        ({"name": "format", "schema": telling.FORMAT}, "input-required", ['name="answer-format"', "Decline"]),
        ({"name": "format", "schema": NESTED}, "input-required", ['name="text"', "Street"]),
        ({"name": "key", "service": "the mail"}, "auth-required", ['href="/credentials/abc"']),
        (
            {"name": "payment", "payment": {"maxAmountRequired": "10000", "payTo": "0x<b>"}},
            "input-required",
            ["0x&lt;b&gt;"],
        ),
    ],
    ids=["form", "words", "credential", "payment"],
)
def test_each_question_has_its_form(ada_browser, ada, report, slot, state, shown):
    metadata = {"url": "http://localhost/credentials/abc"}
    message = {"parts": [{"text": "I need <i>it</i>."}, {"text": "link"}], "metadata": metadata}
    asked = telling.asked(ada, report, slot)
    Task.objects.filter(pk=asked.task).update(state=state, status_message=message)
    page = ada_browser.get("/inbox").text
    assert [words in page for words in (*shown, "<i>it</i>")] == [True] * len(shown) + [False]
    assert ('name="text"' in page) is ('name="text"' in shown)


def test_answered_archived_and_passed_on_questions_are_gone(ada_browser, ada, report, said, client):
    answered, away, kept, of_a_child, other = (ask(ada, report) for _ in range(5))
    context = Context.objects.get(pk=answered.context).context_id
    accept.accept(ada.principal, report, said("PDF", taskId=str(answered.task), contextId=context))
    commands.archive_session(ada.principal, away.context)
    Context.objects.filter(pk=of_a_child.context).update(parent_task=kept.task)
    Task.objects.filter(pk=of_a_child.task).update(parent=kept.task)
    cancel.cancel_task(Task.objects.get(pk=other.task))
    assert [task.pk for task in waiting_tasks(ada.principal)] == [kept.task]
    shown = ada_browser.get("/inbox").text
    assert [str(one.task) in shown for one in (answered, away, kept, of_a_child, other)] == [0, 0, 1, 0, 0]
    assert 'data-waiting="1"' in shown
    for path in ("/inbox", "/inbox/items"):
        assert client.get(path).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_sample_is_an_answer_with_the_other_fields(ada_browser, ada, report):
    plate = {"type": "string", "minLength": 2}
    form = {"type": "object", "properties": {"wells": FILE, "plate": plate}, "required": ["wells", "plate"]}
    asked = ask(ada, report, form, "wells")

    def sent(sample, **form):
        said = {"answers": "1", "task": str(asked.task), "message": str(uuid.uuid4()), "sample": sample, **form}
        return ada_browser.post(f"/sessions/{asked.context}/messages", said)

    filled = {"answer-plate": "P7"}
    assert sent("answer-wells:wells.csv").json()["field"] == "answer-plate"
    for chosen in ("answer-wells:other.csv", "answer-other:wells.csv", "wells.csv"):
        assert sent(chosen, **filled).status_code == 422, chosen
    assert sent("answer-wells:wells.csv", **filled).status_code == 201
    values, file = Message.objects.filter(task=asked.task, role="user").latest("index").parts
    assert (values["data"], file["filename"], file["mediaType"]) == ({"plate": "P7"}, "wells.csv", "text/csv")
    assert blobs.content_of(file) == b"well,value\na,1\n"
