"""Operators act on tasks, revoke credentials, and see an agent's health."""

import uuid

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from agentkit import AuthRequired
from apps.accounts.models import User
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel
from apps.features.credentials.models import Credential, CredentialRequest
from apps.features.health.monitoring import examine_agents, measure_agents
from apps.features.sessions import commands
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Event, Message, Task
from tests.engine.test_measuring import make_runs
from tests.working import begin, end

pytestmark = pytest.mark.django_db


TASKS = "admin:record_task_changelist"


@pytest.fixture
def task(ada, echo, said) -> Task:
    message = said("first words", metadata={"lang": "en"})
    return Task.objects.get(pk=accept.accept(ada.principal, echo, message).task)


def act(client, action: str, *tasks: Task):
    chosen = {"action": action, "_selected_action": [str(task.pk) for task in tasks]}
    return client.post(reverse(TASKS), chosen, follow=True)


def told(answer) -> str:
    return " ".join(str(message) for message in answer.context["messages"])


def press(client, button: str, task: Task):
    """Fetch the confirmation, which changes nothing, then send it."""
    address = reverse(f"admin:record_task_{button}", args=[task.pk])
    before = list(Task.objects.values_list("state", flat=True))
    assert 'id="dialog"' in client.get(address).content.decode()
    assert list(Task.objects.values_list("state", flat=True)) == before
    return client.post(address, {"_form_submitted": "True"})


def test_a_task_is_canceled_and_its_run_with_it_and_what_has_ended_is_left_alone(admin_client, task, ada, echo, said):
    ended = Task.objects.get(pk=accept.accept(ada.principal, echo, said("ended")).task)
    cancel.cancel_task(ended)
    events = Event.objects.filter(task=ended).count()
    answer = told(act(admin_client, "cancel_selected", task, ended))
    assert "1 done, 1 skipped" in answer
    assert Event.objects.filter(task=ended).count() == events
    task.refresh_from_db()
    assert (task.state, task.runs.get().state) == ("canceled", "canceled")
    assert projection.differences(task.context_id) == []


def test_a_task_is_run_again_as_a_new_one_for_its_owner(admin_client, task, ada):
    act(admin_client, "run_selected_again", task)
    old, new = Task.objects.order_by("created_at")
    assert old == task
    assert (new.context, new.owner, new.agent) == (task.context, ada, task.agent)
    assert new.references == [str(task.pk)]
    first, second = Message.objects.order_by("index")
    assert second.task == new
    assert (second.parts, second.metadata) == (first.parts, {"lang": "en"})
    assert second.message_id != first.message_id
    assert new.runs.get().state == "queued"
    assert projection.differences(task.context_id) == []


def test_a_nobodys_task_is_run_again_for_nobody_as_often_as_one_likes(admin_client, echo, said):
    Agent.objects.update(access="public")
    task = Task.objects.get(pk=accept.accept(ANONYMOUS, echo, said("hi")).task)
    for _ in range(2):
        act(admin_client, "run_selected_again", task)
    assert Task.objects.filter(owner=None, context=task.context, references=[str(task.pk)]).count() == 2


def test_why_a_task_cannot_be_run_again_is_said(admin_client, task, countdown):
    Task.objects.filter(pk=task.pk).update(agent=countdown)  # its context belongs to another agent
    assert "1 failed" in told(act(admin_client, "run_selected_again", task))
    assert Task.objects.count() == 1


def test_the_buttons_of_a_tasks_page_ask_and_do(admin_client, task):
    page = reverse("admin:record_task_change", args=[task.pk])
    shown = admin_client.get(page).content.decode()
    assert reverse("admin:record_task_cancel", args=[task.pk]) in shown
    answer = press(admin_client, "cancel", task)
    assert answer["HX-Redirect"] == page
    task.refresh_from_db()
    assert task.state == "canceled"
    shown = admin_client.get(page).content.decode()
    assert "Canceled." in shown
    assert reverse("admin:record_task_cancel", args=[task.pk]) not in shown
    press(admin_client, "run_again", task)
    assert Task.objects.count() == 2


