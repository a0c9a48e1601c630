"""A person's schedules in the browser."""

import uuid

import pytest

from apps.automation import schedules
from apps.automation.models import Schedule, ScheduledRun
from apps.record.models import Task

pytestmark = pytest.mark.django_db(transaction=True)
FIELDS = {
    "name": "Morning report", "agent": "echo", "text": "What is new?", "kind": "cron", "cron": "0 9 * * 1-5",
    "time_zone": "Europe/Berlin", "overlap": "skip", "catch_up": "last",
}  # fmt: skip


@pytest.fixture
def made(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return schedules.save(ada.principal, Schedule(**about))


def errors(response):
    return response.context["form"].errors


def test_a_schedule_is_made_and_shown_with_its_next_runs(ada_browser, echo):
    saved = ada_browser.post("/schedules/new", FIELDS)
    schedule = Schedule.objects.get()
    assert saved["Location"] == f"/schedules/{schedule.pk}"
    assert (schedule.cron, schedule.time_zone, schedule.agent) == ("0 9 * * 1-5", "Europe/Berlin", echo)
    assert len(ada_browser.get(saved["Location"]).context["next_runs"]) == 5
    assert [one.pk for one in ada_browser.get("/schedules").context["schedules"]] == [schedule.pk]


def test_a_time_is_in_the_schedules_zone_and_comes_back_as_it_was_typed(ada_browser, echo):
    once = {**FIELDS, "kind": "once", "at": "2030-07-01T09:30", "cron": ""}
    address = ada_browser.post("/schedules/new", once)["Location"]
    assert Schedule.objects.get().at.isoformat() == "2030-07-01T07:30:00+00:00"
    assert str(ada_browser.get(f"{address}/edit").context["form"]["at"].value()) == "2030-07-01 09:30:00"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"cron": "often"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"kind": "interval"}, "minutes"),
        ({"kind": "once"}, "at"),
        ({"time_zone": "Nowhere"}, "time_zone"),
        ({"agent": "absent"}, "agent"),
        ({"text": ""}, "text"),
        ({"inputs": "{"}, "inputs"),
        ({"inputs": "[1]"}, "inputs"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_saved(ada_browser, echo, changed, field):
    assert list(errors(ada_browser.post("/schedules/new", FIELDS | changed))) == [field]
    assert not Schedule.objects.exists()


def test_the_form_shows_the_next_runs_before_it_is_complete(ada_browser):
    shown = ada_browser.post("/schedules/preview", {"kind": "interval", "minutes": 30, "time_zone": "UTC"})
    assert len(shown.context["next_runs"]) == 5
    assert ada_browser.post("/schedules/preview", {"kind": "cron", "cron": "x", "time_zone": "UTC"}).context["problems"]


def test_it_is_paused_resumed_run_and_deleted(ada_browser, made):
    address = f"/schedules/{made.pk}"
    ada_browser.post(f"{address}/act", {"do": "pause"})
    assert Schedule.objects.get().paused_at
    ada_browser.post(f"{address}/act", {"do": "resume"})
    assert Schedule.objects.get().paused_at is None
    ada_browser.post(f"{address}/act", {"do": "run"})
    assert ScheduledRun.objects.get().task == Task.objects.get()
    assert ada_browser.get(address).context["runs"][0].state == "started"
    ada_browser.post(f"{address}/act", {"do": "delete"})
    assert (Schedule.objects.count(), Task.objects.count()) == (0, 1)


def test_somebody_elses_is_not_found(bob_browser, made):
    for key in (made.pk, uuid.uuid4()):
        answers = [bob_browser.get(f"/schedules/{key}"), bob_browser.get(f"/schedules/{key}/edit")]
        answers.append(bob_browser.post(f"/schedules/{key}/act", {"do": "delete"}))
        assert [one.status_code for one in answers] == [404, 404, 404]
    assert Schedule.objects.exists()
