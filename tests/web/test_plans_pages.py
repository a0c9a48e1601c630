"""People find, start, follow, pause and repeat plans on pages."""

import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import db
from apps.agents.models import Agent
from apps.plans import registry
from apps.plans.models import PlanRun, Step
from apps.plans.runs import begin_run
from apps.record.models import Context, Message, Task, TaskState
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures
from tests.web import telling

pytestmark = pytest.mark.django_db

TWO = {
    "first": {"agent": "loud", "title": "The first", "message": "{{ inputs.text }}"},
    "second": {"agent": "counting", "title": "The second", "message": "{{ steps.first.text }}"},
}
CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string", "title": "Where to?"}}}


@pytest.fixture
def two(plan) -> Agent:  # noqa: F811
    return plan(TWO, inputs=CITY)


def begun(user, agent: Agent, **states: str) -> Task:
    receipt = telling.begun(user, agent, "go", parts=[{"text": "go"}, {"data": {"city": "Lisbon"}}])
    task = Task.objects.get(pk=receipt.task)
    begin_run(task, agent.current_version)
    for key, state in states.items():
        child = telling.begun(user, Agent.objects.get(slug="loud"))
        Task.objects.filter(pk=child.task).update(parent=task)
        Step.objects.filter(run=task.pk, key=key).update(state=state, task=child.task, started_at=timezone.now())
    return task


def run_page(browser, task, ending="", **asked):
    return browser.get(f"/plans/runs/{task.pk}{ending}", asked)


@pytest.mark.services("sizes are counted within JSON")
def test_plans_are_listed_with_the_newest_run_of_the_reader_and_shown_with_their_inputs(
    ada_browser, bob_browser, ada, two
):
    task = begun(ada, two)
    page = ada_browser.get("/plans").text
    assert "2 steps" in page
    assert f"/plans/runs/{task.pk}" in page
    page = bob_browser.get("/plans").text
    assert "No runs yet" in page
    assert str(task.pk) not in page
    page = ada_browser.get("/plans/plan").text
    for words in ("The first, then The second", "Where to?", 'name="answer-city"', "/plans/plan/yaml"):
        assert words in page
    assert "steps:" in ada_browser.get("/plans/plan/yaml").text


def test_a_plan_that_one_may_not_use_or_that_is_none_is_not_found(ada_browser, bob_browser, ada, two, client):
    Agent.objects.filter(pk=two.pk).update(access="workspace", workspace=ada.personal_workspace)
    for address in ("/plans/plan", "/plans/plan/yaml"):
        assert ada_browser.get(address).status_code == 200
        assert bob_browser.get(address).status_code == 404
    assert "/plans/plan" not in bob_browser.get("/plans").text
    assert ada_browser.get("/plans/loud").status_code == 404
    for ending in ["", "/yaml", "/edit"]:
        with CaptureQueriesContext(connection) as asked:
            assert ada_browser.get(f"/plans/%00{ending}").status_code == 404, ending
        assert not any("agents_agent" in one["sql"] for one in asked), ending
    for address in ["/plans", "/plans/plan", "/plans/new", f"/plans/runs/{uuid.UUID(int=1)}"]:
        assert client.get(address)["Location"].startswith("/sign-in"), address


async def started(browser, **form):
    return await browser.post("/plans/plan/runs", {"message": str(uuid.uuid4()), "answers": "1", **form})


@pytest.mark.django_db(transaction=True)
async def test_the_form_starts_a_run_once_and_what_cannot_be_started_is_said_by_its_field(ada_at_work, plan):  # noqa: F811
    await db.run(lambda: plan(TWO, inputs=CITY))
    form = {"message": str(uuid.uuid4()), "answer-city": "Lisbon", "text": "hello"}
    first, again = [await started(ada_at_work, **form) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, again.json())
    task = await db.run(Task.objects.get)
    assert first.json()["address"] == f"/plans/runs/{task.pk}"
    said = await db.run(Message.objects.get)
    assert said.parts == [{"text": "hello"}, {"data": {"city": "Lisbon"}}]
    missing = await started(ada_at_work)
    assert (missing.status_code, missing.json()["field"]) == (422, "answer-city")
    for written in ("[1]", '{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud800"}', '{"a": 1, "a": 2}', '{"a":' * 99):
        wrong = await started(ada_at_work, **{"answer-city": "Lisbon", "inputs": written})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "inputs"), written
    for slug in ("none", "%00"):
        nowhere = await ada_at_work.post(f"/plans/{slug}/runs", {"message": str(uuid.uuid4())})
        assert nowhere.status_code == 404
    assert await db.run(Task.objects.count) == 1