def test_a_task_that_is_not_there_is_no_error_page(admin_client):
    assert admin_client.get(reverse("admin:record_task_change", args=[uuid.uuid4()])).status_code == 302
    assert press(admin_client, "cancel", Task(pk=uuid.uuid4())).status_code == 200


def test_who_may_only_look_can_do_neither(client, task):
    operator = User.objects.create_user("op@example.org", "let me in", is_staff=True)
    operator.user_permissions.add(Permission.objects.get(codename="view_task"))
    client.force_login(operator)
    page = client.get(reverse("admin:record_task_change", args=[task.pk]))
    assert page.status_code == 200
    for button in ("cancel", "run_again"):
        address = reverse(f"admin:record_task_{button}", args=[task.pk])
        assert address not in page.content.decode()
        assert client.post(address, {"_form_submitted": "True"}).status_code == 403
    for action in ("cancel_selected", "run_selected_again"):
        act(client, action, task)
    task.refresh_from_db()
    assert task.state == "submitted"
    assert Task.objects.count() == 1
    operator.user_permissions.add(Permission.objects.get(codename="change_task"))
    assert "1 done" in told(act(client, "cancel_selected", task))


CREDENTIALS = "admin:credentials_credential_changelist"
REQUESTS = "admin:credentials_credentialrequest_changelist"


@pytest.fixture
def calendar(db):
    return register_hosted("calendar", "tests.engine.agents:Calendar")


@pytest.fixture
def given(ada, calendar):
    return Credential.objects.create(
        agent=calendar, user=ada, service="mail box", auth_type="basic", username="canary-name", secret="canary-secret"
    )


@pytest.fixture
def asked(ada, calendar, said):
    sent = accept.accept(ada.principal, calendar, said())
    end(begin(sent.run), AuthRequired("Your key?", service="calendar of ada"))
    return CredentialRequest.objects.get()


def revoke(client, *credentials):
    chosen = {"action": "revoke_selected", "_selected_action": [one.pk for one in credentials]}
    return client.post(reverse(CREDENTIALS), chosen, follow=True)


def test_pages_show_and_find_everything_but_the_secrets(admin_client, given, asked):
    pages = {
        reverse(CREDENTIALS): "mail box",
        reverse("admin:credentials_credential_change", args=[given.pk]): "mail box",
        reverse(REQUESTS): "calendar of ada",
        reverse("admin:credentials_credentialrequest_change", args=[asked.pk]): "calendar of ada",
    }
    for page, shown in pages.items():
        content = admin_client.get(page).content.decode()
        assert shown in content
        assert "canary" not in content
        assert asked.digest not in content
    assert "calendar of ada" in admin_client.get(reverse(REQUESTS), {"q": str(asked.task_id)}).content.decode()
    assert "mail box" in admin_client.get(reverse(CREDENTIALS), {"q": "mail"}).content.decode()
    assert "mail box" not in admin_client.get(reverse(CREDENTIALS), {"q": "nothing"}).content.decode()


@pytest.mark.django_db(transaction=True)  # the service is told on the event loop
def test_an_operator_revokes_and_the_secret_is_erased(admin_client, given):
    assert "1 revoked" in revoke(admin_client, given).content.decode()
    given.refresh_from_db()
    assert (given.secret, given.username) == ("", "")
    assert given.revoked_at is not None
    assert "0 revoked" in revoke(admin_client, given).content.decode()


