"""Which limits apply, and how soon a change counts."""

import pytest
from django.db import IntegrityError, transaction

from apps.accounts import quotas
from apps.accounts.models import ApiKey
from apps.accounts.quotas import QuotaExceeded
from apps.limits import current
from apps.limits.current import LimitExceeded
from apps.limits.models import Kind, Limit, Whose

pytestmark = pytest.mark.django_db
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
def key(ada):
    return ApiKey.issue(ada, "test")[0]


def refused(function, *args):
    with pytest.raises(LimitExceeded) as exceeded:
        function(*args)
    return exceeded.value


def test_the_tightest_of_all_that_apply_is_in_force(ada, workspace, key):
    Limit.objects.create(workspace=workspace, requests_per_minute=3)
    Limit.objects.create(api_key=key, requests_per_minute=1)
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


def test_anothers_requests_do_not_count(ada, bob, workspace):
    Limit.objects.create(workspace=workspace, requests_per_minute=1)
    current.count_request(ada.principal, HERE)
    current.count_request(bob.principal, HERE)
    assert refused(current.count_request, ada.principal, HERE)


def test_the_limit_of_a_caller_is_still_in_force(ada, settings):
    settings.REQUESTS_PER_MINUTE = 0
    with pytest.raises(QuotaExceeded):
        current.count_request(ada.principal, HERE)


def test_a_change_counts_at_once_and_unchanged_limits_are_not_read_again(ada, workspace, django_assert_num_queries):
    limit = Limit.objects.create(workspace=workspace, requests_per_minute=1)
    caller = ada.principal
    current.count_request(caller, HERE)
    limit.requests_per_minute = 2
    limit.save()
    current.count_request(caller, HERE)
    with django_assert_num_queries(0):
        refused(current.count_request, caller, HERE)
    limit.delete()
    current.count_request(caller, HERE)


def test_workspaces_without_limits_have_those_of_the_settings(ada, bob, workspace, settings):
    settings.WORKSPACE_LIMITS = {"open_streams": 1, "requests_per_minute": 0}
    Limit.objects.create(workspace=workspace, open_streams=2)
    for person, most in ((ada, 2), (bob, 1)):
        for _ in range(most):
            current.open_stream(person.principal, HERE)
        assert refused(current.open_stream, person.principal, HERE).limit == most
        current.count_request(person.principal, HERE)


def test_a_stream_that_ends_or_is_refused_makes_room(ada, echo):
    Limit.objects.create(agent=echo, open_streams=1)
    end = current.open_stream(ada.principal, HERE, echo.pk)
    for _ in range(3):
        assert refused(current.open_stream, ada.principal, HERE, echo.pk).whose is Whose.AGENT
    end()
    current.open_stream(ada.principal, HERE, echo.pk)()
    assert not quotas.stream_counter._open


def test_the_priority_of_a_key_comes_before_that_of_its_workspace(echo, workspace, key):
    Limit.objects.create(workspace=workspace, priority=Limit.Priority.LOW)
    Limit.objects.create(api_key=key, priority=Limit.Priority.HIGH)
    known = current.snapshot()
    assert known.priority(workspace.pk, str(key), echo.pk) == Limit.Priority.HIGH
    assert known.priority(workspace.pk, "", echo.pk) == Limit.Priority.LOW
    assert known.priority(workspace.pk + 1, "", echo.pk) == Limit.Priority.NORMAL


def test_a_limit_is_of_one_and_storage_is_of_a_workspace(workspace, echo):
    for wrong in ({}, {"workspace": workspace, "agent": echo}, {"agent": echo, "storage_bytes": 1}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Limit.objects.create(**wrong)


def test_refusals_are_counted(ada, workspace):
    from telemetry.metrics import REGISTRY

    def counted():
        labels = {"limit": Kind.STREAMS.value, "of": "workspace"}
        return REGISTRY.get_sample_value("parley_limits_reached_total", labels) or 0

    Limit.objects.create(workspace=workspace, open_streams=0)
    before = counted()
    refused(current.open_stream, ada.principal, HERE)
    assert counted() == before + 1
