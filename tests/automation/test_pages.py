"""A person's schedules and incoming webhooks in the browser: what is not of all resources."""

import json

import pytest

from apps.automation import incoming, schedules
from apps.automation.models import IncomingEvent, IncomingWebhook, Schedule
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures

pytestmark = pytest.mark.django_db
FIELDS = {
    "name": "Morning report", "agent": "echo", "text": "What is new?", "kind": "cron", "cron": "0 9 * * 1-5",
    "time_zone": "Europe/Berlin", "sessions": "new", "overlap": "skip", "catch_up": "last",
}  # fmt: skip


@pytest.fixture
def nightly(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    return schedules.save(ada.principal, Schedule(**about))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"time_zone": "Nowhere"}, "time_zone"),
        ({"inputs": "{"}, "inputs"),
        ({"inputs": "[1]"}, "inputs"),
    ],
)
def test_schedule_names_the_field_of_its_problem(ada_browser, echo, changed, field):
    assert list(ada_browser.post("/schedules/new", FIELDS | changed).context["form"].errors) == [field]
    assert not Schedule.objects.exists()


def test_project_is_chosen_among_those_that_one_sees(ada_browser, ada, bob, echo):
    own, theirs = (save(person.principal, Project(name="Trip")) for person in (ada, bob))
    assert ada_browser.post("/schedules/new", FIELDS | {"project": str(own.pk)}).status_code == 302
    assert Schedule.objects.get().project == own.pk
    refused = ada_browser.post("/schedules/new", FIELDS | {"project": str(theirs.pk)})
    assert list(refused.context["form"].errors) == ["project"]


class TestSchedules:
    INPUTS = {
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "maximum": 9},
            "map": {"format": "binary"},
        },
    }

    @pytest.fixture
    def trip(self, echo, plan):  # noqa: F811
        return plan({"one": {"agent": "echo", "message": "{{ inputs.city }}"}}, slug="trip", inputs=self.INPUTS)

    def shown(self, response) -> list[tuple[str, str, bool]]:
        fields = response.context["form"].shown_inputs
        return [(field.name, field.default_text, bool(problem)) for field, problem in fields]

    def test_inputs_of_a_plan_are_fields(self, ada_browser, trip):
        filled = {**FIELDS, "agent": "trip", "text": "", "answers": "1"}
        for address in ("/schedules/new?agent=trip", "/schedules/inputs?agent=trip"):
            assert self.shown(ada_browser.get(address)) == [("city", "", False), ("days", "", False)]
        for given, shown in [
            ({}, [("city", "", True), ("days", "", False)]),
            ({"answer-city": "Oslo", "answer-days": "10"}, [("city", "Oslo", False), ("days", "10", True)]),
        ]:
            assert self.shown(ada_browser.post("/schedules/new", filled | given)) == shown
        made = ada_browser.post("/schedules/new", filled | {"answer-city": "Oslo", "answer-days": "3"})["Location"]
        assert Schedule.objects.get().inputs == {"city": "Oslo", "days": 3}
        assert self.shown(ada_browser.get(f"{made}/edit")) == [("city", "Oslo", False), ("days", "3", False)]

    def test_inputs_of_an_agent_are_json(self, ada_browser, echo):
        assert not self.shown(ada_browser.get("/schedules/inputs?agent=echo"))
        made = ada_browser.post("/schedules/new", {**FIELDS, "inputs": '{"topic": "energy"}'})["Location"]
        assert Schedule.objects.get().inputs == {"topic": "energy"}
        ada_browser.post(f"{made}/edit", {**FIELDS, "inputs": ""})
        assert Schedule.objects.get().inputs == {}

    def test_preview_shows_the_next_runs(self, ada_browser):
        given = {"kind": "interval", "every_seconds": 30, "time_zone": "UTC"}
        assert len(ada_browser.post("/schedules/preview", given).context["next_runs"]) == 5
        assert ada_browser.post("/schedules/preview", given | {"kind": "cron", "cron": "x"}).context["problems"]

    def test_unlisted_agents_are_offered_by_a_link(self, ada_browser, nightly, echo):
        echo.listed = False
        echo.save()
        for address, offered in (("new", []), (f"{nightly.pk}/edit", [echo]), ("new?agent=echo", [echo])):
            form = ada_browser.get(f"/schedules/{address}").context["form"]
            assert list(form.fields["agent"].queryset) == offered, address

    def test_times_come_back_as_typed(self, ada_browser, nightly):
        for given, field, saved, shown in [
            ({"kind": "once", "at": "2030-07-01T09:30"}, "at", "2030-07-01 07:30:00+00:00", "2030-07-01 09:30:00"),
            ({"kind": "interval", "every_seconds": "1.5"}, "every_seconds", "90", "1.5"),
        ]:
            address = ada_browser.post("/schedules/new", FIELDS | {"cron": "never"} | given)["Location"]
            schedule = Schedule.objects.latest("created_at")
            assert (str(getattr(schedule, field)), schedule.cron) == (saved, "")
            assert str(ada_browser.get(f"{address}/edit").context["form"][field].value()) == shown
        assert len(ada_browser.get(address).context["next_runs"]) == 5
        Schedule.objects.update(time_zone="Nowhere/Gone")
        for one in (f"/schedules/{nightly.pk}", f"{address}/edit"):
            assert ada_browser.get(one).status_code == 200, "a lost zone is no error of the server"