def test_who_may_only_look_revokes_nothing(client, given):
    viewer = User.objects.create_user("viewer@example.org", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_credential"))
    client.force_login(viewer)
    assert "mail box" in client.get(reverse(CREDENTIALS)).content.decode()
    revoke(client, given)
    given.refresh_from_db()
    assert given.revoked_at is None


def test_nobody_adds_or_changes_one(admin_client, given):
    assert admin_client.get(reverse("admin:credentials_credential_add")).status_code == 403
    admin_client.post(reverse("admin:credentials_credential_change", args=[given.pk]), {"service": "other"})
    given.refresh_from_db()
    assert given.service == "mail box"


FEEDBACK = "admin:record_feedback_changelist"


def page_of(client, agent):
    answer = client.get(reverse("admin:agents_agent_change", args=[agent.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def rated(ada, echo, countdown, said):
    """Rated tasks: two of one agent, one of another."""
    given = ((echo, 1, "never <b>again</b>"), (echo, 5, "wonderful"), (countdown, 3, ""))
    tasks = []
    for agent, rating, text in given:
        tasks.append(accept.accept(ada.principal, agent, said()).task)
        words = {"feedback": text} if text else {}
        commands.give_feedback(ada.principal, agent, str(tasks[-1]), {"rating": rating, **words})
    return tasks


def test_an_agents_page_shows_what_is_measured(admin_client, ada, echo):
    make_runs(ada, echo, *[("done", 0.5, 2.0)] * 15, ("failed", 0, 1.0), *[("canceled", 0, 1.0)] * 4)
    measure_agents()
    page = page_of(admin_client, echo)
    assert "2.0 s, 95% within 2.0 s" in page
    assert "94% of 16" in page
    assert "20, 0 today" in page
    assert "The last 20 turns: 15 done, 1 failed, 4 canceled." in page
    assert page.count('role="img"') == 2
    for run in Run.objects.all():
        assert str(run.pk) in page


def test_an_agent_that_cannot_work_says_why_in_the_list_and_on_its_page(admin_client, echo, countdown):
    Agent.objects.filter(pk=echo.pk).update(handler="gone_agents:Gone")
    examine_agents()
    for page in (
        page_of(admin_client, echo),
        admin_client.get(reverse("admin:agents_agent_changelist")).content.decode(),
    ):
        assert "Unavailable" in page
        assert "The module &#x27;gone_agents&#x27; of" in page
    assert "gone_agents" not in page_of(admin_client, countdown)


def test_feedback_is_listed_searched_and_narrowed(admin_client, rated, echo):
    def shown(**query):
        answer = admin_client.get(reverse(FEEDBACK), query)
        assert answer.status_code == 200
        return sorted(row.rating for row in answer.context["cl"].result_list)

    assert shown() == [1, 3, 5]
    assert shown(task__agent__id__exact=echo.pk) == [1, 5]
    assert shown(rating="good") == [5]
    assert shown(q="wonder") == [5]
    assert shown(q=str(rated[2])) == [3]
    assert shown(rating="x") == [1, 3, 5]


def test_feedback_stands_on_the_pages_of_its_task_and_agent(admin_client, rated, echo):
    task = admin_client.get(reverse("admin:record_task_change", args=[rated[0]])).content.decode()
    measure_agents()
    for page in (task, page_of(admin_client, echo)):
        assert "never &lt;b&gt;again&lt;/b&gt;" in page
    assert "3.0 of 5, from 2" in page_of(admin_client, echo)


def test_who_may_see_agents_alone_sees_no_runs_and_no_feedback(client, django_user_model, ada, rated, echo):
    make_runs(ada, echo, ("done", 0, 1.0))
    clerk = django_user_model.objects.create_user("clerk@example.org", "clerk", name="Clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_agent"))
    client.force_login(clerk)
    page = page_of(client, echo)
    assert "wonderful" not in page
    assert 'role="img"' not in page
    assert "turns waiting or running" in page
    assert client.get(reverse(FEEDBACK)).status_code == 403


def test_a_page_costs_no_more_with_many_runs(admin_client, ada, echo, django_assert_max_num_queries):
    make_runs(ada, echo, *[("done", 0, 1.0)] * 40)
    with django_assert_max_num_queries(20):
        page_of(admin_client, echo)
