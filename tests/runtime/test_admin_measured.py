"""Operators see how an agent does: in numbers, in pictures with the same numbers as a table, and in what people say."""

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.agents.models import Agent
from apps.conversations import feedback, intake
from apps.conversations.models import Run
from apps.runtime.measuring import measure
from apps.runtime.observing import examine
from tests.runtime.test_measuring import make_runs

pytestmark = pytest.mark.django_db

FEEDBACK = "admin:conversations_feedback_changelist"


def page_of(client, agent):
    answer = client.get(reverse("admin:agents_agent_change", args=[agent.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def rated(ada, echo, countdown, said):
    """Two tasks of one agent and one of another, with stars."""
    given = ((echo, 1, "never <b>again</b>"), (echo, 5, "wonderful"), (countdown, 3, ""))
    tasks = []
    for agent, stars, text in given:
        tasks.append(intake.accept(ada.principal, agent, said()).task)
        words = {"feedback": text} if text else {}
        feedback.give(ada.principal, agent, str(tasks[-1]), {"rating": stars, **words})
    return tasks


def test_an_agents_page_shows_what_is_measured(admin_client, ada, echo):
    make_runs(ada, echo, *[("done", 0.5, 2.0)] * 15, ("failed", 0, 1.0), *[("canceled", 0, 1.0)] * 4)
    measure()
    page = page_of(admin_client, echo)
    assert "2.0 s, 95 of 100 within 2.0 s" in page
    assert "94% of 16" in page
    assert "20, 0 of them today" in page
    assert "Of the newest 20 turns: 15 done, 1 failed, 4 canceled." in page
    assert page.count('role="img"') == 2
    for run in Run.objects.all():
        assert str(run.pk) in page


def test_an_agent_that_cannot_work_says_why_in_the_list_and_on_its_page(admin_client, echo, countdown):
    Agent.objects.filter(pk=echo.pk).update(handler="gone_agents:Gone")
    examine()
    for page in (
        page_of(admin_client, echo),
        admin_client.get(reverse("admin:agents_agent_changelist")).content.decode(),
    ):
        assert "unavailable" in page
        assert "The module &#x27;gone_agents&#x27; of" in page
    assert "gone_agents" not in page_of(admin_client, countdown)


def test_feedback_is_listed_searched_and_narrowed(admin_client, rated, echo):
    def shown(**query):
        answer = admin_client.get(reverse(FEEDBACK), query)
        assert answer.status_code == 200
        return sorted(row.rating for row in answer.context["cl"].result_list)

    assert shown() == [1, 3, 5]
    assert shown(task__agent__id__exact=echo.pk) == [1, 5]
    assert shown(stars="5") == [5]
    assert shown(q="wonder") == [5]
    assert shown(q=str(rated[2])) == [3]
    assert shown(stars="x") == [1, 3, 5]


def test_feedback_stands_on_the_pages_of_its_task_and_agent(admin_client, rated, echo):
    task = admin_client.get(reverse("admin:conversations_task_change", args=[rated[0]])).content.decode()
    measure()
    for page in (task, page_of(admin_client, echo)):
        assert 'title="1 of 5"' in page
        assert "never &lt;b&gt;again&lt;/b&gt;" in page
    assert "3.0 of 5, of 2" in page_of(admin_client, echo)


def test_who_may_see_agents_alone_sees_no_runs_and_no_feedback(client, django_user_model, ada, rated, echo):
    make_runs(ada, echo, ("done", 0, 1.0))
    clerk = django_user_model.objects.create_user("clerk@example.org", "clerk", name="Clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_agent"))
    client.force_login(clerk)
    page = page_of(client, echo)
    assert "wonderful" not in page
    assert 'role="img"' not in page
    assert "turns wait or run" in page
    assert client.get(reverse(FEEDBACK)).status_code == 403


def test_a_page_costs_no_more_with_many_runs(admin_client, ada, echo, django_assert_max_num_queries):
    make_runs(ada, echo, *[("done", 0, 1.0)] * 40)
    with django_assert_max_num_queries(20):
        page_of(admin_client, echo)
