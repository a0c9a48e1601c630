"""Operators act on one row, or on many with a result for each."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from agentkit import Completed, InputRequired
from apps.a2a.models import Delivery, PushConfig
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.features.evaluations.models import Example
from apps.features.sessions import commands
from apps.installation.models import Activity, Operation
from apps.operators import bulk, jobs
from apps.operators.models import BulkAction, BulkRow
from apps.operators.work import task_actions
from apps.operators.work.task_actions import CANCEL, GIVE_BACK, GIVE_RUN_BACK, RUN_AGAIN
from apps.record.execution import Run
from apps.record.models import Feedback, Message, Task
from apps.remote.models import RemoteAgent
from console.cells import list_url, page_url
from tests.emptying import rewrite
from tests.working import begin, end, state_of

pytestmark = pytest.mark.django_db


def act(client, model, action, *rows, across=False):
    chosen = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    chosen |= {"select_across": "1", "index": "0"} if across else {}
    return client.post(list_url(model), chosen, follow=True)


def press(client, model, button, row, **values):
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{button}", args=[row.pk])
    return client.post(address, {"_form_submitted": "True", **values})


def outcomes() -> list[str]:
    return list(BulkAction.objects.get().rows.values_list("outcome", flat=True))


@pytest.fixture
def operator(django_user_model):
    return django_user_model.objects.create_superuser("root@example.org", "root")


@pytest.fixture
def sent(monkeypatch):
    """Bulk actions that were sent to workers."""
    keys: list = []
    monkeypatch.setattr(bulk, "publish", keys.append)
    return keys


def test_each_row_of_an_action_has_its_result_on_the_same_page(admin_client, many_tasks):
    ended, open_ = many_tasks(2)
    task_actions.cancel.cancel_task(ended)
    page = act(admin_client, Task, "cancel_selected", ended, open_).content.decode()
    results = page[page.index('id="results"') :]
    for row, word in ((ended, "skipped"), (open_, "done")):
        assert re.search(rf"{row.pk}.*?{word}", results[results.index(f'title="{row.pk}"') :], re.DOTALL)
    assert state_of(open_.pk) == "canceled"
    assert LogEntry.objects.filter(object_id=str(open_.pk)).count() == 1
    assert 'id="results"' not in admin_client.get(list_url(Task)).content.decode(), "once"


def test_many_tasks_are_canceled_by_a_job(admin_client, many_tasks, sent, monkeypatch):
    for module in ("bulk", "actions"):
        monkeypatch.setattr(f"apps.operators.{module}.AT_ONCE", 100)
    many_tasks(120)  # three batches
    answer = act(admin_client, Task, "cancel_selected", Task.objects.first(), across=True)
    begun = BulkAction.objects.get()
    assert answer.redirect_chain[-1][0] == page_url(BulkAction, begun.pk)
    assert "120 left" in answer.content.decode()
    assert sent == [begun.pk]
    assert Task.objects.filter(state="canceled").count() == 0
    jobs.work_off(str(begun.pk))
    assert Task.objects.filter(state="canceled").count() == 120
    progress = admin_client.get(reverse("admin:operators_bulkaction_progress", args=[begun.pk])).content.decode()
    assert "120 done" in progress
    assert "hx-trigger" not in progress, "the page asks no more"


def test_a_job_goes_on_where_it_was_killed_and_nothing_is_done_twice(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    monkeypatch.setattr(bulk, "BATCH", 3)
    tasks = many_tasks(5)
    begun = bulk.begin(RUN_AGAIN, operator, [task.pk for task in tasks])
    real, calls = task_actions.run_again, []

    def die_after_the_act(task, key):
        receipt = real(task, key)
        calls.append(task.pk)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return receipt

    monkeypatch.setattr(task_actions, "run_again", die_after_the_act)
    with pytest.raises(KeyboardInterrupt):
        bulk.work_off(begun.pk)
    assert bulk.overdue() == [], "its lease goes on"
    bulk.work_off(begun.pk)
    assert len(calls) == 2
    BulkAction.objects.update(lease_until="2026-01-01T00:00Z")
    assert bulk.overdue() == [begun.pk]
    bulk.work_off(begun.pk)
    assert outcomes() == ["done"] * 5
    assert Task.objects.count() == 10, "each was sent again once"
    assert BulkAction.objects.get().state == "done"


def test_a_killed_cancel_is_told_as_done(operator, task):
    begun = bulk.begin(CANCEL, operator, [])
    BulkAction.objects.update(state="running", lease_until=None)
    task_actions.cancel.cancel_task(task)
    BulkRow.objects.create(bulk=begun, number=1, key=str(task.pk), outcome="started")
    bulk.work_off(begun.pk)
    assert outcomes() == ["done"]


def interrupt(monkeypatch, module, name, after: int):
    """The process dies when the act has been done `after` times."""
    real, done = getattr(module, name), []

    def dying(*args, **values):
        result = real(*args, **values)
        done.append(args)
        if len(done) == after:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(module, name, dying)


def goes_on_in_another_process(begun) -> None:
    BulkAction.objects.update(lease_until="2026-01-01T00:00Z")
    bulk.work_off(begun.pk)


def test_rows_that_were_not_tried_before_a_crash_are_tried_as_new_ones(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    tasks = many_tasks(3)
    begun = bulk.begin(CANCEL, operator, [task.pk for task in tasks])
    interrupt(monkeypatch, task_actions.cancel, "cancel_task", after=1)
    with pytest.raises(KeyboardInterrupt):
        bulk.work_off(begun.pk)
    assert outcomes() == ["started", "waiting", "waiting"]
    task_actions.cancel.cancel_task(tasks[1])
    goes_on_in_another_process(begun)
    assert outcomes() == ["done", "skipped", "done"], "somebody else canceled the second one"


@pytest.mark.parametrize("action", [GIVE_BACK, GIVE_RUN_BACK])
def test_after_a_crash_a_run_is_not_taken_from_the_worker_that_claimed_it_since(
    operator, task, sent, monkeypatch, action
):
    Agent.objects.update(retry_safe=True)
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    run = begin(task.runs.get().pk, "stuck:1").lease.run_id
    begun = bulk.begin(action, operator, [task.pk if action is GIVE_BACK else run])
    with monkeypatch.context() as patch:
        interrupt(patch, task_actions, "give_back", after=1)
        with pytest.raises(KeyboardInterrupt):
            bulk.work_off(begun.pk)
    begin(run, "healthy:1")
    goes_on_in_another_process(begun)
    assert (Run.objects.get().worker, Run.objects.get().state) == ("healthy:1", "running")
    assert outcomes() == ["done"]


def test_a_process_that_lost_the_lease_writes_no_result_and_starts_no_row(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    tasks = many_tasks(2)
    begun = bulk.begin(CANCEL, operator, [task.pk for task in tasks])
    real = task_actions.cancel.cancel_task

    def slow(task):
        real(task)
        BulkAction.objects.update(fence=7)  # another process claims the action

    monkeypatch.setattr(task_actions.cancel, "cancel_task", slow)
    bulk.work_off(begun.pk)
    assert outcomes() == ["started", "waiting"]
    assert [state_of(task.pk) for task in tasks].count("canceled") == 1


def test_a_job_stops_at_a_button_and_when_its_operator_loses_the_permission(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 1)
    keys = [task.pk for task in many_tasks(3)]
    stopped, orphaned = (bulk.begin(CANCEL, operator, keys) for _ in range(2))
    assert bulk.stop(stopped, "enough")
    bulk.work_off(stopped.pk)
    User.objects.filter(pk=operator.pk).update(is_superuser=False)
    bulk.work_off(orphaned.pk)
    assert list(BulkAction.objects.values_list("state", flat=True)) == ["stopped", "stopped"]
    assert not Task.objects.filter(state="canceled").exists()


def test_old_bulk_actions_are_deleted_but_not_running_ones(operator, task, sent, monkeypatch):
    for most in (1, 0):
        monkeypatch.setattr(bulk, "AT_ONCE", most)
        bulk.begin(CANCEL, operator, [task.pk])
    BulkAction.objects.update(created_at="2026-01-01T00:00Z")
    jobs.sweep()
    assert BulkAction.objects.get().state == "running"
    assert BulkRow.objects.count() == 1


def test_an_act_that_breaks_fails_its_row_alone(operator, many_tasks, monkeypatch):
    bad, good = many_tasks(2)
    real = task_actions.cancel.cancel_task

    def breaking(task):
        if task.pk == bad.pk:
            raise ZeroDivisionError
        real(task)

    monkeypatch.setattr(task_actions.cancel, "cancel_task", breaking)
    bulk.begin(CANCEL, operator, [bad.pk, good.pk])
    assert outcomes() == ["failed", "done"]
    assert "ZeroDivision" not in BulkRow.objects.first().note


def test_operators_see_and_stop_their_own_bulk_actions_only(operator_with, operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    begun = bulk.begin(CANCEL, operator, [many_tasks(1)[0].pk])
    stop = reverse("admin:operators_bulkaction_stop", args=[begun.pk])
    stranger = operator_with("view_task", "change_task")
    assert stranger.get(reverse("admin:operators_bulkaction_progress", args=[begun.pk])).status_code == 404
    assert stranger.post(stop).status_code == 404
    viewer = operator_with("view_bulkaction")
    assert viewer.get(page_url(BulkAction, begun.pk)).status_code == 200
    assert viewer.post(stop).status_code == 403
    assert BulkAction.objects.get().state == "running"


BUTTONS = [
    (Task, "give_back", "change_task"),
    (Task, "answer", "change_task"),
    (Run, "give_back", "change_run"),
    (Delivery, "send_again", "change_delivery"),
    (Agent, "pause", "change_agent"),
    (Agent, "drain", "change_agent"),
    (Agent, "resume", "change_agent"),
    (Agent, "check_health", "change_agent"),
    (Operation, "pause", "change_operation"),
    (Operation, "drain", "change_operation"),
    (Operation, "resume", "change_operation"),
]


@pytest.fixture
def rows(task):
    config = PushConfig.objects.create(task=task, config_id="hook", url="https://hooks.example.org/")
    delivery = Delivery.objects.create(config=config, event_index=1, state="dead")
    Agent.objects.update(retry_safe=True)
    return {
        Task: task,
        Run: task.runs.get(),
        Delivery: delivery,
        Agent: task.agent,
        Operation: Operation.objects.create(),
    }


@pytest.mark.parametrize(("model", "button", "permission"), BUTTONS)
def test_who_may_only_look_has_no_button_and_no_address(operator_with, rows, model, button, permission):
    begin(rows[Run].pk)
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{button}", args=[rows[model].pk])
    view = f"view_{model._meta.model_name}"
    viewer = operator_with(view)
    page = viewer.get(page_url(model, rows[model].pk))
    assert page.status_code == 200
    assert address not in page.content.decode()
    assert press(viewer, model, button, rows[model]).status_code == 403
    assert not LogEntry.objects.exists()
    assert press(operator_with(view, permission), model, button, rows[model]).status_code == 200


@pytest.mark.parametrize(
    ("permissions", "may"),
    [(("change_remoteagent",), True), (("change_agent",), False), ((), False)],
)
def test_a_list_offers_to_approve_cards_to_who_may(operator_with, echo, permissions, may):
    remote = RemoteAgent.objects.create(agent=echo)
    client = operator_with("view_remoteagent", *permissions)
    offered = 'value="approve_selected"' in client.get(list_url(RemoteAgent)).content.decode()
    assert offered == may
    act(client, RemoteAgent, "approve_selected", remote)
    assert BulkAction.objects.exists() == may


ACTS = [
    *BUTTONS,
    (Task, "cancel", "change_task"),
    (Task, "run_again", "change_task"),
]


@pytest.mark.parametrize(("model", "button"), [(model, name) for model, name, _ in ACTS])
def test_each_kind_of_act_is_in_the_audit(client, operator, rows, model, button):
    begun = begin(rows[Run].pk)
    if button == "answer":
        end(begun, InputRequired("Which?"))
    values = {"words": "this one", "asked": Task.objects.get().status_event} if button == "answer" else {}
    activity = "paused" if button == "resume" else "active"
    for paused in (Agent, Operation):
        paused.objects.update(activity=activity)
    client.force_login(operator)
    before = AuditEntry.objects.count()
    press(client, model, button, rows[model], **values)
    [entry] = AuditEntry.objects.order_by("number")[before:]
    found = (entry.actor_kind, entry.actor_key, entry.object_type, entry.object_key)
    assert found == ("user", str(operator.pk), model._meta.label_lower, str(rows[model].pk))


def test_a_job_writes_an_audit_entry_for_each_row_under_the_operators_name(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    tasks = many_tasks(2)
    begun = bulk.begin(CANCEL, operator, [task.pk for task in tasks])
    entries = AuditEntry.objects.filter(object_type="record.task")
    assert not entries.exists()
    bulk.work_off(begun.pk)
    assert {(entry.actor_key, entry.object_key) for entry in entries} == {
        (str(operator.pk), str(task.pk)) for task in tasks
    }


def test_a_stuck_run_is_given_back_from_its_tasks_page(admin_client, rows):
    begin(rows[Run].pk)
    press(admin_client, Task, "give_back", rows[Task])
    assert Run.objects.get().state == "queued"
    press(admin_client, Task, "give_back", rows[Task])
    assert Run.objects.get().fence == 2, "the second press does nothing"


def test_a_question_is_answered_for_its_owner(admin_client, task, ada):
    schema = {"type": "object", "properties": {"size": {"enum": ["S", "M"]}}, "required": ["size"]}
    end(begin(task.runs.get().pk), InputRequired("Which size?", "size", schema))
    task.refresh_from_db()
    page = admin_client.get(page_url(Task, task.pk)).content.decode()
    assert reverse("admin:record_task_answer", args=[task.pk]) in page
    wrong = press(admin_client, Task, "answer", task, asked=task.status_event)
    assert "HX-Redirect" not in wrong
    assert state_of(task.pk) == "input-required"
    press(admin_client, Task, "answer", task, asked=task.status_event, **{"answer-size": "M"})
    assert state_of(task.pk) == "working"
    answer = Message.objects.filter(task=task).last()
    assert (answer.parts, answer.role) == ([{"data": {"size": "M"}}], "user")
    press(admin_client, Task, "answer", task, asked=task.status_event, words="again")
    assert Message.objects.filter(task=task, role="user").count() == 2, "the question was answered"


@pytest.fixture
def rated(task, ada):
    end(begin(task.runs.get().pk), Completed("5"))
    commands.give_feedback(ada.principal, task.agent, str(task.pk), {"rating": 1})
    return Feedback.objects.get()


def test_a_rated_message_becomes_an_example_by_who_may_view_messages(operator_with, rated):
    button = reverse("admin:record_feedback_add_example", args=[rated.pk])
    permissions = ["view_feedback", "add_example"]
    for more, status in (([], 403), (["view_message"], 200)):
        client = operator_with(*permissions, *more)
        assert (button in client.get(page_url(Feedback, rated.pk)).content.decode()) == (status == 200)
        assert press(client, Feedback, "add_example", rated).status_code == status
        assert Example.objects.exists() == (status == 200)


def test_a_rating_without_a_task_becomes_no_example(admin_client, rated):
    Message.objects.update(task=None)
    rewrite(Feedback.objects.all(), task=None)
    assert press(admin_client, Feedback, "add_example", rated).status_code == 404
    assert not Example.objects.exists()


def test_dead_deliveries_are_sent_again(admin_client, rows):
    press(admin_client, Delivery, "send_again", rows[Delivery])
    rows[Delivery].refresh_from_db()
    assert (rows[Delivery].state, rows[Delivery].attempts) == ("waiting", 0)
    Delivery.objects.update(state="dead")
    act(admin_client, Delivery, "send_selected_again", rows[Delivery])
    assert Delivery.objects.get().state == "waiting"
    assert PushConfig.objects.get().due_at is not None


def test_agents_are_paused_and_resumed_in_lists_and_the_list_says_so(admin_client, rows, countdown):
    act(admin_client, Agent, "pause_selected", rows[Agent], countdown)
    assert set(Agent.objects.values_list("activity", flat=True)) == {"paused"}
    assert "Paused" in admin_client.get(list_url(Agent)).content.decode()
    page = admin_client.get(page_url(Agent, countdown.pk)).content.decode()
    assert "is paused" in page
    assert reverse("admin:agents_agent_pause", args=[countdown.pk]) not in page
    press(admin_client, Agent, "resume", countdown)
    assert Agent.objects.get(pk=countdown.pk).activity == "active"


def test_all_agents_are_drained_on_one_page(admin_client, rows, operator):
    assert admin_client.get(list_url(Operation), follow=True).status_code == 200
    press(admin_client, Operation, "drain", rows[Operation])
    row = Operation.objects.get()
    assert (row.activity, row.changed_by.is_superuser) == ("draining", True)
    assert rows[Agent].current_activity == Activity.DRAINING
    assert "Draining" in admin_client.get(list_url(Agent)).content.decode()


def test_health_is_checked_now(admin_client, echo):
    Agent.objects.update(handler="gone_agents:Gone")
    press(admin_client, Agent, "check_health", echo)
    echo.refresh_from_db()
    assert echo.health == "unavailable"


def test_accepting_goes_on_while_a_bulk_action_is_recorded(admin_client, ada, echo, said, task):
    act(admin_client, Task, "run_selected_again", task)
    assert accept.accept(ada.principal, echo, said()).run
