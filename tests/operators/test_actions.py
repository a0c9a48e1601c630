"""Operators act on one row, or on many with a result for each."""

import re
import uuid

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

import parley.urls  # noqa: F401 - it loads admin's pages, which register the actions
from agentkit import Completed, InputRequired
from apps.a2a.models import Delivery, PushConfig
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.sessions import commands
from apps.engine import cancel
from apps.installation.models import Activity, Operation
from apps.operators import bulk
from apps.operators.models import BulkAction, BulkRow
from apps.optional.evaluations.models import Example
from apps.record.admin import task_actions
from apps.record.admin.task_actions import GIVE_BACK, GIVE_RUN_BACK, RUN_AGAIN
from apps.record.execution import Run
from apps.record.models import Context, Feedback, Message, Task
from parley.faces.cells import list_url, page_url
from tests.emptying import rewrite
from tests.work.hand import published_keys
from tests.working import begin, end, state_of

pytestmark = pytest.mark.django_db
CANCEL = bulk.ACTIONS["task.cancel"]


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
    return published_keys(monkeypatch)


def test_each_row_of_an_action_shows_its_result(admin_client, many_tasks):
    ended, open_ = many_tasks(2)
    cancel.cancel_task(ended)
    page = act(admin_client, Task, "cancel_selected", ended, open_).content.decode()
    results = page[page.index('id="results"') :]
    for row, word in ((ended, "skipped"), (open_, "done")):
        assert re.search(rf"{row.pk}.*?{word}", results[results.index(f'title="{row.pk}"') :], re.DOTALL)
    assert state_of(open_.pk) == "canceled"
    assert LogEntry.objects.filter(object_id=str(open_.pk)).count() == 1
    assert 'id="results"' not in admin_client.get(list_url(Task)).content.decode(), "once"


def test_many_tasks_are_canceled_by_a_job(admin_client, admin_user, many_tasks, sent, monkeypatch):
    for module in ("bulk", "actions"):
        monkeypatch.setattr(f"apps.operators.{module}.AT_ONCE", 100)
    many_tasks(120)  # three batches
    answer = act(admin_client, Task, "cancel_selected", Task.objects.first(), across=True)
    begun = BulkAction.objects.get()
    assert answer.redirect_chain[-1][0] == page_url(BulkAction, begun.pk)
    assert "120 left" in answer.content.decode()
    assert sent == [begun.pk]
    assert Task.objects.filter(state="canceled").count() == 0
    bulk.work_off(begun.pk)
    assert Task.objects.filter(state="canceled").count() == 120
    entries = AuditEntry.objects.filter(object_type="record.task", actor_key=str(admin_user.pk))
    assert entries.values("object_key").distinct().count() == 120
    progress = admin_client.get(reverse("admin:operators_bulkaction_progress", args=[begun.pk])).content.decode()
    assert "120 done" in progress
    assert "hx-trigger" not in progress, "the page asks no more"


