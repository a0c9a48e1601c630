"""Plans on people's pages: found, looked at, started, followed, held back and run again."""

from __future__ import annotations

import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import bridge
from apps.agents.models import Agent
from apps.conversations.lifecycle import TaskState
from apps.conversations.models import Context, Message, Task
from apps.orchestration import finding
from apps.orchestration.models import PlanRun, Step
from apps.orchestration.opening import begin
from tests.orchestration.conftest import agents, plan  # noqa: F401 fixtures
from tests.orchestration.test_questions import UPLOAD
from tests.runtime.delegating import ended, until
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
    """A run as a worker has begun it, with steps in these states."""
    receipt = telling.begun(user, agent, "go", parts=[{"text": "go"}, {"data": {"city": "Lisbon"}}])
    task = Task.objects.get(pk=receipt.task)
    begin(task, agent.current_version)
    for key, state in states.items():
        child = telling.begun(user, Agent.objects.get(slug="loud"))
        Task.objects.filter(pk=child.task).update(parent=task)
        Step.objects.filter(run=task.pk, key=key).update(state=state, task=child.task, started_at=timezone.now())
    return task


def run_page(browser, task, ending="", **asked):
    return browser.get(f"/plans/runs/{task.pk}{ending}", asked)


# The plans


def test_who_has_no_plan_is_told_what_one_is(ada_browser):
    assert "Write the first one" in ada_browser.get("/plans").text


def test_plans_are_listed_with_the_newest_run_of_the_reader(ada_browser, bob_browser, ada, two):
    task = begun(ada, two)
    page = ada_browser.get("/plans").text
    assert "2 steps" in page
    assert f"/plans/runs/{task.pk}" in page
    page = bob_browser.get("/plans").text
    assert "You have not run it yet." in page
    assert str(task.pk) not in page


def test_a_list_of_plans_reads_no_definition(ada_browser, ada, two, plan):  # noqa: F811
    def asked():
        with CaptureQueriesContext(connection) as made:
            assert "2 steps" in ada_browser.get("/plans").text
        return made.captured_queries

    few = len(asked())
    for number in range(4):
        plan(TWO, slug=f"plan-{number}")
    assert len(asked()) == few
    [listed, *_] = finding.sized(finding.plans(ada.principal))
    assert (listed.size, listed.current_version.get_deferred_fields()) == (2, {"content"})
    Agent.objects.filter(pk=two.pk).update(current_version=None)
    sizes = dict(finding.sized(finding.plans(ada.principal)).values_list("slug", "size"))
    assert (sizes["plan"], sizes["plan-1"]) == (0, 2)
    assert "0 steps" in ada_browser.get("/plans").text


def test_a_plan_that_one_may_not_use_is_not_found(ada_browser, bob_browser, ada, two):
    Agent.objects.filter(pk=two.pk).update(access="workspace", workspace=ada.personal_workspace)
    for address in ("/plans/plan", "/plans/plan/yaml"):
        assert ada_browser.get(address).status_code == 200
        assert bob_browser.get(address).status_code == 404
    assert "/plans/plan" not in bob_browser.get("/plans").text
    assert ada_browser.get("/plans/loud").status_code == 404


@pytest.mark.parametrize("ending", ["", "/yaml", "/edit"])
def test_a_name_that_no_database_takes_is_not_found_without_asking_it(ada_browser, ending):
    with CaptureQueriesContext(connection) as asked:
        assert ada_browser.get(f"/plans/%00{ending}").status_code == 404
    assert not any("agents_agent" in one["sql"] for one in asked)


@pytest.mark.parametrize("address", ["/plans", "/plans/plan", "/plans/new", f"/plans/runs/{uuid.UUID(int=1)}"])
def test_who_is_signed_out_is_led_to_sign_in(client, db, address):
    assert client.get(address)["Location"].startswith("/sign-in")


def test_a_plan_shows_its_picture_its_inputs_and_its_definition(ada_browser, two):
    page = ada_browser.get("/plans/plan").text
    for words in ("The first, then The second", "Where to?", 'name="answer-city"', "/plans/plan/yaml"):
        assert words in page
    assert "steps:" in ada_browser.get("/plans/plan/yaml").text


