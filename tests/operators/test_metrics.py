"""`/metrics` tells what a Parley does, to those who may know."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import aclosing
from importlib.metadata import version

import pytest
from django.utils import timezone

from agentkit import Completed, Failed, InputRequired, Usage
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.requests import Webhook
from apps.a2a.webhooks import CallResult, claim, create_with_task, record_result
from apps.accounts.models import ApiKey
from apps.agents.registration import register_hosted
from apps.engine import accept, activity, cancel, jobs
from apps.engine.claim import claim as claim_run
from apps.engine.turns.recorder import Recorder
from apps.installation.models import Activity
from apps.operators import jobs as operators_jobs
from apps.operators import metrics as operators_metrics
from apps.record.execution import Run
from apps.record.models import Task
from apps.record.reading import feed
from apps.remote import circuit_breaker
from apps.remote.errors import Unreachable
from parley import db, outbound
from parley.program import DISTRIBUTION
from parley.telemetry import metrics
from tests.operators.scraping import LOCAL, caller, scrape, status_for
from tests.stack import ROOT, free_port
from tests.working import begin, carry_out, end, let_the_lease_run_out

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("each database has SQL of its own")]


@pytest.fixture(autouse=True)
def _numbers_are_of_the_test(monkeypatch):
    operators_metrics.forget_numbers()
    monkeypatch.setattr(jobs, "publish", lambda run: None)


@pytest.fixture
def queued(ada, echo, said):
    return accept.accept(ada.principal, echo, said())


# What processes count


async def test_sends_are_counted_at_each_step(worker, ada, echo, said):
    headers = {"Authorization": f"Bearer {(await db.run(ApiKey.issue, ada, 'test'))[1]}", "A2A-Version": "1.0"}
    calls = {"SendMessage": {"message": said()}, "SendStreamingMessage": {"message": said()}, "GetTask": {"id": "none"}}
    before = await scrape()
    async with caller() as client:
        for method, params in calls.items():
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            await client.post("/a2a/echo", json=body, headers=headers)
    after = await scrape()
    assert after.growth(before, "parley_requests_total", edge="a2a", code="200") == 3
    assert after.growth(before, "parley_request_duration_seconds_count", edge="a2a") == 3
    assert after.growth(before, "parley_a2a_requests_total", method="SendMessage", code="ok") == 1
    assert after.growth(before, "parley_a2a_requests_total", method="GetTask", code="-32001") == 1
    assert after.growth(before, "parley_a2a_request_duration_seconds_count", method="SendStreamingMessage") == 1
    assert after.growth(before, "parley_events_recorded_total", type="user_message") == 2
    assert after.growth(before, "parley_run_queue_seconds_count", agent="echo") == 2
    assert after.growth(before, "parley_database_busy_seconds_total") > 0
    assert after.value("parley_open_streams", edge="a2a") == before.value("parley_open_streams", edge="a2a")


async def test_work_is_counted_by_agent_and_outcome(ada, echo, said, queued, settings):
    settings.WEBHOOK_GIVE_UP_SECONDS = -1.0  # so the first failure is the last
    broken = await db.run(register_hosted, "broken", "tests.engine.calling_agents:Failing")

    def call(status):
        keep = create_with_task(Webhook.model_construct(id="hook", url="http://127.0.0.1:9/"), "1.0")
        sent = accept.accept(ada.principal, echo, said(), extra_writes=keep)
        end(begin(sent.run), Completed("done"))
        record_result(claim(PushConfig.objects.get(task=sent.task).pk), CallResult(status))

    before = await scrape()
    for agent in (echo, broken):
        await carry_out((await db.run(accept.accept, ada.principal, agent, said())).run)
    recorder = Recorder(await db.run(begin, queued.run))
    await recorder.emit(Usage("gpt-test", requests=2, input_tokens=30, output_tokens=4, cost=0.5))
    await db.run(lambda: cancel.cancel_task(Task.objects.get(pk=queued.task)))
    await db.run(call, 200)
    await db.run(call, 500)
    await db.run(circuit_breaker.record_success, echo)
    await db.run(circuit_breaker.record_failure, echo, Unreachable("gone"))
    after = await scrape()
    for name, labels, grown in (
        ("runs_ended_total", {"agent": "echo", "state": "canceled", "reason": ""}, 1),
        ("runs_ended_total", {"agent": "broken", "state": "failed", "reason": "oven"}, 1),
        ("run_duration_seconds_count", {"agent": "broken"}, 1),
        ("model_calls_total", {"model": "gpt-test"}, 2),
        ("model_tokens_total", {"model": "gpt-test", "direction": "input"}, 30),
        ("model_tokens_total", {"model": "gpt-test", "direction": "output"}, 4),
        ("model_cost_total", {"model": "gpt-test", "currency": settings.CURRENCY}, 0.5),
        ("webhook_calls_total", {"result": "delivered"}, 1),
        ("webhook_calls_total", {"result": "dead"}, 1),
        ("remote_calls_total", {"agent": "echo", "result": "answered"}, 1),
        ("remote_calls_total", {"agent": "echo", "result": "agent_unreachable"}, 1),
    ):
        assert after.growth(before, f"parley_{name}", **labels) == grown, (name, labels)


async def test_followers_and_their_lag_are_told(queued):
    before = await scrape()
    async with aclosing(feed.follow(queued.context)) as batches:
        await anext(batches)  # the past
        await db.run(begin, queued.run)
        await anext(batches)
        during = await scrape()
    assert during.growth(before, "parley_followers", scope="context") == 1
    assert during.growth(before, "parley_fanout_lag_seconds_count") == 1
    assert (await scrape()).growth(before, "parley_followers", scope="context") == 0


async def test_lost_workers_are_counted(queued, echo):
    def lose_twice():
        echo.retry_safe, echo.attempts = True, 1  # a first loss costs no attempt
        echo.save()
        for _ in range(2):
            let_the_lease_run_out(begin(queued.run).lease)
        jobs.sweep()
        assert claim_run(queued.run, "another") is None

    before = await scrape()
    await db.run(lose_twice)
    after = await scrape()
    assert after.growth(before, "parley_run_leases_lost_total", agent="echo") == 2
    assert after.growth(before, "parley_run_queue_seconds_count", agent="echo") == 1
    assert after.growth(before, "parley_sweep_found_total", found="lost_runs") == 1
    ended = {"agent": "echo", "state": "failed", "reason": "worker_lost"}
    assert after.growth(before, "parley_runs_ended_total", **ended) == 1


async def test_edges_count_pages_refusals_and_probes(ada):
    before = await scrape()
    async with caller() as client:
        await client.get("/nothing-here")
        await client.get("/api/v1/agents")
        await client.post("/a2a/nobody", content=b"x", headers={"Content-Length": str(10**12)})
    after = await scrape()
    assert after.growth(before, "parley_requests_total", edge="pages", code="404") == 1
    assert after.growth(before, "parley_requests_total", edge="api", code="401") == 1
    assert after.growth(before, "parley_requests_total", edge="a2a", code="413") == 1
    assert after.growth(before, "parley_requests_total", edge="probes", code="200") == 1


def test_values_that_people_choose_are_limited(monkeypatch):
    monkeypatch.setitem(metrics.MOST_VALUES, "model", 0)
    calls = metrics.MODEL_CALLS
    for name in ("one of many", "two of many", "a surrogate \ud800 of many"):
        calls[name].inc()
    assert metrics.REGISTRY.get_sample_value("parley_model_calls_total", {"model": "other"}) >= 3
    assert not [key for key in calls if "of many" in key]


# What the database knows


async def test_queues_are_told_with_their_age(ada, echo, said, queued):
    def prepare():
        past = timezone.now() - datetime.timedelta(hours=2)
        Run.objects.filter(pk=queued.run).update(queued_at=past)
        end(begin(accept.accept(ada.principal, echo, said()).run), InputRequired("Which?", slot="which"))
        lost = begin(accept.accept(ada.principal, echo, said()).run)
        let_the_lease_run_out(lost.lease)
        keep = create_with_task(Webhook.model_construct(id="hook", url="http://127.0.0.1:9/"), "1.0")
        told = accept.accept(ada.principal, echo, said(), extra_writes=keep)
        end(begin(told.run), Failed("no"))
        Delivery.objects.filter(pk=Delivery.objects.order_by("pk")[0].pk).update(state=Delivery.State.DEAD)

    await db.run(prepare)
    told = await scrape()
    assert told.value("parley_build_info", version=version(DISTRIBUTION)) == 1
    assert told.value("parley_database_up") == 1
    assert told.value("parley_runs", state="queued") == 1
    assert 7200 <= told.value("parley_queue_oldest_seconds") < 7300
    assert told.value("parley_runs", state="running") == 1
    assert told.value("parley_expired_leases") == 1
    assert told.value("parley_tasks", state="input-required") == 1
    assert told.value("parley_webhook_dead_letters") == 1
    assert told.value("parley_webhook_backlog") >= 1
    assert told.value("parley_agent_health", agent="echo", kind="hosted") == 1
    await db.run(activity.set_activity, echo, Activity.PAUSED)
    operators_metrics.forget_numbers()
    assert (await scrape()).value("parley_queue_oldest_seconds") == 0, "what a pause holds back is not stuck"


async def test_many_scrapes_read_the_database_once(queued, monkeypatch):
    reads = []
    read = operators_metrics.read_numbers
    monkeypatch.setattr(operators_metrics, "read_numbers", lambda: reads.append(1) or read())
    for _ in range(3):
        await scrape()
    assert len(reads) == 1


async def test_hanging_database_is_down_in_every_scrape(monkeypatch):
    hangs, is_over = threading.Event(), threading.Event()
    await scrape()
    at, numbers = operators_metrics._newest
    monkeypatch.setattr(operators_metrics, "_newest", (at - operators_metrics.CURRENT_SECONDS, numbers))
    monkeypatch.setattr(operators_metrics, "read_numbers", lambda: hangs.set() or (is_over.wait(60) and numbers))
    monkeypatch.setattr(operators_metrics, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(operators_metrics, "WAIT_SECONDS", 0.01)
    try:
        told = [(await scrape()).value("parley_database_up") for _ in range(3)]
        assert hangs.is_set()
    finally:
        is_over.set()
    assert told == [0, 0, 0]


# Who may know


SCRAPERS = [
    ("", "", LOCAL, {}, 200),
    ("", "", "::ffff:127.0.0.1", {}, 200),
    ("", "", "192.0.2.7", {}, 404),
    ("", "", "", {}, 404),
    ("", "", LOCAL, {"X-Forwarded-For": "127.0.0.1"}, 404),
    ("192.0.2.0/24", "", "192.0.2.7", {}, 200),
    ("192.0.2.0/24", "", "198.51.100.7", {}, 404),
    ("192.0.2.0/24", "", "192.0.2.7", {"Forwarded": "for=198.51.100.7"}, 404),
    ("", "secret", "192.0.2.7", {"Authorization": "Bearer secret", "X-Forwarded-For": "10.1.1.1"}, 200),
    ("", "secret", LOCAL, {}, 404),
    ("", "secret", LOCAL, {"Authorization": "Bearer sécret"}, 404),
    ("", "secret", LOCAL, {"Authorization": "secret"}, 404),
    ("192.0.2.0/24", "secret", "192.0.2.7", {"Authorization": "Bearer wrong"}, 404),
]


async def test_only_allowed_scrapers_see_metrics(settings):
    for allowed, token, peer, headers, status in SCRAPERS:
        settings.METRICS_ALLOW = [ipaddress.ip_network(allowed)] if allowed else []
        settings.METRICS_TOKEN = token
        sent = {name: value.encode() for name, value in headers.items()}
        assert await status_for(peer, sent) == status, (allowed, token, peer, headers)


def test_certificate_is_read_at_intervals_beside_scrapes():
    now, answers = 0.0, [1000.0, outbound.Unreachable("It is away."), ValueError("No certificate."), 2000.0]

    def read() -> float:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    certificate = operators_metrics.PublicCertificate(read, clock=lambda: now)
    for expected, left in ((1000.0, 3), (1000.0, 2), (1000.0, 1), (2000.0, 0)):
        deadline = time.monotonic() + 60
        while (certificate.end(), len(answers)) != (expected, left):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        now += operators_metrics.CERTIFICATE_SECONDS


async def test_expected_workers_are_told(settings, echo):
    settings.EXPECTED_WORKERS = 3
    assert (await scrape()).value("parley_processes_expected", kind="worker") == 3.0


# Several processes

COUNT = """
from parley.telemetry import metrics
metrics.REQUESTS["a2a", "200"].inc()
metrics.REQUEST_SECONDS["a2a"].observe(0.2)
metrics.STREAMS["a2a"].inc()
"""
TELL = COUNT + "print(metrics.exposition('')[0].decode())"


def test_processes_with_a_folder_count_together(tmp_path):
    def run(code):
        environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(ROOT / "platform")}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    run(COUNT)
    text = run(TELL)
    assert 'parley_requests_total{code="200",edge="a2a"} 2.0' in text
    assert 'parley_request_duration_seconds_count{edge="a2a"} 2.0' in text
    assert 'parley_open_streams{edge="a2a"} 1.0' in text


def test_workers_tell_metrics_at_their_own_port(settings, caplog):
    settings.METRICS_PORT, settings.METRICS_TOKEN = free_port(), "secret"
    url = f"http://127.0.0.1:{settings.METRICS_PORT}/metrics"
    operators_jobs.listen()
    operators_jobs.listen()
    assert "cannot listen" in caplog.text, "a taken port stops nothing"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert b"parley_active_runs" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url, timeout=20)
