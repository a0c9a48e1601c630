"""Which limits apply, what callers of each edge read when one is reached, and what operators and people see."""

import uuid

import pytest
from django.core import mail
from django.db import DatabaseError
from django.urls import reverse

from agentkit import Artifact, Completed
from apps.accounts.models import ApiKey
from apps.accounts.requests import quotas
from apps.agents.registration import register_hosted
from apps.budgets import spending
from apps.budgets.models import Budget, Spending, first_of_month
from apps.conversations.uploads import resumable
from apps.engine import accept, send
from apps.engine.turns.output import TooLarge
from apps.engine.uses import uses_of, watch
from apps.limits import current
from apps.limits.admin import holder_of
from apps.limits.current import Holder, LimitExceeded
from apps.limits.models import Kind, Limit, Whose
from apps.record.errors import LimitReached, StorageFull, UnsupportedOperation
from apps.record.execution import Run
from apps.record.models import Blob, Task
from parley import db
from parley.registry import added
from parley.telemetry.metrics import REGISTRY
from tests.a2a.calling import Caller as A2ACaller
from tests.a2a.calling import details_of
from tests.clients.calling import Caller
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)
HERE = "192.0.2.1"


@pytest.fixture(autouse=True)
def fresh(monkeypatch, settings):
    """No requests counted yet, and the minute does not end."""
    settings.CHANNEL_LAYER_URL = "memory://"
    monkeypatch.setattr(quotas, "request_counter", quotas.RequestCounter())
    monkeypatch.setattr(quotas, "stream_counter", quotas.StreamCounter())
    monkeypatch.setattr(quotas, "time", lambda: 6010.0)


@pytest.fixture
def workspace(ada):
    return ada.personal_workspace


@pytest.fixture
def limited(workspace):
    return lambda **values: Limit.objects.create(workspace=workspace, **values)


@pytest.fixture
def issued(ada):
    return ApiKey.issue(ada, "test")


@pytest.fixture
def key(issued):
    return issued[0]


def refused(function, *args):
    with pytest.raises(LimitExceeded) as exceeded:
        function(*args)
    return exceeded.value


def test_tightest_limit_is_in_force(ada, bob, limited, key):
    limited(requests_per_minute=3)
    Limit.objects.create(api_key=key, requests_per_minute=1)
    current.count_request(bob.principal, HERE)
    current.count_request(key.principal, HERE)
    by_key = refused(current.count_request, key.principal, HERE)
    assert by_key.data == {"name": "requests_per_minute", "of": "api_key", "max": 1, "used": 2, "retryAfter": 50}
    current.count_request(ada.principal, HERE)
    by_workspace = refused(current.count_request, ada.principal, HERE)
    assert (by_workspace.whose, by_workspace.limit, by_workspace.used) == (Whose.WORKSPACE, 3, 4)
    assert by_workspace.headers == {
        "Retry-After": "50",
        "RateLimit-Policy": '"workspace";q=3;w=60',
        "RateLimit": '"workspace";r=0;t=50',
    }


def test_changed_limit_counts_at_once(ada, limited, django_assert_num_queries):
    limit, caller = limited(requests_per_minute=1), ada.principal
    current.count_request(caller, HERE)
    limit.requests_per_minute = 2
    limit.save()
    current.count_request(caller, HERE)
    with django_assert_num_queries(0):
        refused(current.count_request, caller, HERE)
    limit.delete()
    current.count_request(caller, HERE)


def test_workspaces_have_limits_of_settings(ada, bob, limited, settings):
    settings.WORKSPACE_LIMITS = {"open_streams": 1, "requests_per_minute": 0}
    limited(open_streams=2)
    for person, most in ((ada, 2), (bob, 1)):
        for _ in range(most):
            current.open_stream(person.principal, HERE)
        assert refused(current.open_stream, person.principal, HERE).limit == most
        current.count_request(person.principal, HERE)


def test_ended_or_refused_stream_makes_room(ada, echo):
    def counted():
        labels = {"limit": Kind.STREAMS.value, "of": "agent"}
        return REGISTRY.get_sample_value("parley_limits_reached_total", labels) or 0

    Limit.objects.create(agent=echo, open_streams=1)
    end, before = current.open_stream(ada.principal, HERE, echo.pk), counted()
    for _ in range(3):
        assert refused(current.open_stream, ada.principal, HERE, echo.pk).whose is Whose.AGENT
    assert counted() == before + 3
    end()
    current.open_stream(ada.principal, HERE, echo.pk)()
    assert not quotas.stream_counter._open