def test_killed_job_goes_on_and_repeats_nothing(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    monkeypatch.setattr(bulk, "BATCH", 3)
    tasks = many_tasks(5)
    begun = bulk.begin(RUN_AGAIN, operator, [task.pk for task in tasks])
    interrupt(monkeypatch, task_actions, "run_again", after=2)
    with pytest.raises(KeyboardInterrupt):
        bulk.work_off(begun.pk)
    assert not bulk.BULK_ACTIONS.due_keys(), "its lease goes on"
    bulk.work_off(begun.pk)
    assert outcomes().count("waiting") == 3, "nobody else works on it"
    BulkAction.objects.update(lease_until="2026-01-01T00:00Z")
    assert list(bulk.BULK_ACTIONS.due_keys()) == [begun.pk]
    bulk.work_off(begun.pk)
    assert outcomes() == ["done"] * 5
    assert Task.objects.count() == 10, "each was sent again once"
    assert BulkAction.objects.get().state == "done"


def test_small_action_is_never_due_for_the_sweep(operator, task, monkeypatch):
    due = []
    monkeypatch.setattr(bulk, "_work_off", lambda one: due.extend(bulk.BULK_ACTIONS.due_keys()))
    bulk.begin(CANCEL, operator, [task.pk])
    assert not due


def test_repeated_act_that_was_done_is_told(operator, echo):
    evaluate = bulk.ACTIONS["agent.evaluate"]  # what it returns is no agent
    result = bulk.act(evaluate, echo, bulk.Doing(operator, uuid.uuid4(), again=True))
    assert (result.outcome, result.note) == ("done", "The first try has done it.")


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


def test_untried_rows_are_tried_after_a_crash(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    tasks = many_tasks(3)
    begun = bulk.begin(CANCEL, operator, [task.pk for task in tasks])
    interrupt(monkeypatch, cancel, "cancel_task", after=1)
    with pytest.raises(KeyboardInterrupt):
        bulk.work_off(begun.pk)
    assert outcomes() == ["started", "waiting", "waiting"]
    cancel.cancel_task(tasks[1])
    goes_on_in_another_process(begun)
    assert outcomes() == ["done", "skipped", "done"], "somebody else canceled the second one"


@pytest.mark.parametrize("action", [GIVE_BACK, GIVE_RUN_BACK])
def test_crashed_action_leaves_newly_claimed_runs_alone(operator, task, sent, monkeypatch, action):
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


def test_process_without_the_lease_writes_nothing(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 0)
    tasks = many_tasks(2)
    begun = bulk.begin(CANCEL, operator, [task.pk for task in tasks])
    real = cancel.cancel_task

    def slow(task):
        real(task)
        BulkAction.objects.update(fence=7)  # another process claims the action

    monkeypatch.setattr(cancel, "cancel_task", slow)
    bulk.work_off(begun.pk)
    assert outcomes() == ["started", "waiting"]
    assert [state_of(task.pk) for task in tasks].count("canceled") == 1


def test_job_stops_when_told_or_without_permission(operator, many_tasks, sent, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 1)
    keys = [task.pk for task in many_tasks(3)]
    stopped, orphaned = (bulk.begin(CANCEL, operator, keys) for _ in range(2))
    assert bulk.stop(stopped, "enough")
    bulk.work_off(stopped.pk)
    User.objects.filter(pk=operator.pk).update(is_superuser=False)
    bulk.work_off(orphaned.pk)
    assert list(BulkAction.objects.values_list("state", flat=True)) == ["stopped", "stopped"]
    assert not Task.objects.filter(state="canceled").exists()


def test_old_bulk_actions_are_deleted_unless_running(operator, task, sent, monkeypatch):
    for most in (1, 0):
        monkeypatch.setattr(bulk, "AT_ONCE", most)
        bulk.begin(CANCEL, operator, [task.pk])
    BulkAction.objects.update(created_at="2026-01-01T00:00Z")
    bulk.delete_old()
    assert BulkAction.objects.get().state == "running"
    assert BulkRow.objects.count() == 1


def test_an_act_that_breaks_fails_its_row_alone(operator, many_tasks, monkeypatch):
    bad, good = many_tasks(2)
    real = cancel.cancel_task

    def breaking(task):
        if task.pk == bad.pk:
            raise ZeroDivisionError
        real(task)

    monkeypatch.setattr(cancel, "cancel_task", breaking)
    bulk.begin(CANCEL, operator, [bad.pk, good.pk])
    assert outcomes() == ["failed", "done"]
    assert "ZeroDivision" not in BulkRow.objects.first().note


def test_operators_stop_only_their_own_bulk_actions(operator_with, operator, many_tasks, sent, monkeypatch):
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


def test_stuck_run_is_given_back_once(admin_client, rows):
    begin(rows[Run].pk)
    press(admin_client, Task, "give_back", rows[Task])
    assert Run.objects.get().state == "queued"
    press(admin_client, Task, "give_back", rows[Task])
    assert Run.objects.get().fence == 2, "the second press does nothing"


def test_a_question_is_answered_for_its_owner(admin_client, operator_with, task, ada):
    schema = {"type": "object", "properties": {"size": {"enum": ["S", "M"]}}, "required": ["size"]}
    end(begin(task.runs.get().pk), InputRequired("Which size?", "size", schema))
    task.refresh_from_db()
    page = admin_client.get(page_url(Task, task.pk)).content.decode()
    assert reverse("admin:record_task_answer", args=[task.pk]) in page
    viewer = operator_with("view_task")
    assert reverse("admin:record_task_answer", args=[task.pk]) not in viewer.get(page_url(Task, task.pk)).text
    assert press(viewer, Task, "answer", task, asked=task.status_event, **{"answer-size": "S"}).status_code == 403
    assert not LogEntry.objects.exists()
    wrong = press(admin_client, Task, "answer", task, asked=task.status_event)
    assert "HX-Redirect" not in wrong
    assert state_of(task.pk) == "input-required"
    press(admin_client, Task, "answer", task, asked=task.status_event, **{"answer-size": "M"})
    assert state_of(task.pk) == "working"
    assert AuditEntry.objects.latest("number").object_key == str(task.pk)
    answer = Message.objects.filter(task=task).last()
    assert (answer.parts, answer.role) == ([{"data": {"size": "M"}}], "user")
    press(admin_client, Task, "answer", task, asked=task.status_event, words="again")
    assert Message.objects.filter(task=task, role="user").count() == 2, "the question was answered"


@pytest.fixture
def rated(task, ada):
    end(begin(task.runs.get().pk), Completed("5"))
    commands.give_feedback(ada.principal, task.agent, str(task.pk), {"rating": 1})
    return Feedback.objects.get()


def test_rated_messages_become_examples(operator_with, rated):
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


def test_a_session_goes_into_cold_storage_and_back(admin_client, task, ada):
    context = task.context
    press(admin_client, Context, "move_to_cold_storage", context)
    context.refresh_from_db()
    assert not context.cold_file, "it is not archived"
    end(begin(task.runs.get().pk), Completed("5"))
    commands.archive_session(ada.principal, context.pk)
    for button, action in (("move_to_cold_storage", "session.archived"), ("restore", "session.restored")):
        press(admin_client, Context, button, context)
        context.refresh_from_db()
        assert bool(context.cold_file) == (button == "move_to_cold_storage")
        assert AuditEntry.objects.order_by("number").last().action == action
    assert set(LogEntry.objects.values_list("object_repr", flat=True)) == {str(context.pk)}, "not its title"


def test_dead_deliveries_are_sent_again(admin_client, rows):
    press(admin_client, Delivery, "send_again", rows[Delivery])
    rows[Delivery].refresh_from_db()
    assert (rows[Delivery].state, rows[Delivery].attempts) == ("waiting", 0)
    Delivery.objects.update(state="dead")
    act(admin_client, Delivery, "send_again_selected", rows[Delivery])
    assert Delivery.objects.get().state == "waiting"
    assert PushConfig.objects.get().due_at is not None


def test_all_agents_are_drained_on_one_page(admin_client, rows, operator):
    assert admin_client.get(list_url(Operation), follow=True).status_code == 200
    press(admin_client, Operation, "drain", rows[Operation])
    row = Operation.objects.get()
    assert (row.activity, row.changed_by.is_superuser) == ("draining", True)
    assert rows[Agent].current_activity == Activity.DRAINING
    assert "Draining" in admin_client.get(list_url(Agent)).content.decode()


def test_health_is_checked_now(admin_client, echo):
    Agent.objects.update(handler="gone_agents:Gone")
    press(admin_client, Agent, "check_now", echo)
    echo.refresh_from_db()
    assert echo.health == "unavailable"