def test_inputs_beyond_a_form_are_written_as_json(ada_browser, plan):  # noqa: F811
    deep = {"type": "object", "properties": {"where": {"type": "object", "properties": {"x": {"type": "number"}}}}}
    plan(TWO, inputs=deep)
    assert "Inputs, as JSON" in ada_browser.get("/plans/plan").text


# Starting


async def started(browser, **form):
    return await browser.post("/plans/plan/runs", {"message": str(uuid.uuid4()), "answers": "1", **form})


@pytest.mark.django_db(transaction=True)
async def test_the_form_starts_a_run_once(ada_at_work, plan):  # noqa: F811
    await bridge.run(lambda: plan(TWO, inputs=CITY))
    form = {"message": str(uuid.uuid4()), "answer-city": "Lisbon", "text": "hello"}
    first, again = [await started(ada_at_work, **form) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, again.json())
    task = await bridge.run(Task.objects.get)
    assert first.json()["address"] == f"/plans/runs/{task.pk}"
    said = await bridge.run(Message.objects.get)
    assert said.parts == [{"text": "hello"}, {"data": {"city": "Lisbon"}}]


@pytest.mark.django_db(transaction=True)
async def test_what_cannot_be_started_is_said_by_its_field(ada_at_work, plan):  # noqa: F811
    await bridge.run(lambda: plan(TWO, inputs=CITY))
    missing = await started(ada_at_work)
    assert (missing.status_code, missing.json()["field"]) == (422, "answer-city")
    for written in ("[1]", '{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud800"}', '{"a": 1, "a": 2}', '{"a":' * 99):
        wrong = await started(ada_at_work, **{"answer-city": "Lisbon", "inputs": written})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "inputs"), written
    for slug in ("none", "%00"):
        nowhere = await ada_at_work.post(f"/plans/{slug}/runs", {"message": str(uuid.uuid4())})
        assert nowhere.status_code == 404
    assert not await bridge.run(Task.objects.exists)


@pytest.mark.django_db(transaction=True)
async def test_a_plan_over_an_agent_that_one_may_not_use_is_not_started(ada_at_work, plan):  # noqa: F811
    await bridge.run(lambda: plan(TWO))
    await bridge.run(lambda: Agent.objects.filter(slug="counting").update(access=Agent.Access.GROUPS))
    refused = await started(ada_at_work, text="go")
    assert refused.status_code == 422
    assert "steps.second.agent: There is no agent `counting` that can be used." in refused.json()["error"]
    assert not await bridge.run(Task.objects.exists)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_a_file_of_the_wrong_shape_is_asked_for_again_with_why(ada_at_work, plan):  # noqa: F811
    await bridge.run(lambda: plan(UPLOAD))
    address = (await started(ada_at_work, text="plate 1")).json()["address"]

    async def sent(text: bytes, asked: int) -> Task:
        await until(
            lambda: Task.objects.filter(parent__isnull=False, state="input-required", status_event__gt=asked).exists()
        )
        child = await bridge.run(Task.objects.get, parent__isnull=False)
        form = {"message": str(uuid.uuid4()), "answers": "1", "task": str(child.pk), "asked": str(child.status_event)}
        file = SimpleUploadedFile("mine.csv", text, "text/csv")
        sent = await ada_at_work.post(f"/sessions/{child.context_id}/messages", {**form, "answer-file": file})
        assert sent.status_code == 201, sent.json()
        return child

    first = await sent(b"compound;dose\na;1", 0)
    again = Task.objects.filter(pk=first.pk, state="input-required", status_event__gt=first.status_event)
    await until(again.exists)
    page = (await ada_at_work.get(f"{address}/questions")).text
    assert "has no column" in page
    assert "Please send another file." in page
    await sent(b"compound,effect\na,1", first.status_event)
    await until(Task.objects.filter(parent=None, state="completed").exists)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_a_started_plan_runs_to_its_end_and_again_from_a_step(ada_at_work, plan):  # noqa: F811
    await bridge.run(lambda: plan(TWO))
    address = (await started(ada_at_work, text="hello")).json()["address"]
    task = await bridge.run(Task.objects.get, pk=address.rsplit("/", 1)[1])
    assert (await ended(_receipt(task))).state == "completed"
    await until(lambda: PlanRun.objects.get(pk=task.pk).finished_at)
    page = (await ada_at_work.get(address)).text
    for words in ("2 of 2 steps done", "The plan’s result", "What led to loud", "Run it again", "every 2s"):
        assert (words in page) == (words != "every 2s"), words
    again = await ada_at_work.post(f"{address}/again", {"message": str(uuid.uuid4()), "step": "second"})
    assert again.status_code == 201
    other = await bridge.run(Task.objects.get, pk=again.json()["address"].rsplit("/", 1)[1])
    assert (await ended(_receipt(other))).state == "completed"
    page = (await ada_at_work.get(again.json()["address"])).text
    assert "an earlier run" in page
    nothing = await ada_at_work.post(f"{address}/again", {"message": str(uuid.uuid4()), "step": "third"})
    assert nothing.status_code == 422


