"""The dashboard says what is wrong now, to those who may know it, and leads to what to do."""

from __future__ import annotations

import datetime
import re
from collections import namedtuple
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.agents.models import Agent
from apps.engine import accept
from apps.engine.activity import set_activity_of_all
from apps.engine.worker import Load
from apps.housekeeping import processes
from apps.housekeeping.models import Backup, PeriodicJob, ServerProcess
from apps.installation.models import Activity
from apps.operators.doctor import CHECKS, State, configuration
from apps.record.execution import Run
from apps.remote.models import Breaker, Checkup, RemoteAgent

pytestmark = pytest.mark.django_db
Usage = namedtuple("Usage", "total used free")
BANNER = re.compile(r'id="banner-([\w-]+)-(warning|problem)".*?<p class="banner-links">(.*?)</p>', re.DOTALL)
ALL = {
    "disk": "problem", "workers": "problem", "beat": "problem", "versions": "warning", "periodic-jobs": "warning",
    "backups": "problem", "queue": "problem", "all-agents": "warning", "paused-agents": "warning",
    "remote-agents": "problem", "changed-cards": "warning",
}  # fmt: skip


def banners(client) -> dict[str, tuple[str, list[str]]]:
    """State and links by name."""
    page = client.get(reverse("operators:dashboard-parts"))
    assert page.status_code == 200
    return {
        name: (state, [unescape(one) for one in re.findall('href="([^"]+)"', links)])
        for name, state, links in BANNER.findall(page.text)
    }


@pytest.fixture
def all_is_well(monkeypatch):
    for kind in ServerProcess.Kind:
        processes.note_heartbeat(kind, Load(busy=0, waiting=0, capacity=200))
    monkeypatch.setattr(configuration.shutil, "disk_usage", lambda _: Usage(10**12, 0, 10**12))


@pytest.fixture
def all_is_wrong(monkeypatch, ada, echo, countdown, said):
    now, long_ago = timezone.now(), timezone.now() - datetime.timedelta(days=2)
    monkeypatch.setattr(configuration.shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 0))
    accept.accept(ada.principal, echo, said("waits"))
    Run.objects.update(queued_at=long_ago)
    PeriodicJob.objects.create(name="engine.sweep", has_failed=True, problem="It broke.")
    Backup.objects.create(place="/backups", name="old", state=Backup.State.COMPLETE, started_at=long_ago)
    Agent.objects.filter(pk=countdown.pk).update(activity=Activity.PAUSED)
    version = echo.current_version
    known = {"kind": Agent.Kind.REMOTE, "workspace": echo.workspace, "current_version": version}
    for slug, health in (("away", Agent.Health.UNAVAILABLE), ("failing", Agent.Health.OK), ("well", Agent.Health.OK)):
        agent = Agent.objects.create(slug=slug, name=slug, description="", health=health, **known)
        RemoteAgent.objects.create(agent=agent, proposed=version if slug == "well" else None)
        Checkup.objects.create(agent=agent)
    Breaker.objects.create(agent=Agent.objects.get(slug="failing"), opened_at=now, retry_at=now)
    processes.note_heartbeat(ServerProcess.Kind.WORKER)
    ServerProcess.objects.update(version="0.0.1", kind="other")


def test_nothing_is_said_while_all_is_well(admin_client, all_is_well):
    assert banners(admin_client) == {}


def test_banners_lead_to_rows_and_advice(admin_client, all_is_wrong):
    """That all agents are paused holds the queue back, so it is tried afterwards."""
    found = banners(admin_client)
    set_activity_of_all(Activity.PAUSED, None)
    found |= banners(admin_client)
    assert {name: state for name, (state, _) in found.items()} == ALL
    assert {check.name.replace(" ", "-") for check in CHECKS if check.watch} == ALL.keys()
    for name, (_, links) in found.items():
        pages = [admin_client.get(link, follow=True) for link in links]
        assert [page.status_code for page in pages] == [200] * len(pages), name
        assert "/admin/manual/" in links[-1]
    counts = {"queue": 1, "backups": 1, "paused-agents": 1, "remote-agents": 2, "changed-cards": 1}
    rows = {name: admin_client.get(found[name][1][0]).context["cl"].result_count for name in counts}
    assert rows == counts


def test_banners_show_only_what_one_may_view(operator_with, all_is_wrong):
    assert banners(operator_with()) == {}
    assert banners(operator_with("view_run")).keys() == {"queue"}
    [advice] = banners(operator_with("view_serverprocess"))["workers"][1]
    assert "/manual/" in advice, "no list that they may not see"
    assert len(banners(operator_with("view_serverprocess", "view_periodicjob"))["workers"][1]) == 2


def test_missing_workers_have_their_own_runbook(admin_client, all_is_well, settings):
    settings.EXPECTED_WORKERS = 2
    [(state, links)] = banners(admin_client).values()
    assert (state, links[-1].endswith("runbooks/workers-missing.md")) == ("warning", True)


def test_unknown_backups_are_no_banner(admin_client, all_is_well):
    check = next(one for one in CHECKS if one.name == "backups")
    assert check.found(None).state == State.WARNING
    assert not banners(admin_client)


def test_broken_check_leaves_the_dashboard_whole(admin_client, all_is_well, monkeypatch):
    def broken(_):
        raise OSError("the folder is away")

    monkeypatch.setattr(configuration.shutil, "disk_usage", broken)
    assert banners(admin_client)["disk"][0] == "problem"


def test_operators_read_the_manual(admin_client, client, operator_with):
    address = reverse("operators:manual", args=["runbooks/remote-agent-down.md"])
    assert client.get(address).status_code == 302
    assert "Approve changed card" in operator_with().get(address).text
    page = admin_client.get(reverse("operators:manual", args=["operating.md"])).text
    assert 'id="pause-drain-and-resume"' in page
    assert 'href="../reliability.md' not in page, "it is not installed"
    for path in ("../../README.md", "nothing.md", "runbooks", "%2e%2e/architecture.md"):
        assert admin_client.get(f"/admin/manual/{path}").status_code == 404, path