class TestWebhooks:
    FIELDS = {"name": "Pull requests", "agent": "echo", "scheme": "github", "text": "Look at {{ body.title }}"}

    @pytest.fixture
    def made(self, ada, echo):
        return incoming.save(ada.principal, IncomingWebhook(name="Events", agent=echo, scheme="bearer", text="hello"))

    def test_problem_is_said_at_its_field(self, ada_browser, echo):
        for changed, field in (
            ({"text": "{{ body."}, "text"),
            ({"only_if": "=="}, "only_if"),
            ({"scheme": "x"}, "scheme"),
        ):
            assert list(ada_browser.post("/webhooks/new", self.FIELDS | changed).context["form"].errors) == [field]
        assert not IncomingWebhook.objects.exists()

    def test_secrets_are_shown_once(self, ada_browser, echo):
        shown = ada_browser.post("/webhooks/new", self.FIELDS)
        webhook = IncomingWebhook.objects.get()
        page = f"/webhooks/{webhook.pk}"
        assert (webhook.secret in shown.text, webhook.secret in ada_browser.get(page).text) == (True, False)
        for secret, kept in (("a-secret-of-the-sender", "a-secret-of-the-sender"), ("short", "a-secret-of-the-sender")):
            shown = ada_browser.post(f"{page}/act", {"do": "secret", "secret": secret})
            assert IncomingWebhook.objects.get().secret == kept
            assert (secret in shown.text) is (secret == kept)
        assert IncomingWebhook.objects.get().old_secret == webhook.secret

    @pytest.mark.django_db(transaction=True)
    def test_form_shows_what_a_sample_would_start(self, ada_browser, echo):
        def trial(**fields):
            return ada_browser.post("/webhooks/trial", {**self.FIELDS, "sample": '{"title": "<i>"}', **fields}).context

        assert trial()["filled"].text == "Look at <i>"
        assert trial(only_if="event.type == 'a'", sample_type="a")["filled"].text
        assert trial(only_if="event.type == 'a'")["filled"].ignored
        for wrong in ({"sample": "{"}, {"text": "{{ body.absent }}"}, {"text": "{{"}, {"agent": ""}, {"sample": "NaN"}):
            assert trial(**wrong)["problems"]
        assert not IncomingEvent.objects.exists()

    def test_events_are_shown_and_sent_again(self, ada_browser, made):
        event = incoming.receive(made, {"Idempotency-Key": "e1"}, {"title": "a"})
        ada_browser.post(f"/webhooks/{made.pk}/events/{event.pk}")
        assert IncomingEvent.objects.get(is_repeat=True).repeats == event
        incoming.receive(made, {}, json.loads("[" * 60 + "0," * 20_000 + "0" + "]" * 60))
        for address in ("", "/edit"):
            assert len(ada_browser.get(f"/webhooks/{made.pk}{address}").content) < 200_000
