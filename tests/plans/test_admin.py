"""Operators inspect, start and pause plans and runs; read-only operators cannot act."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.plans.models import PlanRun, Step
from apps.plans.running.runs import begin_run
from apps.record.models import Message, Task

pytestmark = pytest.mark.django_db

STEPS = {
    "first": {"agent": "loud", "title": "The first", "message": "{{ inputs.city }}"},
    "second": {"agent": "counting", "title": "The second", "message": "{{ steps.first.text }}"},
}


@pytest.fixture
def trip(plan):
    city = {"city": {"type": "string", "title": "Where to?"}}
    return plan(STEPS, inputs={"type": "object", "required": ["city"], "properties": city})


@pytest.fixture
def run(ada, trip, said):
    parts = [{"text": "go"}, {"data": {"city": "Lisbon"}}]
    task = Task.objects.get(pk=accept.accept(ada.principal, trip, said(parts=parts)).task)
    begin_run(task, trip.current_version)
    child = accept.accept(ada.principal, Agent.objects.get(slug="loud"), said(), parent=task.pk)
    running = {"state": "running", "task": child.task, "started_at": timezone.now(), "agent": "loud", "attempt": 1}
    Step.objects.filter(run=task.pk, key="first").update(**running)
    return PlanRun.objects.get(pk=task.pk)


@pytest.fixture
def looker(client):
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


def test_plans_runs_and_tasks_are_linked(admin_client, run, trip):
    def task_page(key):
        return reverse("admin:record_task_change", args=[key])

    shown = admin_client.get(reverse("admin:plans_plan_changelist")).text
    assert plan_page(trip) in shown
    assert plan_page(Agent.objects.get(slug="loud")) not in shown
    assert page_of(run) in admin_client.get(reverse("admin:plans_planrun_changelist")).text
    shown = admin_client.get(plan_page(trip)).text
    assert 'class="graph plan-graph"' in shown
    assert "{{ inputs.city }}" in shown
    shown = admin_client.get(page_of(run)).text
    child = Step.objects.get(run=run, key="first").task
    assert 'id="plan-step-first"' in shown
    assert 'id="gantt-box"' in shown
    assert "It waits for “The first”." in shown
    assert task_page(child.pk) in shown
    assert task_page(run.pk) in shown
    for task in (run.pk, child.pk):
        assert page_of(run) in admin_client.get(task_page(task)).text
    assert admin_client.get(reverse("admin:agents_agent_plan", args=[trip.pk]))["Location"] == plan_page(trip)
    assert admin_client.get(plan_page(trip, "start"))["Location"] == "/plans/plan#start-title"


def test_an_ended_run_is_repeated_for_its_owner(admin_client, run, ada):
    press(admin_client, run, "again", step="first")
    assert "was not repeated" in told(admin_client, run)
    press(admin_client, run, "cancel")
    assert f'hx-get="{page_of(run, "again")}?step=first"' not in admin_client.get(page_of(run)).text
    Step.objects.filter(run=run, key="first").update(state="failed")
    assert f'hx-get="{page_of(run, "again")}?step=first"' in admin_client.get(page_of(run)).text
    press(admin_client, run, "again", step="second")
    again = Task.objects.exclude(pk=run.pk).get(agent=run.task.agent)
    assert again.owner == ada, "it is still its owner's"
    assert Message.objects.get(task=again).metadata["planRun"] == {"continues": str(run.pk), "from": "second"}


def test_who_may_only_look_changes_nothing(client, looker, run, trip, ada):
    shown = client.get(page_of(run)).text
    assert 'id="plan-step-first"' in shown
    for button in ("pause", "resume", "cancel", "again"):
        assert page_of(run, button) not in shown
        assert client.post(page_of(run, button), {"_form_submitted": "True"}).status_code == 403
    assert plan_page(trip, "start") not in client.get(plan_page(trip)).text
    assert client.get(plan_page(trip, "start")).status_code == 403
    assert client.get(ADD).status_code == client.post(ADD, fields()).status_code == 403
    assert client.post(plan_page(trip), fields(base="1")).status_code == 403
    run.task.refresh_from_db()
    assert (run.task.state, Task.objects.filter(agent=trip).count()) == ("submitted", 1)
    looker.user_permissions.add(Permission.objects.get(codename="add_planrun"))
    Agent.objects.filter(pk=trip.pk).update(access="groups")
    assert "You may not use this plan" in client.get(plan_page(trip, "start"), follow=True).text
    client.force_login(ada)
    for address in (page_of(run), plan_page(trip), plan_page(trip, "start")):
        assert "/admin/login" in client.get(address)["Location"]


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
def editor(looker):
    looker.user_permissions.add(
        *Permission.objects.filter(codename__in=["add_plan", "change_plan", "view_agentversion"])
    )
    return looker


def test_each_change_of_a_plan_is_a_version(client, agents, editor):
    shown = client.get(ADD)
    assert (shown.status_code, "steps:" in shown.text) == (200, True)
    assert client.post(ADD, fields()).status_code == 302
    plan = Agent.objects.get(slug="shout")
    assert (plan.kind, plan.access, plan.workspace.personal_of_id) == ("plan", "authenticated", None)
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
def test_a_wrong_plan_is_refused_by_its_line(client, agents, editor, written, said):
    page = client.post(ADD, fields(definition=written))
    assert said in " ".join(errors_of(page)["definition"])
    assert not Agent.objects.filter(slug="shout").exists()