@pytest.mark.django_db(transaction=True)
async def test_a_plan_over_an_agent_that_one_may_not_use_is_not_started(ada_at_work, plan):  # noqa: F811
    await db.run(lambda: plan(TWO))
    await db.run(lambda: Agent.objects.filter(slug="counting").update(access=Agent.Access.GROUPS))
    refused = await started(ada_at_work, text="go")
    assert refused.status_code == 422
    assert "steps.second.agent: There is no agent `counting`, or you may not use it." in refused.json()["error"]
    assert not await db.run(Task.objects.exists)


def test_a_run_shows_its_steps_and_why_it_waits_and_its_tasks_lead_to_it(ada_browser, ada, two, bob_browser):
    task = begun(ada, two, first="running")
    page = run_page(ada_browser, task).text
    child = Step.objects.get(run=task.pk, key="first").task_id
    for words in (f"/tasks/{child}", "It waits for “The first”.", "Timeline", "Pause</button>"):
        assert words in page
    assert "The first, then The second" in page
    page = ada_browser.get(f"/tasks/{child}").text
    assert "“The first”" in page
    assert f"/plans/runs/{task.pk}#plan-step-first" in page
    assert "Run of the plan" in ada_browser.get(f"/tasks/{task.pk}").text
    assert bob_browser.get(f"/tasks/{child}").status_code == 404


def test_a_run_that_no_worker_took_up_shows_its_plan_and_what_it_asks(ada_browser, ada, two):
    task = Task.objects.get(pk=telling.begun(ada, two).task)
    page = run_page(ada_browser, task)
    assert "The first, then The second" in page.text
    assert run_page(ada_browser, task, "/standing", seen=page.context["seen"]).status_code == 204
    assert run_page(ada_browser, task, "/standing", seen="0").status_code == 200
    asked = telling.asked(ada, two, {"name": "inputs", "schema": CITY}, "Where to?")
    page = run_page(ada_browser, Task.objects.get(pk=asked.task)).text
    assert f'action="/sessions/{asked.context}/messages"' in page


def test_a_run_that_ended_shows_what_came_of_it_and_from_where_it_can_be_run_again(ada_browser, ada, two):
    task = begun(ada, two)
    made = telling.finished(ada, Agent.objects.get(slug="loud"), {"plot.csv": telling.text("a,b")})
    Task.objects.filter(pk=made.task).update(parent=task)
    Step.objects.filter(run=task.pk, key="first").update(state="done", task=made.task)
    Task.objects.filter(pk=task.pk).update(state="completed")
    page = run_page(ada_browser, task)
    [(title, _)] = page.context["delivered"]
    assert title == "The first"
    [file] = re.findall(r'href="([^"]+)" id="download-', page.text)
    assert ada_browser.get(file).text == "a,b"
    assert page.context["restart_steps"] == [("first", "The first"), ("second", "The second")]


def test_somebody_elses_run_is_not_found(ada_browser, bob_browser, ada, two, finished):
    task = begun(ada, two)
    for ending in ("", "/standing"):
        assert run_page(ada_browser, task, ending).status_code == 200
        assert run_page(bob_browser, task, ending).status_code == 404
    assert ada_browser.get(f"/plans/runs/{finished.task}").status_code == 404


def asked_by(user, task, **said: str) -> dict[str, Task]:
    found = {}
    for key, words in said.items():
        receipt = telling.asked(user, Agent.objects.get(slug="curious"), {"name": "colour"}, words)
        Task.objects.filter(pk=receipt.task).update(parent=task)
        Context.objects.filter(pk=receipt.context).update(parent_task=task.pk)
        Step.objects.filter(run=task.pk, key=key).update(state="asking", task=receipt.task, asked_at=timezone.now())
        found[key] = Task.objects.get(pk=receipt.task)
    return found


def test_all_that_the_steps_of_a_run_ask_is_on_its_page_and_in_the_inbox(ada_browser, bob_browser, ada, two):
    task = begun(ada, two)
    asked = asked_by(ada, task, first="Which colour?", second="Which size?")
    for address in (f"/plans/runs/{task.pk}", f"/plans/runs/{task.pk}/questions", "/inbox", "/inbox/items"):
        page = ada_browser.get(address).text
        for key, title in {"first": "The first", "second": "The second"}.items():
            child = asked[key]
            words = (f'action="/sessions/{child.context_id}/messages"', f'name="asked" value="{child.status_event}"')
            assert [one in page for one in (*words, f'value="{child.pk}"', title)] == [True] * 4
    assert page.count(f'href="/plans/runs/{task.pk}"') == 2
    assert "step of" in page
    assert 'data-waiting="2"' in ada_browser.get("/inbox").text
    assert str(asked["first"].pk) not in bob_browser.get("/inbox/items").text
    assert bob_browser.get(f"/plans/runs/{task.pk}/questions").status_code == 404


