"""The catalogue of agents, and the page of each."""

import ast
import datetime
import json
import shlex

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.record.execution import Run
from apps.remote.registration import register_remote
from apps.web import mcp_clients
from tests.remote.card_server import WELL_KNOWN
from tests.remote.conftest import cards_at, outward  # noqa: F401 fixtures
from tests.stack import ROOT
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)

TYPING = {"HX-Request": "true"}


def took(user, agent, *seconds, state="done"):
    for at, each in enumerate(seconds):
        receipt = telling.finished(user, agent)
        began = timezone.now() + datetime.timedelta(minutes=at)
        ended = began + datetime.timedelta(seconds=each)
        Run.objects.filter(task=receipt.task).update(state=state, started_at=began, finished_at=ended)


def catalogue(browser, **asked):
    return browser.get(reverse("web:agents"), asked)


def test_while_somebody_types_the_list_alone_is_sent_and_the_address_kept(ada_browser, echo, countdown):
    answer = ada_browser.get("/agents", {"q": "count", "tag": "", "skill": ""}, headers=TYPING)
    assert "<html" not in answer.text
    assert "/agents/countdown" in answer.text
    assert "/agents/echo" not in answer.text
    assert "1 agent" in answer.text
    assert answer["HX-Replace-Url"] == "/agents?q=count"
    assert "HX-Request" in answer["Vary"]
    assert ada_browser.get("/agents", {"q": ""}, headers=TYPING)["HX-Replace-Url"] == "/agents"
    spaced = ada_browser.get("/agents", {"q": "a&b\r\nX-Y: z"}, headers=TYPING)
    assert spaced["HX-Replace-Url"] == "/agents?q=a%26b%0D%0AX-Y%3A+z"


@pytest.mark.services("the newest turns are found by SQL")
def test_how_quick_it_is_comes_from_its_newest_turns_that_succeeded(ada_browser, ada, echo):
    took(ada, echo, 2, 4, 3)
    took(ada, echo, 500, state="failed")
    times = ada_browser.get("/agents/echo").context["response_times"]
    assert [round(one) for one in times.seconds] == [2, 4, 3]
    assert times.typical == "about 3 seconds"
    took(ada, echo, *range(1, 33))
    times = ada_browser.get("/agents/echo").context["response_times"]
    assert [round(one) for one in times.seconds] == list(range(3, 33))


def test_the_list_takes_as_many_queries_for_many_agents_that_worked(ada_browser, ada, echo):
    def queries():
        with CaptureQueriesContext(connection) as taken:
            assert catalogue(ada_browser).status_code == 200
        return len(taken)

    took(ada, echo, 1, 2)
    few = queries()
    for number in range(6):
        took(ada, register_hosted(f"more-{number}", "examples.agents.echo:Echo"), 1, 2, 3)
    assert queries() == few <= 14


def test_agents_stand_under_their_category_and_those_without_one_come_last(ada_browser, echo, countdown):
    Agent.objects.filter(pk=countdown.pk).update(category="Numbers")
    groups = catalogue(ada_browser).context["found"].groups
    assert [(name, [agent.slug for agent in agents]) for name, agents in groups] == [
        ("Numbers", ["countdown"]),
        ("Other", ["echo"]),
    ]
    chosen = ada_browser.get("/agents", {"category": "Numbers"}, headers=TYPING)
    assert chosen["HX-Replace-Url"] == "/agents?category=Numbers"
    assert [agent.slug for agent in chosen.context["found"].agents] == ["countdown"]


def test_people_choose_from_listed_agents_and_reach_others_by_their_address(ada_browser, echo, countdown):
    Agent.objects.filter(pk=countdown.pk).update(listed=False)
    for address in ("/agents", "/agents?q=countdown", "/find", "/find?q=countdown"):
        assert "/agents/countdown" not in ada_browser.get(address).text, address
    assert ada_browser.get("/agents/countdown").status_code == 200


def test_an_own_recent_agent_comes_first(ada_browser, bob_browser, ada, echo, countdown):
    telling.finished(ada, echo)
    for browser, slugs in ((ada_browser, ["echo", "countdown"]), (bob_browser, ["countdown", "echo"])):
        assert [agent.slug for agent in catalogue(browser).context["found"].agents] == slugs
        assert [agent.slug for agent in browser.get("/find").context["agents"]] == slugs


def test_the_list_offers_to_make_an_agent_to_who_may(ada_browser, db, settings):
    for most, offered in ((1, True), (0, False)):
        settings.WORKSPACE_AGENTS = most
        assert (reverse("web:new-agent") in catalogue(ada_browser).text) == offered


