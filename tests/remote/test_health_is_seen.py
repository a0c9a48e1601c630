"""Operators see a remote agent's health in detail, people as a sentence, rankings as a rank."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

import db as database
from apps.agents.models import Agent
from apps.agents.negotiation import WorkRequest
from apps.features.routing import ranking
from apps.remote import circuit_breaker, health_checks
from apps.remote.errors import CircuitOpen, Unreachable
from apps.remote.models import Check, Checkup, RemoteAgent
from apps.remote.probes import Finding
from tests.remote.registered import remote_agent

pytestmark = pytest.mark.django_db

CHECKUPS = "admin:remote_checkup_changelist"
CHECKUP = "admin:remote_checkup_change"
LOOK_AFTER = "admin:remote_checkup_health"


@pytest.fixture
def far(db):
    agent = remote_agent("far")
    for error in ("", "", "far.invalid did not <b>answer</b> in time.", ""):
        Checkup.objects.update(next_check_at=timezone.now() - timedelta(seconds=1))
        [one] = health_checks.claim_rounds(10)
        health_checks.record_round(one, [Finding(Check.Kind.CARD, 40, error, answers=not error)])
    return agent


@pytest.fixture
def broken(far, settings):
    settings.REMOTE_BREAKER_FAILURES = 2
    for _ in range(2):
        circuit_breaker.record_failure(far, Unreachable("far.invalid cannot be reached."))
    return far


def page_of(client, agent):
    answer = client.get(reverse(CHECKUP, args=[agent.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_operators_see_uptime_latency_and_the_last_error(admin_client, far):
    page = page_of(admin_client, far)
    assert page.count("75.0 %") == 2
    assert "40 ms" in page
    assert "far.invalid did not &lt;b&gt;answer&lt;/b&gt; in time." in page
    assert "closed: calls go through" in page
    assert "4 checks, oldest first; 1 failed, the slowest of the others took 40 ms" in page
    assert page.count("fetched its card") == 4


def test_operators_see_an_open_breaker_and_close_it(admin_client, broken):
    page = page_of(admin_client, broken)
    assert "open: no call goes through" in page
    assert "Calls to it failed again and again, so it is left alone for a while. far.invalid cannot be reached." in page
    with pytest.raises(CircuitOpen):
        circuit_breaker.admit(broken)
    answer = admin_client.post(reverse(LOOK_AFTER, args=[broken.pk]), {"do": "close"}, follow=True)
    assert "Calls to Far are allowed again." in answer.content.decode()
    circuit_breaker.admit(broken)
    broken.refresh_from_db()
    assert broken.health == "ok"
    circuit_breaker.record_failure(broken, Unreachable("far.invalid cannot be reached."))
    circuit_breaker.record_failure(broken, Unreachable("far.invalid cannot be reached."))
    remote = RemoteAgent.objects.get(agent=broken)
    page = admin_client.get(reverse("admin:remote_remoteagent_change", args=[remote.pk])).text
    assert "open: no call goes through" in page
    admin_client.post(reverse("admin:remote_remoteagent_health", args=[remote.pk]), {"do": "close"})
    circuit_breaker.admit(broken)


def test_operators_have_an_agent_checked_at_once_and_set_its_probe(admin_client, far):
    assert health_checks.claim_rounds(10) == []
    assert admin_client.get(reverse(LOOK_AFTER, args=[far.pk])).status_code == 405
    admin_client.post(reverse(LOOK_AFTER, args=[far.pk]), {"do": "check"})
    assert [one.agent for one in health_checks.claim_rounds(10)] == [far]
    assert admin_client.post(reverse(CHECKUP, args=[far.pk]), {"probe": "Are you there?"}).status_code == 302
    assert Checkup.objects.get(agent=far).probe == "Are you there?"


def test_who_may_only_look_changes_nothing(client, ada, broken):
    ada.is_staff = True
    ada.user_permissions.set(Permission.objects.filter(codename__in=["view_checkup", "view_agent"]))
    ada.save()
    client.force_login(ada)
    page = page_of(client, broken)
    assert "open: no call goes through" in page
    assert "Close the circuit breaker" not in page
    for what in ("check", "close"):
        assert client.post(reverse(LOOK_AFTER, args=[broken.pk]), {"do": what}).status_code == 403
    assert health_checks.claim_rounds(10) == []
    with pytest.raises(CircuitOpen):
        circuit_breaker.admit(broken)


def test_the_list_of_all_says_how_each_does_in_few_statements(admin_client, far, broken, django_assert_max_num_queries):
    for number in range(8):
        remote_agent(f"other-{number}")
    for one in health_checks.claim_rounds(20):
        health_checks.record_round(one, [Finding(Check.Kind.CARD, 40)])
    with django_assert_max_num_queries(16):
        page = admin_client.get(reverse(CHECKUPS)).content.decode()
    assert page.count("100 %") == 16
    assert "open: no call goes through" in page
    assert "<b>answer" not in page


def test_checks_are_listed_and_never_edited(admin_client, far):
    page = admin_client.get(reverse("admin:remote_check_changelist")).content.decode()
    assert "did not &lt;b&gt;answer" in page
    [*_, check] = Check.objects.all()
    assert admin_client.post(reverse("admin:remote_check_change", args=[check.pk]), {}).status_code == 403


def test_people_see_it_on_the_agents_page_and_the_agent_stays_listed(client, ada, broken):
    client.force_login(ada)
    for path in ("/agents", "/find"):
        page = client.get(path).text
        assert "Far" in page
        assert "Does not work now" in page
    page = client.get("/agents/far").text
    assert "Reachable 75.0 % of the last day, 75.0 % of the last 30 days." in page
    assert "Next try at" in page
    assert "far.invalid" not in page


async def ranked(principal):
    return [(one.agent.slug, one.accepted) for one in await ranking.rank_agents(principal, WorkRequest("talk"))]


@pytest.mark.django_db(transaction=True)
async def test_a_remote_agent_with_trouble_ranks_lower_and_one_that_is_away_stays_in_the_list(ada, far, settings):
    near = await database.run(
        remote_agent, "near", skills=[{"id": "t", "name": "Talk", "description": "Talks.", "tags": []}]
    )
    await database.run(Agent.objects.filter(pk=far.pk).update, skills=near.skills)
    assert await ranked(ada.principal) == [("far", True), ("near", True)]
    await database.run(Agent.objects.filter(pk=far.pk).update, health="degraded", updated_at=timezone.now())
    assert await ranked(ada.principal) == [("near", True), ("far", True)]
    settings.REMOTE_BREAKER_FAILURES = 1
    await database.run(circuit_breaker.record_failure, far, Unreachable("far.invalid cannot be reached."))
    assert await ranked(ada.principal) == [("near", True), ("far", False)]
