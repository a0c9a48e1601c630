"""What callers of each edge read when a limit is reached."""

import uuid

import pytest

import db
from agentkit import Artifact, Completed
from apps.accounts import quotas
from apps.accounts.models import ApiKey
from apps.engine import accept
from apps.engine.output import TooLarge
from apps.features.budgets import spending
from apps.features.budgets.models import Budget, Spending, first_of_month
from apps.features.uploads import resumable
from apps.limits.models import Limit
from apps.record.errors import LimitReached, StorageFull
from apps.record.execution import Run
from apps.record.models import Task
from tests.a2a.calling import Caller as A2ACaller
from tests.a2a.calling import details_of, message
from tests.api.calling import Caller
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh(monkeypatch, settings):
    settings.CHANNEL_LAYER_URL = "memory://"
    monkeypatch.setattr(quotas, "request_counter", quotas.RequestCounter())
    monkeypatch.setattr(quotas, "time", lambda: 6010.0)


@pytest.fixture
def limited(ada):
    return lambda **values: Limit.objects.create(workspace=ada.personal_workspace, **values)


@pytest.fixture
def key(ada):
    return ApiKey.issue(ada, "test")[1]


async def test_a2a_says_which_limit_of_whom_and_when_to_go_on(key, echo, limited):
    await db.run(lambda: limited(requests_per_minute=1))
    caller = A2ACaller("echo", key)
    await caller.call("GetTask", {"id": "a"})
    answer = await caller.call("GetTask", {"id": "a"})
    assert (answer.status, answer.code, answer.reason) == (429, 429, "RESOURCE_EXHAUSTED")
    told = {"name": "requests_per_minute", "of": "workspace", "max": "1", "used": "2", "retryAfter": "50"}
    assert [one["metadata"] for one in details_of(answer.details, "ErrorInfo")] == [told]
    assert [one["retryDelay"] for one in details_of(answer.details, "RetryInfo")] == ["50s"]
    assert answer.headers["Retry-After"] == "50"
    assert answer.headers["RateLimit"] == '"workspace";r=0;t=50'


async def test_the_client_api_says_it_in_its_problem(key, echo, limited):
    await db.run(lambda: limited(queued_runs=0))
    answer = await Caller(key).post("/sessions", {"agent": "echo", "message": {"text": "hello"}})
    assert answer.status == 429
    assert answer.body["limit"] == {"name": "queued_runs", "of": "workspace", "max": 0, "used": 0, "retryAfter": 15}
    assert answer.headers["retry-after"] == "15"
    assert not await db.run(Task.objects.exists)


@pytest.fixture
def spent(ada, echo):
    """Its budget for a month is used up."""

    def spend(**budget):
        Spending.objects.create(
            run=uuid.uuid4(), model="m", month=first_of_month(), workspace=ada.personal_workspace, agent=echo,
            context=uuid.uuid4(), cost=2.5, input_tokens=100, key=str(ApiKey.objects.get()),
        )  # fmt: skip
        Budget.objects.create(**budget)
        spending.forget()

    return spend


async def test_a_spent_budget_is_said_as_other_limits_are(key, ada, echo, spent):
    await db.run(lambda: spent(workspace=ada.personal_workspace, hard_limit=2.0))
    answer = await Caller(key).post("/sessions", {"agent": "echo", "message": {"text": "hello"}})
    told = answer.body["limit"]
    assert answer.status == 429
    assert 0 < told.pop("retryAfter") <= 31 * 24 * 3600
    assert told == {"name": "cost_per_month", "of": "workspace", "max": 2.0, "used": 2.5}
    assert answer.headers["retry-after"]


async def test_a2a_says_which_key_s_tokens_are_used_up(key, echo, spent):
    await db.run(lambda: spent(api_key=ApiKey.objects.get(), token_limit=100))
    answer = await A2ACaller("echo", key).send(message())
    assert (answer.status, answer.code, answer.reason) == (429, 429, "RESOURCE_EXHAUSTED")
    [told] = [one["metadata"] for one in details_of(answer.details, "ErrorInfo")]
    assert told.pop("retryAfter")
    assert told == {"name": "tokens_per_month", "of": "api_key", "max": "100", "used": "100"}


