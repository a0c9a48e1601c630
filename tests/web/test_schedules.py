"""A person's schedules in the browser."""

import uuid

import pytest

from apps.automation import schedules
from apps.automation.models import Schedule, ScheduledRun
from apps.record.models import Task
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures

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
    assert [one.pk for one in ada_browser.get("/schedules").context["rows"]] == [schedule.pk]


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
        ({"kind": "interval"}, "every_seconds"),
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


PLAN_INPUTS = {
    "type": "object",
    "required": ["city"],
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 9}, "map": {"format": "binary"}},
}


@pytest.fixture
def trip(echo, plan):  # noqa: F811
    return plan({"one": {"agent": "echo", "message": "{{ inputs.city }}"}}, slug="trip", inputs=PLAN_INPUTS)


def shown_fields(response):
    return [(field.name, field.default_text, bool(problem)) for field, problem in response.context["form"].shown_inputs]


def test_a_plans_inputs_are_fields_that_come_back_as_they_were_saved(ada_browser, trip):
    filled = {**FIELDS, "agent": "trip", "text": "", "answers": "1", "answer-city": "Oslo", "answer-days": "3"}
    for address in ("/schedules/new?agent=trip", "/schedules/inputs?agent=trip"):
        assert shown_fields(ada_browser.get(address)) == [("city", "", False), ("days", "", False)]
    made = ada_browser.post("/schedules/new", filled)["Location"]
    assert Schedule.objects.get().inputs == {"city": "Oslo", "days": 3}
    assert shown_fields(ada_browser.get(f"{made}/edit")) == [("city", "Oslo", False), ("days", "3", False)]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [({}, "city"), ({"answer-city": "Oslo", "answer-days": "10"}, "days"), ({"answers": "", "inputs": "{}"}, "city")],
)
def test_a_plans_wrong_input_is_refused_at_its_field_and_the_others_stay_filled_in(ada_browser, trip, given, wrong):
    refused = ada_browser.post("/schedules/new", {**FIELDS, "agent": "trip", "answers": "1", **given})
    shown = shown_fields(refused)
    assert [name for name, _, is_wrong in shown if is_wrong] == [wrong]
    assert dict(shown_value[:2] for shown_value in shown)["city"] == given.get("answer-city", "")
    assert not Schedule.objects.exists()


def test_an_agent_gets_data_as_json_and_nothing_tells_of_agents_that_one_may_not_use(ada_browser, bob_browser, echo):
    assert not shown_fields(ada_browser.get("/schedules/inputs?agent=echo"))
    unknown, foreign = bob_browser.get("/schedules/inputs?agent=nobody"), bob_browser.get("/schedules/inputs?agent=%00")
    assert (unknown.status_code, unknown.content) == (200, foreign.content)
    ada_browser.post("/schedules/new", {**FIELDS, "inputs": '{"topic": "energy"}'})
    assert Schedule.objects.get().inputs == {"topic": "energy"}


def test_the_form_shows_the_next_runs_before_it_is_complete(ada_browser):
    shown = ada_browser.post("/schedules/preview", {"kind": "interval", "every_seconds": 30, "time_zone": "UTC"})
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


def test_only_listed_agents_are_offered(ada_browser, made, echo):
    echo.listed = False
    echo.save()
    assert list(ada_browser.get("/schedules/new").context["form"].fields["agent"].queryset) == []
    assert list(ada_browser.get(f"/schedules/{made.pk}/edit").context["form"].fields["agent"].queryset) == [echo]


def test_fields_of_other_kinds_do_not_count(ada_browser, echo):
    hidden = {"kind": "interval", "every_seconds": "90", "cron": "never", "at": ""}
    ada_browser.post("/schedules/new", FIELDS | hidden)
    assert (Schedule.objects.get().every_seconds, Schedule.objects.get().cron) == (5400, "")


def test_inputs_that_are_taken_away_are_gone(ada_browser, echo):
    made = ada_browser.post("/schedules/new", {**FIELDS, "inputs": '{"topic": "energy"}'})["Location"]
    ada_browser.post(f"{made}/edit", {**FIELDS, "inputs": ""})
    assert Schedule.objects.get().inputs == {}


def test_a_link_offers_an_agent_that_is_not_listed(ada_browser, echo):
    echo.listed = False
    echo.save()
    ada_browser.post("/schedules/new?agent=echo", FIELDS)
    assert Schedule.objects.get().agent == echo


def test_an_interval_of_seconds_stays_as_it_is(ada_browser, ada, echo, settings):
    about = {"name": "Often", "agent": echo, "text": "Hello", "kind": "interval", "every_seconds": 90}
    address = f"/schedules/{schedules.save(ada.principal, Schedule(**about)).pk}/edit"
    minutes = ada_browser.get(address).context["form"]["every_seconds"].value()
    ada_browser.post(address, {**FIELDS, "kind": "interval", "every_seconds": minutes})
    assert Schedule.objects.get().every_seconds == 90


def test_a_zone_that_is_no_more_is_no_server_error(ada_browser, made):
    Schedule.objects.update(time_zone="Nowhere/Gone")
    for address in ("", "/edit"):
        assert ada_browser.get(f"/schedules/{made.pk}{address}").status_code == 200
