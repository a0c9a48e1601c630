"""Programs list tool calls that need another person, and decide about them."""

import pytest

from apps.accounts.models import ApiKey
from apps.record.execution import Run
from apps.record.models import Task
from parley import db
from tests.clients.calling import Caller
from tests.conversations.pages.test_approvals import a_call, ask
from tests.members import operator

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss_calls(transactional_db):
    return Caller(ApiKey.issue(operator("boss@example.org", "approve_task"), "t")[1])


async def test_a_second_person_decides_by_the_api(ada, ada_calls, bob_calls, boss_calls, echo):
    task = await db.run(ask, ada, echo, a_call(needs=2, to="eve", body="hi"))
    answered = await ada_calls.post(f"/tasks/{task.pk}/answer", {"data": {"decision": "approve"}}, idempotency_key="k")
    assert answered.status == 202
    for others in (bob_calls, ada_calls):
        assert (await others.get("/approvals")).body == {"items": []}
    [listed] = (await boss_calls.get("/approvals")).body["items"]
    assert listed["message"]["parts"][1]["data"]["arguments"] == {"to": "eve", "body": "hi"}
    decision = {"decision": "approve", "asked": listed["asked"]}
    unknown = await bob_calls.post("/approvals/00000000-0000-4000-8000-000000000000", decision)
    refused = await bob_calls.post(f"/approvals/{task.pk}", decision)
    assert (refused.status, refused.body["detail"]) == (404, unknown.body["detail"])
    assert (await boss_calls.post(f"/approvals/{task.pk}", decision | {"asked": 1})).status == 409
    assert (await boss_calls.post(f"/approvals/{task.pk}", decision | {"arguments": {"to": 1}})).status == 422
    assert (await boss_calls.post(f"/approvals/{task.pk}", decision)).status == 204
    run = await db.run(Run.objects.get, task=task, turn=2)
    assert run.slot["value"]["calls"][0]["approved"] is True


async def test_browser_login_alone_approves_nothing(ada, ada_browses, echo):
    task = await db.run(ask, ada, echo, a_call(to="eve", body="hi"))
    decision = {"decision": "approve", "asked": task.status_event}
    token = "a" * 32
    assert (await ada_browses.post(f"/approvals/{task.pk}", decision, X_CSRFToken=token)).status == 403
    answer = {"data": {"decision": "approve"}}
    for path, said in ((f"tasks/{task.pk}/answer", answer), (f"sessions/{task.context_id}/messages", {"text": "yes"})):
        sent = await ada_browses.post(f"/{path}", said, idempotency_key="k", X_CSRFToken=token)
        assert sent.status == 403, path
    refusal = decision | {"decision": "refuse"}
    assert (await ada_browses.post(f"/approvals/{task.pk}", refusal, X_CSRFToken=token)).status == 204


async def test_programs_unaddressed_words_approve_nothing(ada, ada_calls, echo):
    task = await db.run(ask, ada, echo, a_call(to="eve", body="hi"))
    sent = await ada_calls.post(f"/sessions/{task.context_id}/messages", {"text": "yes"})
    assert (sent.status, sent.code) == (409, "conflict")
    assert await db.run(lambda: Task.objects.get(pk=task.pk).state) == "input-required"