def test_keys_priority_comes_before_its_workspaces(echo, workspace, key):
    Limit.objects.create(workspace=workspace, priority=Limit.Priority.LOW)
    Limit.objects.create(api_key=key, priority=Limit.Priority.HIGH)
    known = current.snapshot()
    assert known.priority(workspace.pk, str(key), echo.pk) == Limit.Priority.HIGH
    assert known.priority(workspace.pk, "", echo.pk) == Limit.Priority.LOW
    assert known.priority(workspace.pk + 1, "", echo.pk) == Limit.Priority.NORMAL


# What callers read


async def test_a2a_names_limit_owner_and_wait(issued, echo, limited):
    await db.run(lambda: limited(requests_per_minute=1))
    caller = A2ACaller("echo", issued[1])
    await caller.call("GetTask", {"id": "a"})
    answer = await caller.call("GetTask", {"id": "a"})
    assert (answer.status, answer.code, answer.reason) == (429, 429, "RESOURCE_EXHAUSTED")
    told = {"name": "requests_per_minute", "of": "workspace", "max": "1", "used": "2", "retryAfter": "50"}
    assert [one["metadata"] for one in details_of(answer.details, "ErrorInfo")] == [told]
    assert [one["retryDelay"] for one in details_of(answer.details, "RetryInfo")] == ["50s"]
    assert (answer.headers["Retry-After"], answer.headers["RateLimit"]) == ("50", '"workspace";r=0;t=50')


async def test_api_and_pages_name_the_limit(issued, ada, echo, limited, async_client):
    await db.run(lambda: limited(queued_runs=0))
    answer = await Caller(issued[1]).post("/sessions", {"agent": "echo", "message": {"text": "hello"}})
    assert (answer.status, answer.headers["retry-after"]) == (429, "15")
    assert answer.body["limit"] == {"name": "queued_runs", "of": "workspace", "max": 0, "used": 0, "retryAfter": 15}
    await async_client.aforce_login(ada)
    answer = await async_client.post("/agents/echo/messages", {"text": "hello", "message": str(uuid.uuid4())})
    assert (answer.status_code, "workspace" in answer.json()["error"]) == (429, True)
    assert not await Task.objects.aexists()


@pytest.mark.parametrize(
    ("whose", "limit", "told"),
    [
        ("workspace", {"hard_limit": 2.0}, {"name": "cost_per_month", "of": "workspace", "max": 2.0, "used": 2.5}),
        ("api_key", {"token_limit": 100}, {"name": "tokens_per_month", "of": "api_key", "max": 100, "used": 100}),
        ("agent", {"hard_limit": 2.0}, {"name": "cost_per_month", "of": "agent"}),  # callers do not learn its costs
    ],
)
async def test_spent_budget_is_told_like_a_limit(issued, workspace, echo, whose, limit, told):
    key, secret = issued
    owner = {"workspace": workspace, "api_key": key, "agent": echo}[whose]
    used = {"cost": 2.5, "input_tokens": 100, "key": str(key), "agent": echo, "workspace": workspace}
    ids = {"run": uuid.uuid4(), "context": uuid.uuid4(), "model": "m", "month": first_of_month()}
    await Spending.objects.acreate(**used, **ids)
    await Budget.objects.acreate(**{whose: owner}, **limit)
    spending.forget()
    answer = await Caller(secret).post("/sessions", {"agent": "echo", "message": {"text": "hello"}})
    reached = answer.body["limit"]
    assert (answer.status, 0 < reached.pop("retryAfter") <= 31 * 24 * 3600) == (429, True)
    assert reached == told
    assert answer.headers["retry-after"]


def test_full_queue_refuses_only_new_tasks(ada, bob, echo, said, limited):
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


def test_agents_and_keys_have_their_own_queue_limit(ada, bob, echo, countdown, said):
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


async def test_messages_to_an_agent_are_counted(ada, bob, echo, said):
    quick = await db.run(register_hosted, "counting", "tests.engine.agents:Counting")
    for agent, refusal in ((echo, LimitReached), (quick, LimitReached)):
        await Limit.objects.acreate(agent=agent, requests_per_minute=2)
        await send.send(ada.principal, agent, said())
        await send.send(bob.principal, agent, said())
        with pytest.raises(refusal):
            await send.send(ada.principal, agent, said())


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


def test_artifact_beyond_the_storage_fails_the_turn(ada, echo, said, limited, settings):
    settings.INLINE_PART_BYTES = 1_000
    held = begin(accept.accept(ada.principal, echo, said()).run)
    limit = limited(storage_bytes=4_000)
    with pytest.raises(TooLarge) as refused:
        end(held, Completed("done", [Artifact([BIG], name="big")]))
    assert refused.value.code == "storage_full"
    limit.storage_bytes = 6_000
    limit.save()
    end(held, Completed("done", [Artifact([BIG], name="big")]))