def test_examples_for_people_are_what_a_person_would_say(ada_browser, echo):
    skill = {
        **echo.skills[0],
        "examples": ['{"city": "Lisbon"}', "[1, 2]", "Four nights in Lisbon", "{braces} are fine"],
    }
    Agent.objects.filter(pk=echo.pk).update(skills=[skill])
    page = ada_browser.get("/agents/echo?example=1")
    assert 'data-words="{braces} are fine"' in page.text
    assert "&quot;city&quot;" not in page.text
    Agent.objects.filter(pk=echo.pk).update(skills=[{**skill, "examples": ['{"city": "Lisbon"}']}])
    page = ada_browser.get("/agents/echo?example=0")
    assert 'data-words=""' in page.text
    words = shlex.split(dict(page.context["samples"])["curl"])
    assert json.loads(words[-1])["params"]["message"]["parts"][0]["text"] == '{"city": "Lisbon"}'


def test_the_samples_are_whole_and_hold_placeholders_alone(ada_browser, echo, settings):
    example = 'it\'s "quoted" $HOME `id` </pre> \\'
    Agent.objects.filter(pk=echo.pk).update(skills=[{**echo.skills[0], "examples": [example]}])
    samples = dict(ada_browser.get("/agents/echo").context["samples"])
    words = shlex.split(samples["curl"])
    body = json.loads(words[-1])
    assert words[2] == f"{settings.PUBLIC_BASE_URL}/a2a/echo"
    assert body["params"]["message"]["parts"][0]["text"] == 'it\'s "quoted" $HOME `id` </pre> \\'
    assert "Authorization: Bearer YOUR-KEY" in words
    ast.parse(samples["Python"])
    assert "YOUR-KEY" in samples["Python"]
    assert "</pre> \\" not in ada_browser.get("/agents/echo").text


def test_offered_agents_show_lines_for_mcp_clients(ada_browser, echo, settings):
    assert ada_browser.get("/agents/echo").context["mcp_clients"] == []
    Agent.objects.filter(pk=echo.pk).update(mcp_tools="agent")
    lines = ada_browser.get("/agents/echo").context["mcp_clients"]
    assert len(lines) > 5
    assert all(f"{settings.PUBLIC_BASE_URL}/mcp" in line for _, line in lines)
    settings.OAUTH_OPEN_REGISTRATION = False
    assert ada_browser.get("/agents/echo").context["mcp_clients"] == []


def test_the_documentation_has_these_lines():
    page = (ROOT / "docs" / "doors" / "mcp.md").read_text()
    for name, line in mcp_clients.connections("http://127.0.0.1:8000/mcp"):
        assert f"- **{name}**: `{line}`" in page


def test_an_address_names_an_example_and_cannot_put_words_in(ada_browser, echo):
    for number in ["1", "-1", "9" * 400, "²"]:
        assert 'data-words="Anything at all"' in ada_browser.get("/agents/echo?example=0").text, number
        assert 'data-words=""' in ada_browser.get("/agents/echo", {"example": number}).text, number


def test_ones_own_sessions_with_it_are_listed_and_its_versions_for_who_may_look(
    ada_browser, bob_browser, ada, echo, countdown
):
    own = telling.finished(ada, echo)
    telling.finished(ada, countdown)
    page = ada_browser.get("/agents/echo").context["recent_sessions"]
    assert [one.pk for one in page] == [own.context]
    assert bob_browser.get("/agents/echo").context["recent_sessions"] == []
    assert "Version 1" not in ada_browser.get("/agents/echo").text
    ada.user_permissions.add(Permission.objects.get(codename="view_agentversion"))
    assert "Version 1</a> (current)" in ada_browser.get("/agents/echo").text


def test_what_a_card_says_is_text_and_nothing_of_it_is_loaded(ada_browser, ada, cards_at):  # noqa: F811
    evil = "<img src=x onerror=alert(1)>"
    skill = {
        "id": "s",
        "name": evil,
        "description": evil,
        "tags": [evil, "'\"><script>alert(1)</script>"],
        "examples": [evil],
    }
    card = cards_at.card(name=evil, description=evil, skills=[skill], iconUrl="https://evil.example/icon.png")
    cards_at.pages[WELL_KNOWN] = card
    register_remote("evil", card=json.dumps(card), access="authenticated")
    for address in ("/agents", "/agents?q=evil", "/agents/evil", "/agents/evil?example=0", "/agents/evil/try"):
        page = ada_browser.get(address).text
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert "evil.example/icon" not in page
        assert "&lt;img src=x" in page or "\\u003Cimg src=x" in page, address


def test_the_console_is_for_agents_that_the_person_may_use(ada_browser, echo, client):
    page = ada_browser.get("/agents/echo/try")
    assert page.status_code == 200
    assert page.context["console"]["path"] == "/a2a/echo"
    assert "try_" not in page.text.replace("try_agent", "")
    assert ada_browser.get("/agents/nobody/try").status_code == 404
    assert client.get("/agents/echo/try").status_code == 302
    Agent.objects.update(access=Agent.Access.GROUPS)
    assert ada_browser.get("/agents/echo/try").status_code == 404