def _receipt(task: Task):
    from apps.runtime.sending import Sent

    return Sent(task.context_id, 1, task=task.pk)


# A run


def test_a_run_shows_its_steps_and_why_it_waits(ada_browser, ada, two):
    task = begun(ada, two, first="running")
    page = run_page(ada_browser, task).text
    child = Step.objects.get(run=task.pk, key="first").task_id
    for words in (f"/tasks/{child}", "It waits for “The first” to be done.", "Who worked when", "Pause</button>"):
        assert words in page
    assert "The first, then The second" in page


def test_somebody_elses_run_is_not_found(ada_browser, bob_browser, ada, two):
    task = begun(ada, two)
    for ending in ("", "/standing"):
        assert run_page(ada_browser, task, ending).status_code == 200
        assert run_page(bob_browser, task, ending).status_code == 404


def test_a_task_of_another_agent_is_no_run(ada_browser, finished):
    assert ada_browser.get(f"/plans/runs/{finished.task}").status_code == 404


def test_a_run_that_no_worker_took_up_shows_its_plan(ada_browser, ada, two):
    task = Task.objects.get(pk=telling.begun(ada, two).task)
    page = run_page(ada_browser, task).text
    assert "It is about to begin." in page
    assert "The first, then The second" in page


def test_what_a_run_asks_is_answered_on_its_page(ada_browser, ada, two):
    receipt = telling.asked(ada, two, {"name": "inputs", "schema": CITY}, "Where to?")
    task = Task.objects.get(pk=receipt.task)
    page = run_page(ada_browser, task).text
    assert f'action="/sessions/{receipt.context}/messages"' in page
    assert "It begins when you have answered." in page
    assert f'name="asked" value="{task.status_event}"' in page
    assert str(receipt.context) in run_page(ada_browser, task, "/questions").text


def asked_by(user, task, **said: str) -> dict[str, Task]:
    """What these steps of a run ask, by their keys."""
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
    assert "a step of" in page
    assert 'data-waiting="2"' in ada_browser.get("/inbox").text
    assert str(asked["first"].pk) not in bob_browser.get("/inbox/items").text
    assert bob_browser.get(f"/plans/runs/{task.pk}/questions").status_code == 404


@pytest.mark.django_db(transaction=True)
async def test_what_a_step_asks_is_answered_once_from_any_page(ada_at_work, ada, plan):  # noqa: F811
    def began():
        task = begun(ada, plan(TWO))
        return asked_by(ada, task, first="Which colour?")["first"]

    child = await bridge.run(began)
    address = f"/sessions/{child.context_id}/messages"
    form = {"task": str(child.pk), "asked": str(child.status_event), "answers": "1"}
    first, second = [
        await ada_at_work.post(address, {**form, "text": text, "message": str(uuid.uuid4())})
        for text in ("red", "blue")
    ]
    assert (first.status_code, second.status_code) == (201, 409)
    assert "This was answered meanwhile" in second.json()["error"]
    assert await bridge.run(Message.objects.filter(task=child.pk, parts__0__text="blue").count) == 0
    wrong = await ada_at_work.post(address, {**form, "asked": "x", "text": "green", "message": str(uuid.uuid4())})
    assert wrong.status_code == 422


def test_a_step_that_asks_says_what(ada_browser, ada, two):
    task = begun(ada, two, first="asking")
    child = telling.asked(ada, Agent.objects.get(slug="curious"), {"name": "colour"}, "Which colour?")
    Step.objects.filter(run=task.pk, key="first").update(task=child.task, asked_at=timezone.now())
    page = run_page(ada_browser, task).text
    assert "It asks you something before it goes on. Which colour?" in page