# What operators and people see


def stored(workspace, size):
    return Blob.objects.create(workspace=workspace, sha256=uuid.uuid4().hex * 2, size=size, uses=1)


def test_operators_limit_workspaces_keys_and_agents(admin_client, workspace, key, echo):
    add = reverse("admin:limits_limit_add")
    for row, name in ((workspace, "workspace"), (key, "api_key"), (echo, "agent")):
        page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
        assert f"{add}?{name}={row.pk}" in admin_client.get(page).text
        assert admin_client.post(add, {name: row.pk, "requests_per_minute": 7}).status_code == 302
        limit = Limit.objects.get(**{name: row})
        assert current.snapshot().of(holder_of(limit)) == {"requests_per_minute": 7}
        assert "0 of 7" in admin_client.get(page).text
    assert admin_client.get(reverse("admin:limits_limit_changelist")).text.count("0 of 7") == 3
    Limit.objects.all().delete()
    both = {"workspace": workspace.pk, "agent": echo.pk, "running_runs": 1}
    for wrong in (both, {"running_runs": 1}, {"agent": echo.pk, "storage_bytes": 1}):
        assert admin_client.post(add, wrong).status_code == 200
    assert not Limit.objects.exists(), "a limit is of one alone, and storage is of a workspace"


def test_usage_is_shown_to_its_people(ada, bob, echo, said, limited, workspace, client):
    limited(running_runs=5, queued_runs=2, storage_bytes=1000, open_streams=3)
    for _ in range(2):
        accept.accept(ada.principal, echo, said())
    stored(workspace, 800)
    end = current.open_stream(ada.principal, HERE)
    used = {use.kind: (use.used, use.is_near, use.is_reached) for use in uses_of(Holder(Whose.WORKSPACE, workspace.pk))}
    end()
    assert used == {
        Kind.RUNNING: (0, False, False),
        Kind.QUEUED: (2, True, True),
        Kind.STORAGE: (800, True, False),
        Kind.STREAMS: (1, False, False),
    }
    for person, shown in ((ada, [(800, 1000)]), (bob, [])):
        client.force_login(person)
        uses = client.get(reverse("web:settings-usage")).context["uses"]
        assert [(use.used, use.limit) for use in uses if use.kind == Kind.STORAGE] == shown


def test_notice_is_sent_once_for_full_storage(ada, settings):
    settings.ADMINS, settings.EMAIL_URL = ["op@example.org"], "smtp://localhost"
    Limit.objects.create(workspace=ada.personal_workspace, storage_bytes=1000)
    file = stored(ada.personal_workspace, 700)
    watch()
    assert not mail.outbox
    Blob.objects.update(size=800)
    watch(), watch()
    assert [one.to for one in mail.outbox] == [["op@example.org", "ada@example.org"]]
    Blob.objects.filter(pk=file.pk).update(size=100)
    watch()
    Blob.objects.filter(pk=file.pk).update(size=900)
    watch()
    assert len(mail.outbox) == 2, "it was less in between"


def refuse(principal, agent):
    raise UnsupportedOperation


def fail():
    raise DatabaseError("no such table")


def test_failing_obstacle_of_an_app_loses_no_limit(ada, echo, limited, monkeypatch):
    limited(requests_per_minute=1)
    answers = [lambda: refuse, fail, lambda: None]
    monkeypatch.setitem(added, "send_obstacles", (lambda: answers[0](), fail))
    for _ in ("found", "kept"):
        current.forget()
        with pytest.raises(UnsupportedOperation):
            accept.check_obstacles(ada.principal, echo)
        assert Kind.REQUESTS in current.snapshot().names
        del answers[0]
    current.forget()
    accept.check_obstacles(ada.principal, echo)


@pytest.mark.parametrize("wrong", [refuse, lambda: fail, lambda: "refuse"], ids=["as check", "no check", "text"])
def test_wrong_obstacle_of_an_app_breaks_no_send(ada, echo, monkeypatch, wrong, caplog):
    monkeypatch.setitem(added, "send_obstacles", (wrong, lambda: refuse))
    current.forget()
    with pytest.raises(UnsupportedOperation):
        accept.check_obstacles(ada.principal, echo)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_limits_of_settings_hold_before_first_read(ada, settings, monkeypatch):
    settings.WORKSPACE_LIMITS = {"requests_per_minute": 1}
    current.keep(current.Snapshot())
    monkeypatch.setattr(Limit.objects, "values_list", lambda *_: fail())
    current.count_request(ada.principal, HERE)
    assert refused(current.count_request, ada.principal, HERE).limit == 1
    assert not current.snapshot().is_empty
