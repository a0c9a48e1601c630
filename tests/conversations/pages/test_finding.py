"""What the palette finds on the server: for whom, by what, at what cost."""

import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.conversations.pages.finding import BEGINNING
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record.models import Artifact, Context, Task
from parley.faces.cells import page_url
from tests.clients import telling
from tests.members import member, operator

pytestmark = pytest.mark.django_db

SHORT = {"name": "Short", "description": "One step.", "steps": {"one": {"agent": "echo", "message": "Go."}}}


def found(browser, text):
    """The addresses, by group."""
    page = browser.get("/find", {"q": text, "all": ""}).text
    groups = re.findall(r'<div data-group="([^"]+)"(.*?)(?=<div data-group|\Z)', page, re.DOTALL)
    options = {name: re.findall(r'data-href="([^"]+)"', rest) for name, rest in groups}
    return {name: addresses for name, addresses in options.items() if addresses}


@pytest.fixture
def delivered(ada, echo):
    return telling.finished(ada, echo, {str(uuid.uuid4()): telling.text("Depths of the plate")})


@pytest.mark.services("UUIDs and beginnings of texts are compared by the database")
def test_ids_and_their_beginnings_lead_there(ada_browser, delivered):
    task = Task.objects.get(pk=delivered.task)
    file, run = Artifact.objects.get(), task.runs.get()
    for key, address in (
        (task.pk, f"/tasks/{task.pk}"),
        (task.context_id, f"/sessions/{task.context_id}"),
        (run.pk, f"/tasks/{task.pk}#turn-1"),
        (file.artifact_id, f"/sessions/{task.context_id}#m-{file.first_event}"),
    ):
        for text in (str(key), str(key)[:BEGINNING], str(key)[:13].upper(), f" {key} "):
            assert found(ada_browser, text)["With this id"] == [address], text
        assert "With this id" not in found(ada_browser, str(key)[: BEGINNING - 1])
    assert found(ada_browser, task.pk.hex)["With this id"] == [f"/tasks/{task.pk}"]


def test_plan_run_is_found_by_its_id(ada, ada_browser, echo):
    plan = register_plan("short", PlanDefinition.read(SHORT), author=ada)
    task = telling.begun(ada, plan).task
    assert found(ada_browser, str(task))["With this id"] == [f"/plans/runs/{task}"]


def test_ids_of_others_are_not_found(ada, bob, bob_browser, delivered):
    task = Task.objects.get(pk=delivered.task)
    keys = [task.pk, task.context_id, task.runs.get().pk, Artifact.objects.get().artifact_id]
    assert [found(bob_browser, str(key)) for key in keys] == [{}] * 4
    member(bob, ada)
    Context.objects.update(is_shared=True)
    assert all("With this id" in found(bob_browser, str(key)) for key in keys), "of a session that is shared"


def test_agents_are_found_by_slug_or_name(ada_browser, countdown):
    for text in ("countdown", "@countd", "Count"):
        assert found(ada_browser, text)["Agents"] == ["/agents/countdown"], text


def test_tasks_are_found_by_words(ada, ada_browser, bob_browser, echo):
    task = telling.begun(ada, echo, "Depths of the plate").task
    assert found(ada_browser, "plate dep")["Tasks"] == [f"/tasks/{task}"]
    assert found(bob_browser, "plate dep") == {}


def test_people_are_found_by_who_may_see_them(client, ada, bob, ada_browser, bob_browser):
    assert (found(ada_browser, "bob"), found(bob_browser, "ada")) == ({}, {})
    member(bob, ada)
    address = f"/settings/workspaces/{ada.personal_workspace.pk}"
    assert (found(ada_browser, "bob"), found(bob_browser, "ada")) == ({"People": [address]},) * 2
    for rights, addresses in ((["view_user"], [page_url(User, bob.pk)]), (["view_task"], None)):
        client.force_login(operator(f"{rights[0]}@example.com", *rights))
        assert found(client, "bob").get("People") == addresses, rights


def test_finding_costs_the_same_however_much_there_is(ada, bob, ada_browser, echo, delivered):
    def queries(text):
        found(ada_browser, text)  # what is indexed and read once
        with CaptureQueriesContext(connection) as asked:
            found(ada_browser, text)
        return len(asked)

    member(bob, ada)
    few = [queries(text) for text in (str(delivered.task), "bob")]
    for _ in range(8):
        telling.finished(ada, echo, {str(uuid.uuid4()): telling.text("Depths")})
    for number in range(8):
        member(User.objects.create_user(f"bob{number}@example.com", "a long password"), ada)
    assert [queries(text) for text in (str(delivered.task), "bob")] == few
    assert max(few) <= 19, few
