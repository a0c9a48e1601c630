"""Operators inspect, start and pause plans and runs; read-only operators cannot act."""

from __future__ import annotations

import re
import uuid

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.plans.models import PlanRun, Step
from apps.plans.runs import begin_run
from apps.record.models import Message, Task

pytestmark = pytest.mark.django_db

STEPS = {
    "first": {"agent": "loud", "title": "The first", "message": "{{ inputs.city }}"},
    "second": {"agent": "counting", "title": "The second", "message": "{{ steps.first.text }}"},
}
INPUTS = {
    "type": "object",
    "required": ["city"],
    "properties": {
        "city": {"type": "string", "title": "Where to?", "minLength": 3},
        "days": {"type": "integer", "default": 3},
        "by": {"type": "string", "enum": ["rail", "boat"]},
        "stops": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.fixture
def trip(plan) -> Agent:
    return plan(STEPS, inputs=INPUTS)


@pytest.fixture
def run(ada, trip, said) -> PlanRun:
    parts = [{"text": "go"}, {"data": {"city": "Lisbon"}}]
    task = Task.objects.get(pk=accept.accept(ada.principal, trip, said(parts=parts)).task)
    begin_run(task, trip.current_version)
    child = accept.accept(ada.principal, Agent.objects.get(slug="loud"), said(), parent=task.pk)
    running = {"state": "running", "task": child.task, "started_at": timezone.now(), "agent": "loud", "attempt": 1}
    Step.objects.filter(run=task.pk, key="first").update(**running)
    return PlanRun.objects.get(pk=task.pk)


@pytest.fixture
def looker(client) -> User:
    user = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_plan", "view_planrun", "view_task"]))
    client.force_login(user)
    return user


def page_of(row, view="change") -> str:
    return reverse(f"admin:plans_{row._meta.model_name}_{view}", args=[row.pk])


def plan_page(agent: Agent, view="change") -> str:
    return reverse(f"admin:plans_plan_{view}", args=[agent.pk])


def press(client, run: PlanRun, button: str, **more: str):
    """Fetch the confirmation, then send it."""
    address = page_of(run, button)
    assert 'id="dialog"' in client.get(address).text
    return client.post(address, {"_form_submitted": "True", **more})


def told(client, run: PlanRun) -> str:
    return " ".join(str(message) for message in client.get(page_of(run)).context["messages"])


def given(**fields: str) -> dict[str, str]:
    filled = {f"input-{name}": value for name, value in fields.items()}
    return {"text": "", "key": str(uuid.uuid4()), **filled}


def test_plans_and_runs_are_listed_and_a_plans_page_has_its_picture_and_its_definition(admin_client, run, trip):
    shown = admin_client.get(reverse("admin:plans_plan_changelist")).text
    assert plan_page(trip) in shown
    assert plan_page(Agent.objects.get(slug="loud")) not in shown
    shown = admin_client.get(reverse("admin:plans_planrun_changelist")).text
    assert page_of(run) in shown
    assert "ada@example.org" in shown
    shown = admin_client.get(plan_page(trip)).text
    assert 'class="graph plan-graph"' in shown
    assert "{{ inputs.city }}" in shown


def test_runs_tasks_and_agents_lead_to_each_other(admin_client, run, trip, ada, echo, said):
    def task_page(key):
        return reverse("admin:record_task_change", args=[key])

    shown = admin_client.get(page_of(run)).text
    child = Step.objects.get(run=run, key="first").task
    assert 'id="plan-step-first"' in shown
    assert 'id="gantt-box"' in shown
    assert "It waits for “The first”." in shown
    assert shown.count(task_page(child.pk)) >= 3
    assert task_page(run.pk) in shown
    for task in (run.pk, child.pk):
        assert page_of(run) in admin_client.get(task_page(task)).text
    other = accept.accept(ada.principal, echo, said()).task
    assert not re.search(r"plans/planrun/[0-9a-f]{8}", admin_client.get(task_page(other)).text)
    for agent in (trip, echo):
        leads = reverse("admin:agents_agent_show_plan", args=[agent.pk])
        shown = admin_client.get(reverse("admin:agents_agent_change", args=[agent.pk])).text
        assert (leads in shown) == (agent == trip)
    assert admin_client.get(reverse("admin:agents_agent_show_plan", args=[trip.pk]))["Location"] == plan_page(trip)


def test_a_plan_is_started_in_the_operators_name_once(admin_client, admin_user, trip):
    form = admin_client.get(plan_page(trip, "start")).context["form"]
    assert list(form.fields) == ["input-city", "input-days", "input-by", "input-stops", "text", "key"]
    assert (form.fields["input-city"].label, form.fields["input-days"].initial) == ("Where to?", 3)
    body = given(city="Lisbon", days="5", by="rail", stops='["Porto"]')
    for _ in range(2):
        answer = admin_client.post(plan_page(trip, "start"), body)
    task = Task.objects.get()
    assert answer["Location"] == reverse("admin:record_task_change", args=[task.pk])
    assert (task.owner, task.agent) == (admin_user, trip)
    [part] = Message.objects.get().parts
    assert part == {"data": {"city": "Lisbon", "days": 5, "by": "rail", "stops": ["Porto"]}}


def test_what_cannot_be_is_said_at_its_field_and_nothing_is_begun(admin_client, trip):
    stops = ("{", "[1]", "[NaN]", "[1e999]", r'["\u0000"]', "[" * 100_000, "[" * 5000 + "]" * 5000)
    wrong = [("city", ""), ("city", "Ur"), ("days", "many"), ("by", "air"), *(("stops", text) for text in stops)]
    for field, value in wrong:
        answer = admin_client.post(plan_page(trip, "start"), given(**{"city": "Lisbon", field: value}))
        assert list(answer.context["form"].errors) == [f"input-{field}"], (field, value[:20])
    answer = admin_client.post(plan_page(trip, "start"), given(city="", stops='[ "Porto"]'))
    assert "[ &quot;Porto&quot;]" in answer.text, "JSON is shown again as it was written"
    assert not Task.objects.exists()


def test_a_plan_that_is_not_open_to_the_operator_is_not_begun(admin_client, admin_user, trip):
    User.objects.filter(pk=admin_user.pk).update(is_superuser=False)
    admin_user.user_permissions.set(Permission.objects.filter(codename__in=["view_plan", "add_planrun"]))
    Agent.objects.filter(pk=trip.pk).update(access="groups")
    answer = admin_client.post(plan_page(trip, "start"), given(city="Lisbon"))
    assert "There is no such agent, or you may not use it." in answer.text
    assert not Task.objects.exists()


def test_an_address_that_names_no_run_leads_to_nothing(admin_client):
    for wrong in ("nothing", str(uuid.UUID(int=1))):
        address = reverse("admin:plans_planrun_again", args=[wrong])
        for answer in (admin_client.get(address), admin_client.post(address, {"_form_submitted": "True", "step": "a"})):
            assert answer.status_code < 500
    assert not Task.objects.exists()


def test_a_run_is_paused_resumed_and_canceled(admin_client, run):
    assert press(admin_client, run, "pause")["HX-Redirect"] == page_of(run)
    run.refresh_from_db()
    assert run.paused_at
    assert "Paused." in told(admin_client, run)
    shown = admin_client.get(page_of(run)).text
    assert page_of(run, "resume") in shown
    assert page_of(run, "pause") not in shown
    press(admin_client, run, "resume")
    run.refresh_from_db()
    assert run.paused_at is None
    press(admin_client, run, "cancel")
    run.task.refresh_from_db()
    assert run.task.state == "canceled"
    press(admin_client, run, "cancel")
    assert "Nothing was changed" in told(admin_client, run)


def test_a_run_that_is_over_is_run_again_from_a_step_for_its_owner(admin_client, run, ada):
    press(admin_client, run, "again", step="first")
    assert "was not repeated" in told(admin_client, run)
    press(admin_client, run, "cancel")
    dialog = admin_client.get(page_of(run, "again")).context["form"]
    assert dialog.fields["step"].choices == [("first", "The first"), ("second", "The second")]
    press(admin_client, run, "again", step="second")
    again = Task.objects.exclude(pk=run.pk).get(agent=run.task.agent)
    assert again.owner == ada
    said = Message.objects.get(task=again)
    assert said.metadata["planRun"] == {"continues": str(run.pk), "from": "second"}
    assert "Running again as task" in told(admin_client, run)


def test_who_may_only_look_sees_no_button_and_may_press_none(client, looker, run, trip, ada):
    shown = client.get(page_of(run)).text
    assert 'id="plan-step-first"' in shown
    for button in ("pause", "resume", "cancel", "again"):
        assert page_of(run, button) not in shown
        assert client.post(page_of(run, button), {"_form_submitted": "True"}).status_code == 403
    assert plan_page(trip, "start") not in client.get(plan_page(trip)).text
    assert client.post(plan_page(trip, "start"), given(city="Lisbon")).status_code == 403
    run.task.refresh_from_db()
    assert (run.task.state, Task.objects.filter(agent=trip).count()) == ("submitted", 1)
    client.force_login(ada)
    for address in (page_of(run), plan_page(trip), plan_page(trip, "start")):
        assert "/admin/login" in client.get(address)["Location"]


def test_a_page_takes_as_many_questions_of_the_database_however_many_steps_there_are(admin_client, run):
    admin_client.get(page_of(run))
    with CaptureQueriesContext(connection) as few:
        admin_client.get(page_of(run))
    Step.objects.bulk_create([Step(run=run, key="second", item=item, state="waiting") for item in range(60)])
    with CaptureQueriesContext(connection) as many:
        assert "60 items" in admin_client.get(page_of(run)).text
    assert len(many) == len(few)


ADD = "/admin/plans/plan/add/"
SHOUT = """
name: Shout
description: Shouts.
steps:
  shout:
    agent: loud
    message: "{{ inputs.text }}"
"""


def fields(**given):
    return {"slug": "shout", "is_enabled": "on", "access": "authenticated", "definition": SHOUT, "base": "", **given}


def errors_of(page) -> dict[str, list[str]]:
    assert page.status_code == 200
    return dict(page.context["adminform"].form.errors)


@pytest.fixture
def editor(looker) -> User:
    looker.user_permissions.add(
        *Permission.objects.filter(codename__in=["add_plan", "change_plan", "view_agentversion"])
    )
    return looker


def test_a_plan_is_added_for_everybody_and_each_change_is_a_version(client, agents, editor):
    shown = client.get(ADD)
    assert (shown.status_code, "steps:" in shown.text) == (200, True)
    assert client.post(ADD, fields()).status_code == 302
    plan = Agent.objects.get(slug="shout")
    assert (plan.kind, plan.name, plan.access, plan.workspace.personal_of_id) == (
        "plan",
        "Shout",
        "authenticated",
        None,
    )
    assert (plan.current_version.number, plan.current_version.author) == (1, editor)
    address = f"/admin/plans/plan/{plan.pk}/change/"
    assert 'id="plan-step-shout"' in client.get(address).text, "its picture"
    louder = fields(definition=SHOUT.replace("Shouts.", "Shouts louder."), base="1", note="Louder", access="public")
    assert client.post(address, louder).status_code == 302
    plan.refresh_from_db()
    newest = plan.current_version
    assert (plan.description, plan.access, newest.number, newest.note) == ("Shouts louder.", "public", 2, "Louder")
    stale = client.post(address, louder)
    assert "Version 2 was saved while you were editing." in errors_of(stale)["__all__"][0]
    assert f"agent__id__exact={plan.pk}" in client.get(f"/admin/plans/plan/{plan.pk}/versions/")["Location"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (SHOUT.replace("agent: loud", "agent: nobody"), "Line 6, steps.shout.agent: There is no agent `nobody`"),
        (SHOUT + "    retries: 50\n", "Line 8, steps.shout.retries: "),
        (SHOUT + "outputs: [whisper]\n", "Line 8, outputs.0: "),
        (SHOUT + "  x: [", "line 8"),
        ("just words", "Write a mapping"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_by_its_line_and_nothing_is_saved(client, agents, editor, written, said):
    page = client.post(ADD, fields(definition=written))
    assert said in " ".join(errors_of(page)["definition"])
    assert not Agent.objects.filter(slug="shout").exists()


@pytest.mark.parametrize("slug", ["counting", "new", "No slug", ""])
def test_a_plan_gets_no_name_that_is_taken_or_unfit(client, agents, editor, slug):
    before = Agent.objects.count()
    assert "slug" in errors_of(client.post(ADD, fields(slug=slug)))
    assert Agent.objects.count() == before


def test_who_only_looks_adds_and_changes_no_plan(client, looker, trip):
    address = f"/admin/plans/plan/{trip.pk}/change/"
    assert client.get(ADD).status_code == client.post(ADD, fields()).status_code == 403
    assert client.get(address).status_code == 200
    assert client.post(address, fields(base="1")).status_code == 403
    assert trip.versions.count() == 1