@pytest.mark.django_db(transaction=True)
async def test_what_a_step_asks_is_answered_once_from_any_page(ada_at_work, ada, plan):  # noqa: F811
    def began():
        task = begun(ada, plan(TWO))
        return asked_by(ada, task, first="Which colour?")["first"]

    child = await db.run(began)
    address = f"/sessions/{child.context_id}/messages"
    form = {"task": str(child.pk), "asked": str(child.status_event), "answers": "1"}
    first, second = [
        await ada_at_work.post(address, {**form, "text": text, "message": str(uuid.uuid4())})
        for text in ("red", "blue")
    ]
    assert (first.status_code, second.status_code) == (201, 409)
    assert "already answered" in second.json()["error"]
    assert await db.run(Message.objects.filter(task=child.pk, parts__0__text="blue").count) == 0
    wrong = await ada_at_work.post(address, {**form, "asked": "x", "text": "green", "message": str(uuid.uuid4())})
    assert wrong.status_code == 422


@pytest.mark.django_db(transaction=True)
async def test_a_run_is_held_repeated_and_stopped_by_its_owner_alone(ada_at_work, ada, plan, bob):  # noqa: F811
    agent = await db.run(lambda: plan(TWO, inputs=CITY))
    task = await db.run(begun, ada, agent)

    async def done(do: str) -> int:
        return (await ada_at_work.post(f"/plans/runs/{task.pk}/control", {"do": do})).status_code

    assert [await done(do) for do in ("pause", "pause", "resume", "resume", "dance")] == [200, 422, 200, 422, 422]
    assert [await done("stop"), await done("stop")] == [200, 200]
    assert (await db.run(Task.objects.get, pk=task.pk)).state == TaskState.CANCELED
    for step, status in {"third": 409, "second": 201}.items():
        sent = {"message": str(uuid.uuid4()), "step": step}
        assert (await ada_at_work.post(f"/plans/runs/{task.pk}/again", sent)).status_code == status, step
    task = await db.run(begun, bob, agent)
    for ending, form in (("control", {"do": "stop"}), ("control", {"do": "pause"}), ("again", {"step": "first"})):
        sent = {"message": str(uuid.uuid4()), **form}
        assert (await ada_at_work.post(f"/plans/runs/{task.pk}/{ending}", sent)).status_code == 404
    assert (await db.run(PlanRun.objects.get, pk=task.pk)).paused_at is None


def queries_of(browser, address: str) -> int:
    browser.get(address)
    with CaptureQueriesContext(connection) as asked:
        assert browser.get(address).status_code == 200
    return len(asked)


def test_queries_do_not_grow_with_steps_plans_or_runs(ada_browser, ada, plan):  # noqa: F811
    few = begun(ada, plan({"only": TWO["first"]}), only="asking")
    before = queries_of(ada_browser, "/plans"), queries_of(ada_browser, f"/plans/runs/{few.pk}")
    wide = {f"step_{number}": TWO["first"] for number in range(20)}
    many = begun(ada, plan(wide, slug="wide"), **{f"step_{number}": "asking" for number in range(10)})
    for number in range(5):
        begun(ada, plan(TWO, slug=f"plan-{number}"))
    after = queries_of(ada_browser, "/plans"), queries_of(ada_browser, f"/plans/runs/{many.pk}")
    assert after[0] <= before[0] < 20
    assert registry.sized(registry.visible_plans(ada.principal))[0].current_version.get_deferred_fields() == {"content"}
    assert after[1] <= before[1] + 1 < 30


def test_hostile_words_stay_words(ada_browser, ada, plan):  # noqa: F811
    script = "<script>alert(1)</script>"
    step = {"agent": "loud", "title": script, "message": "x"}
    agent = plan({"first": step}, inputs={"type": "object", "properties": {"x": {"type": "string", "title": script}}})
    task = begun(ada, agent)
    for address in ("/plans/plan", f"/plans/runs/{task.pk}", "/plans/plan/edit"):
        page = ada_browser.get(address)
        assert script not in page.text, address
