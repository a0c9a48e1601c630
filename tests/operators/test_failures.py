"""Failed runs are grouped by reason and agent, and operators mute and assign groups."""

from __future__ import annotations

import datetime
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.audit_models import AuditEntry
from apps.analytics import rollup
from apps.operators.dashboard.failures import FIRST_ROWS, Failures
from apps.operators.models import FailureGroup
from tests.analytics import worlds
from tests.analytics.worlds import ago, make_run

pytestmark = pytest.mark.django_db
ADD = "admin:operators_failuregroup_add"
DAY = datetime.timedelta(days=1)


@pytest.fixture
def failed(ada, echo, countdown):
    """Three groups, counted; and one more failure since."""
    known = {"state": "failed"}
    for agent, code, minutes in (
        (echo, "timed_out", (600, 300, 60)), (echo, "handler_error", (50, 40)), (countdown, "timed_out", (30,)),
    ):  # fmt: skip
        for one in minutes:
            make_run(ada, agent, ago(minutes=one), error={"code": code}, **known)
    rollup.keep_up()
    return make_run(ada, echo, ago(seconds=5), error={"code": "timed_out"}, **known)


def shown(client, **query):
    return client.get(reverse("admin:index", query=query)).context["figures"].failures


def groups(client, **query) -> list[tuple[str, str]]:
    return [(row[0], re.sub("<.*?>", "", row[1])) for row in shown(client, **query).rows]


def test_groups_have_count_times_and_their_runs(admin_client, failed):
    assert groups(admin_client) == [("timed_out", "Echo"), ("handler_error", "Echo"), ("timed_out", "Countdown")]
    [number, first, last] = shown(admin_client).rows[0][2:5]
    [link] = re.findall('href="([^"]+)"', number)
    rows = admin_client.get(link.replace("&amp;", "&")).context["cl"]
    assert (rows.result_count, ">4</a>" in number) == (4, True)
    assert moment(last) == failed.finished_at
    assert ago(hours=10, minutes=6) < moment(first) <= ago(hours=10)


def test_muted_groups_are_hidden_and_counted(admin_client, failed, ada, echo):
    values = {"reason": "timed_out", "agent": echo.pk, "is_muted": "on"}
    assert admin_client.post(reverse(ADD), values)["Location"].endswith("/admin/#part-reasons")
    assert groups(admin_client) == [("handler_error", "Echo"), ("timed_out", "Countdown")]
    assert "1 muted" in shown(admin_client).note
    assert groups(admin_client, failures="muted") == [("timed_out", "Echo")]
    assert len(groups(admin_client, failures="all")) == 3
    make_run(ada, echo, ago(seconds=5), state="failed", error={"code": "new_reason"})
    assert ("new_reason", "Echo") in groups(admin_client)
    group = FailureGroup.objects.get()
    assert LogEntry.objects.filter(object_id=str(group.pk)).exists()
    assert AuditEntry.objects.latest("number").object_key == str(group.pk)


def test_mute_ends_at_its_time(admin_client, failed, echo):
    until = timezone.now() + DAY
    times = {"muted_until_0": f"{until:%Y-%m-%d}", "muted_until_1": f"{until:%H:%M}"}
    values = {"reason": "timed_out", "agent": echo.pk, **times}
    assert "muted_until" in admin_client.post(reverse(ADD), values).context["adminform"].form.errors, "not marked"
    admin_client.post(reverse(ADD), {**values, "is_muted": "on"})
    assert ("timed_out", "Echo") not in groups(admin_client)
    FailureGroup.objects.update(muted_until=timezone.now())
    assert ("timed_out", "Echo") in groups(admin_client)
    late = {**values, "is_muted": "on", "agent": echo.pk, "reason": "handler_error", "muted_until_0": "2020-01-01"}
    assert "muted_until" in admin_client.post(reverse(ADD), late).context["adminform"].form.errors


def test_groups_are_assigned_after_their_mute(admin_client, admin_user, failed, echo):
    group = FailureGroup.objects.create(reason="timed_out", agent=echo, is_muted=True, muted_until=timezone.now() - DAY)
    address = reverse("admin:operators_failuregroup_change", args=[group.pk])
    form = admin_client.get(address).context["adminform"].form
    assert (form.initial["is_muted"], form.initial["muted_until"]) == (False, None)
    assert admin_client.post(address, {"assignee": admin_user.pk}).status_code == 302
    group.refresh_from_db()
    assert (group.assignee, group.is_muted, group.muted_until) == (admin_user, False, None)


def test_failures_are_timed_to_five_minutes(admin_client, ada, echo):
    at = worlds.hour_of(ago(hours=3)) + datetime.timedelta(minutes=56)
    make_run(ada, echo, at, state="failed", error={"code": "timed_out"})
    rollup.keep_up()
    for chosen in ("24h", "7d", "30d"):
        [first, last] = [moment(cell) for cell in shown(admin_client, range=chosen).rows[0][3:5]]
        assert first == last == at - datetime.timedelta(minutes=1), chosen


def moment(cell) -> datetime.datetime:
    return datetime.datetime.fromisoformat(re.search('datetime="([^"]+)"', cell)[1])


def test_operators_find_what_is_assigned_to_them(admin_client, admin_user, failed, countdown, ada):
    values = {"reason": "timed_out", "agent": countdown.pk, "assignee": ada.pk}
    assert "assignee" in admin_client.post(reverse(ADD), values).context["adminform"].form.errors, "no operator"
    admin_client.post(reverse(ADD), {**values, "assignee": admin_user.pk})
    assert groups(admin_client, failures="mine") == [("timed_out", "Countdown")]
    assert shown(admin_client, failures="mine").rows[0][5] == admin_user
    assert "failures=mine" in shown(admin_client).note
    assert "already" in admin_client.post(reverse(ADD), values | {"assignee": admin_user.pk}).text


def test_failures_show_only_what_one_may_view(operator_with, failed, echo):
    FailureGroup.objects.create(reason="timed_out", agent=echo, is_muted=True)
    runs = shown(operator_with("view_run"))
    assert [row[0] for row in runs.rows] == ["timed_out", "handler_error"]
    assert "Echo" not in str(runs.rows)
    assert len(groups(operator_with("view_run", "view_agent"))) == 3, "they may not know of the mute"
    viewer = operator_with("view_run", "view_agent", "view_failuregroup")
    assert "Mute" not in str(shown(viewer, failures="all").rows)
    assert viewer.post(reverse(ADD), {"reason": "x", "agent": echo.pk}).status_code == 403


def test_many_groups_cost_no_more_queries(admin_client, failed, ada, echo):
    def queries(**query):
        with CaptureQueriesContext(connection) as captured:
            table = shown(admin_client, **query)
        return len(captured), len(table.rows)

    few, _ = queries()
    for number in range(2 * FIRST_ROWS):
        make_run(ada, echo, ago(minutes=9), state="failed", error={"code": f"reason_{number}"})
        FailureGroup.objects.create(reason=f"reason_{number}", agent=echo)
    rollup.keep_up()
    assert queries() == (few, FIRST_ROWS)
    assert "failures=open" in shown(admin_client).note
    assert "failures=open" not in shown(admin_client, failures="open").note
    assert queries(failures="all") == (few, 2 * FIRST_ROWS + 3)
    assert queries(failures="nonsense") == (few, FIRST_ROWS)
    assert set(Failures.CHOICES) == {"open", "mine", "muted", "all"}
