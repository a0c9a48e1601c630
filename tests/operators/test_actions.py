"""Operators act on one row, or on many with a result for each."""

import re

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

import parley.urls  # noqa: F401 - it loads admin's pages, which register the actions
from agentkit import Completed, InputRequired
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations.sessions import commands
from apps.engine import cancel
from apps.operators import bulk
from apps.operators.actions import list_action
from apps.operators.models import BulkAction, BulkRow
from apps.optional.evaluations.models import Example
from apps.record.admin import task_actions
from apps.record.admin.task_actions import GIVE_BACK, GIVE_RUN_BACK, RUN_AGAIN
from apps.record.execution import Run
from apps.record.models import Feedback, Message, Task
from parley.faces.cells import list_url, page_url
from tests.chosen_rows import act, answer, choose
from tests.work.hand import published_keys
from tests.working import begin, end, state_of

pytestmark = pytest.mark.django_db
CANCEL = bulk.ACTIONS["task.cancel"]


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
        monkeypatch.setattr(f"apps.operators.{module}.AT_ONCE", 5)
    monkeypatch.setattr(bulk, "BATCH", 5)
    many_tasks(12)  # three batches
    page = act(admin_client, Task, "cancel_selected", Task.objects.first(), across=True)
    begun = BulkAction.objects.get()
    assert page.redirect_chain[-1][0] == page_url(BulkAction, begun.pk)
    assert "12 left" in page.content.decode()
    assert sent == [begun.pk]
    assert Task.objects.filter(state="canceled").count() == 0
    bulk.work_off(begun.pk)
    assert Task.objects.filter(state="canceled").count() == 12
    entries = AuditEntry.objects.filter(object_type="record.task", actor_key=str(admin_user.pk))
    assert entries.values("object_key").distinct().count() == 12
    progress = admin_client.get(reverse("admin:operators_bulkaction_progress", args=[begun.pk])).content.decode()
    assert "12 done" in progress
    assert "hx-trigger" not in progress, "the page asks no more"


def test_lists_ask_before_they_act(admin_client, operator_with, many_tasks, echo):
    first, second, third = many_tasks(3)
    page = choose(admin_client, Task, "cancel_selected", first, second)
    assert page.context["question"]["rows"] == "2 tasks"
    assert ">Echo</a>" in choose(admin_client, Agent, "pause_selected", echo).text
    answer(admin_client, "give_up")
    assert CANCEL.effect in page.text
    assert str(first.pk) in page.text
    assert answer(operator_with("view_bulkaction", "view_task", "change_task"), "start").status_code == 403
    assert {state_of(task.pk) for task in (first, second)} == {"submitted"}
    assert answer(admin_client, "give_up").redirect_chain[-1][0].startswith(list_url(Task))
    assert not BulkAction.objects.exists()
    assert {state_of(task.pk) for task in (first, second)} == {"submitted"}
    act(admin_client, Task, "cancel_selected", first)
    again = answer(admin_client, "start"), answer(admin_client, "give_up")
    assert ["started before" in one.text for one in again] == [True, True]
    assert [state_of(task.pk) for task in (first, second, third)] == ["canceled", "submitted", "submitted"]


def test_long_filters_lead_back_with_whole_parameters(operator, task):
    given = {f"filter{number}": "é" * 20 for number in range(9)}
    kept = QueryDict(bulk.choose(CANCEL, operator, [task.pk], urlencode(given)).chosen).dict()
    assert (len(kept) > 1, kept.items() < given.items()) == (True, True)


def test_results_name_only_rows_one_may_view(operator_with, operator, ada):
    bulk.begin(bulk.ACTIONS["person.disable"], operator, [ada.pk])
    page = page_url(BulkAction, BulkAction.objects.get().pk)
    assert ada.email not in operator_with("view_bulkaction").get(page).text
    assert ada.email in operator_with("view_bulkaction", "view_user").get(page).text


def test_acts_change_only_rows_asked_about(admin_client, many_tasks):
    seen = many_tasks(2)
    choose(admin_client, Task, "cancel_selected", seen[0], across=True)
    [later] = many_tasks(1)
    answer(admin_client, "start")
    assert [state_of(task.pk) for task in (*seen, later)] == ["canceled", "canceled", "submitted"]


def test_every_action_of_a_list_asks_first(rf, operator):
    """Django asks before it deletes; all others are made by `list_action`."""
    request = rf.get("/")
    request.user = operator
    shown = admin.site._registry.values()
    unasked = {
        (one.model.__name__, name)
        for one in shown
        for name, made in one.get_actions(request).items()
        if made.func.__qualname__ != list_action(CANCEL, "operate").__qualname__ and name != "delete_selected"
    }
    assert unasked == set()


def test_slow_action_goes_on_in_a_job(operator, many_tasks, sent):
    begun = bulk.choose(CANCEL, operator, [task.pk for task in many_tasks(2)])
    assert bulk.start(begun, seconds=-1)
    assert (begun.state, sent, outcomes()) == ("running", [begun.pk], ["waiting", "waiting"])
    bulk.work_off(begun.pk)
    assert outcomes() == ["done", "done"]


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
    bulk.choose(CANCEL, operator, [task.pk])
    BulkAction.objects.filter(state="asked").update(created_at=timezone.now() - 2 * bulk.ASKED_FOR)
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