async def test_callers_do_not_learn_what_an_agent_may_cost(key, ada, echo, spent):
    await db.run(lambda: spent(agent=echo, hard_limit=2.0))
    answer = await Caller(key).post("/sessions", {"agent": "echo", "message": {"text": "hello"}})
    assert answer.status == 429
    assert answer.body["limit"].keys() == {"name", "of", "retryAfter"}


async def test_a_page_shows_the_sentence(ada, echo, limited, async_client):
    await db.run(lambda: limited(queued_runs=0))
    await db.run(async_client.force_login, ada)
    answer = await async_client.post("/agents/echo/messages", {"text": "hello", "message": str(uuid.uuid4())})
    assert answer.status_code == 429
    assert "workspace" in answer.json()["error"]


def test_a_full_queue_refuses_new_tasks_alone(ada, bob, echo, said, limited):
    limited(queued_runs=2)
    first = said()
    sent = accept.accept(ada.principal, echo, first)
    accept.accept(ada.principal, echo, said())
    with pytest.raises(LimitReached) as refused:
        accept.accept(ada.principal, echo, said())
    assert (refused.value.exceeded.limit, refused.value.exceeded.used) == (2, 2)
    assert accept.accept(ada.principal, echo, first).task == sent.task, "the answer to a repeated message"
    assert accept.accept(ada.principal, echo, said(), sender=f"task:{sent.task}", parent=sent.task).run
    assert accept.accept(bob.principal, echo, said()).run
    begin(sent.run)
    Run.objects.exclude(pk=sent.run).exclude(task__owner=bob).update(state=Run.State.CANCELED)
    assert accept.accept(ada.principal, echo, said()).run


def test_the_queue_of_an_agent_and_of_a_key_are_their_own(ada, bob, echo, countdown, said):
    key = ApiKey.issue(ada, "test")[0]
    Limit.objects.create(agent=echo, queued_runs=1)
    Limit.objects.create(api_key=key, queued_runs=1)
    accept.accept(bob.principal, echo, said())
    with pytest.raises(LimitReached):
        accept.accept(ada.principal, echo, said())
    accept.accept(key.principal, countdown, said())
    with pytest.raises(LimitReached):
        accept.accept(key.principal, countdown, said())
    assert accept.accept(ada.principal, countdown, said()).run


def test_messages_to_an_agent_are_counted_whoever_sends_them(ada, bob, echo, said):
    Limit.objects.create(agent=echo, requests_per_minute=2)
    accept.accept(ada.principal, echo, said())
    accept.accept(bob.principal, echo, said())
    with pytest.raises(LimitReached):
        accept.accept(ada.principal, echo, said())


async def test_an_agent_that_answers_with_messages_is_limited_too(key, limited):
    from apps.agents.registration import register_hosted

    agent = await db.run(register_hosted, "counting", "tests.engine.agents:Counting")
    await db.run(lambda: Limit.objects.create(agent=agent, requests_per_minute=1))
    caller = A2ACaller("counting", key)
    assert (await caller.send(message())).result["message"]
    assert (await caller.send(message())).status == 429


BIG = {"text": "x" * 5_000}


def test_files_beyond_the_storage_are_refused(ada, echo, said, limited, settings):
    settings.INLINE_PART_BYTES = 1_000
    accept.accept(ada.principal, echo, said(parts=[BIG]))
    limited(storage_bytes=9_000)
    with pytest.raises(StorageFull) as refused:
        accept.accept(ada.principal, echo, said(parts=[{"text": "y" * 5_000}]))
    assert refused.value.exceeded.data == {"name": "storage_bytes", "of": "workspace", "max": 9_000, "used": 5_000}
    assert accept.accept(ada.principal, echo, said()).run, "what is not kept in a file"
    with pytest.raises(StorageFull):
        resumable.begin_upload(ada.principal, "a.txt", 5_000)
    assert resumable.begin_upload(ada.principal, "a.txt", 3_000)


def test_an_artifact_beyond_the_storage_fails_the_turn(ada, echo, said, limited, settings):
    settings.INLINE_PART_BYTES = 1_000
    held = begin(accept.accept(ada.principal, echo, said()).run)
    limited(storage_bytes=4_000)
    with pytest.raises(TooLarge) as refused:
        end(held, Completed("done", [Artifact([BIG], name="big")]))
    assert refused.value.code == "storage_full"
    limited_to = Limit.objects.get()
    limited_to.storage_bytes = 6_000
    limited_to.save()
    end(held, Completed("done", [Artifact([BIG], name="big")]))
