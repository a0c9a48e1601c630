"""Versions and rollouts on people's page, in the client API and in admin."""

import pytest
from django.urls import reverse

from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.agents.registration import define
from apps.agents.rollouts.models import Rollout
from apps.model_agents.forms import AgentForm
from tests import members
from tests.agents.definitions import clerk, definition

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(ada):
    made = clerk()
    Agent.objects.update(workspace=ada.personal_workspace, owner=ada)
    define(made, definition(instructions="Answer in two sentences."), as_candidate=True)
    return Agent.objects.get()


@pytest.fixture
def act(client, ada, agent):
    """Posts a form of the page."""
    client.force_login(ada)

    def act(name="agent-versions-act", number=None, **form):
        if number:
            form["version"] = number
        return client.post(reverse(f"web:{name}", args=["clerk"]), form)

    return act


def test_page_starts_and_ends_rollout(client, act, agent):
    act("agent-rollout", 2, percent="30")
    shown = client.get(reverse("web:agent-versions", args=["clerk"])).content.decode()
    assert "30 % of new sessions" in shown
    act("agent-rollout", 2, percent="60")
    assert Rollout.objects.get().percent == 60
    act(do="promote")
    assert Agent.objects.get().current_version.number == 2
    act(do="revert", number=1)
    assert Agent.objects.get().current_version.number == 3
    act(do="keep-versions")
    assert Agent.objects.get().session_versions == "kept"


def test_page_refuses_wrong_percent(act):
    answer = act("agent-rollout", 2, percent="101")
    assert (answer.status_code, Rollout.objects.count()) == (422, 0)


def test_others_find_no_versions(client, bob, agent, act):
    client.force_login(bob)
    for response in (client.get(reverse("web:agent-versions", args=["clerk"])), act(do="keep-versions")):
        assert response.status_code == 404


def test_page_asks_as_much_for_many_versions(client, ada, agent, act, django_assert_max_num_queries):
    for number in range(8):
        define(Agent.objects.get(), definition(instructions=f"Answer {number}."), author=ada)
    with django_assert_max_num_queries(30):
        client.get(reverse("web:agent-versions", args=["clerk"]))


@pytest.mark.django_db(transaction=True)
def test_api_rolls_out_and_back(client, ada, agent):
    headers = {"Authorization": f"Bearer {ApiKey.issue(ada, 'test')[1]}"}

    def ask(method, path, **body):
        ask_for = getattr(client, method)
        return ask_for(f"/api/v1/agents/clerk/{path}", body, content_type="application/json", headers=headers)

    answer = ask("put", "rollout", version=2, percent=20).json()
    assert (answer["currentVersion"], answer["rollout"]["version"], answer["rollout"]["percent"]) == (1, 2, 20)
    listed = client.get("/api/v1/agents/clerk/versions", headers=headers).json()["items"]
    assert [(one["number"], one["standing"]) for one in listed] == [(2, "candidate"), (1, "current")]
    assert ask("put", "rollout", version=1, percent=20).status_code == 409
    assert ask("put", "rollout", version=9, percent=20).status_code == 404
    assert ask("post", "rollout/promote").json()["currentVersion"] == 2
    assert ask("post", "rollout/abandon").status_code == 409
    assert ask("post", "versions/1/revert").json()["currentVersion"] == 3
    assert ask("post", "release/keep-versions").json()["sessionVersions"] == "kept"


def test_operator_rolls_out_in_admin(client, agent):
    operator = members.operator("eve@example.org", "change_agent", "view_agentversion", "view_rollout", "view_agent")
    client.force_login(operator)
    version = agent.versions.get(number=2)
    client.post(
        reverse("admin:agents_agentversion_roll_out", args=[version.pk]), {"percent": "5", "_form_submitted": "True"}
    )
    rollout = Rollout.objects.get()
    assert (rollout.percent, rollout.started_by) == (5, operator)
    client.post(reverse("admin:agents_rollout_abandon", args=[rollout.pk]), {"_form_submitted": "True"})
    assert Agent.objects.get().withdrawn_versions == [2]
    for act, rule in (("keep_versions", "kept"), ("use_newest", "newest")):
        client.post(reverse(f"admin:agents_agent_{act}", args=[agent.pk]), {"_form_submitted": "True"})
        assert Agent.objects.get().session_versions == rule


def test_form_saves_candidate_and_leaves_agent(client, ada, agent, act):
    form = AgentForm(ada, instance=agent)
    values = {name: form[name].value() for name in form.fields}
    kept = {name: value for name, value in values.items() if value not in (None, False, "")}
    changed = kept | {"name": "Chief clerk", "instructions": "Answer in three sentences.", "as_candidate": "on"}
    answer = client.post(reverse("web:edit-agent", args=["clerk"]), changed)
    assert answer.headers["Location"] == reverse("web:agent-versions", args=["clerk"])
    now = Agent.objects.get()
    assert (now.name, now.current_version.number) == ("Clerk", 1)
    assert now.versions.get(number=3).content["name"] == "Chief clerk"