def test_a_run_to_which_nothing_happened_is_not_drawn_again(ada_browser, ada, two):
    task = begun(ada, two, first="asking")
    seen = run_page(ada_browser, task).context["seen"]
    assert run_page(ada_browser, task, "/standing", seen=seen).status_code == 204
    Step.objects.filter(run=task.pk, key="first").update(state="done")
    assert run_page(ada_browser, task, "/standing", seen=seen).status_code == 200


@pytest.mark.django_db(transaction=True)
async def test_a_run_is_paused_goes_on_and_is_stopped(ada_at_work, ada, plan):  # noqa: F811
    agent = await bridge.run(lambda: plan(TWO, inputs=CITY))
    task = await bridge.run(begun, ada, agent)

    async def done(do: str) -> int:
        return (await ada_at_work.post(f"/plans/runs/{task.pk}/control", {"do": do})).status_code

    assert [await done(do) for do in ("pause", "pause", "resume", "resume", "dance")] == [200, 422, 200, 422, 422]
    assert [await done("stop"), await done("stop")] == [200, 200]
    assert (await bridge.run(Task.objects.get, pk=task.pk)).state == TaskState.CANCELED


@pytest.mark.django_db(transaction=True)
async def test_nobody_else_pauses_stops_or_repeats_a_run(ada_at_work, bob, plan):  # noqa: F811
    agent = await bridge.run(lambda: plan(TWO, inputs=CITY))
    task = await bridge.run(begun, bob, agent)
    for ending, form in (("control", {"do": "stop"}), ("control", {"do": "pause"}), ("again", {"step": "first"})):
        sent = {"message": str(uuid.uuid4()), **form}
        assert (await ada_at_work.post(f"/plans/runs/{task.pk}/{ending}", sent)).status_code == 404
    assert (await bridge.run(PlanRun.objects.get, pk=task.pk)).paused_at is None


def queries_of(browser, address: str) -> int:
    browser.get(address)
    with CaptureQueriesContext(connection) as asked:
        assert browser.get(address).status_code == 200
    return len(asked)


def test_queries_do_not_grow_with_steps_plans_or_runs(ada_browser, ada, plan):  # noqa: F811
    few = begun(ada, plan({"only": TWO["first"]}), only="asking")
    before = queries_of(ada_browser, "/plans"), queries_of(ada_browser, f"/plans/runs/{few.pk}")
    wide = {f"step_{number}": TWO["first"] for number in range(60)}
    many = begun(ada, plan(wide, slug="wide"), **{f"step_{number}": "asking" for number in range(30)})
    for number in range(5):
        begun(ada, plan(TWO, slug=f"plan-{number}"))
    after = queries_of(ada_browser, "/plans"), queries_of(ada_browser, f"/plans/runs/{many.pk}")
    assert after[0] <= before[0] < 20
    assert after[1] <= before[1] + 1 < 30


# From tasks


def test_a_task_leads_to_its_plan_and_back(ada_browser, bob_browser, ada, two):
    task = begun(ada, two, first="running")
    child = Step.objects.get(run=task.pk, key="first").task_id
    page = ada_browser.get(f"/tasks/{child}").text
    assert "“The first”" in page
    assert f"/plans/runs/{task.pk}#plan-step-first" in page
    assert "A run of plan" in ada_browser.get(f"/tasks/{task.pk}").text
    assert bob_browser.get(f"/tasks/{child}").status_code == 404


def test_a_task_without_plan_says_nothing_of_one(ada_browser, finished):
    assert "of plan" not in ada_browser.get(f"/tasks/{finished.task}").text


def test_hostile_words_stay_words(ada_browser, ada, plan):  # noqa: F811
    script = "<script>alert(1)</script>"
    step = {"agent": "loud", "title": script, "message": "x"}
    agent = plan({"first": step}, inputs={"type": "object", "properties": {"x": {"type": "string", "title": script}}})
    task = begun(ada, agent)
    for address in ("/plans/plan", f"/plans/runs/{task.pk}", "/plans/plan/edit"):
        page = ada_browser.get(address)
        assert script not in page.text, address
