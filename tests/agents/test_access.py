"""Only permitted callers find an agent."""

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from apps.accounts.models import ApiKey, Membership
from apps.accounts.principals import ANONYMOUS
from apps.accounts.workspaces import create_workspace
from apps.agents.models import Agent

pytestmark = pytest.mark.django_db


def seen_by(principal) -> list[str]:
    return [agent.slug for agent in Agent.objects.visible_to(principal)]


def test_a_public_agent_is_everybodys_and_one_that_is_switched_off_nobodys(echo, ada):
    Agent.objects.update(access="public")
    assert seen_by(ANONYMOUS) == seen_by(ada.principal) == ["echo"]
    Agent.objects.update(access="public", is_enabled=False)
    assert seen_by(ada.principal) == seen_by(ANONYMOUS) == []


def test_an_agent_for_those_who_signed_in_is_hidden_from_anonymous_callers_and_open_to_their_keys(echo, ada):
    assert seen_by(ada.principal) == ["echo"]
    assert seen_by(ANONYMOUS) == []
    key, _ = ApiKey.issue(ada, "laptop")
    assert seen_by(key.principal) == ["echo"]


def test_an_agent_of_groups_is_its_members_alone(echo, ada, bob):
    Agent.objects.update(access="groups")
    lab, office = Group.objects.create(name="Lab"), Group.objects.create(name="Office")
    echo.groups.add(lab, office)
    ada.groups.add(lab, office)
    assert seen_by(ada.principal) == ["echo"]
    assert seen_by(bob.principal) == []
    assert seen_by(ANONYMOUS) == []


def test_groups_of_an_agent_count_only_where_its_access_says_groups(echo, ada):
    lab = Group.objects.create(name="Lab")
    echo.groups.add(lab)
    assert seen_by(ada.principal) == ["echo"]
    Agent.objects.update(access="groups")
    assert seen_by(ada.principal) == []


def test_who_sees_what_is_one_query(echo, countdown, ada, django_assert_num_queries):
    principal = ada.principal
    with django_assert_num_queries(1):
        assert seen_by(principal) == ["countdown", "echo"]


def test_an_agent_takes_the_media_types_it_names():
    for modes, taken, refused in [
        (["text/plain"], ["text/plain"], ["text/csv", "image/png"]),
        (["text/*"], ["text/plain", "text/csv"], ["application/json"]),
        (["*/*"], ["application/json", "image/png"], []),
        (["image/png", "text/csv"], ["image/png", "text/csv"], ["text/plain"]),
    ]:
        agent = Agent(input_modes=modes)
        assert all(agent.takes(media_type) for media_type in taken), modes
        assert not any(agent.takes(media_type) for media_type in refused), modes


def test_an_agent_says_of_itself_what_a_query_says(echo, ada, bob):
    lab = Group.objects.create(name="Lab")
    echo.groups.add(lab)
    ada.groups.add(lab)
    echo.workspace, echo.owner = ada.personal_workspace, ada
    for access in Agent.Access.values:
        for is_enabled in (True, False):
            echo.access, echo.is_enabled = access, is_enabled
            echo.save()
            for principal in (ada.principal, bob.principal, ANONYMOUS):
                assert echo.is_open_to(principal) == (seen_by(principal) == ["echo"])


def test_an_agent_of_a_workspace_is_its_members_alone(echo, ada, bob):
    Agent.objects.update(access="workspace", workspace=ada.personal_workspace)
    assert seen_by(ada.principal) == ["echo"]
    assert seen_by(ApiKey.issue(ada, "laptop")[0].principal) == ["echo"]
    assert seen_by(bob.principal) == seen_by(ANONYMOUS) == []


def test_an_agent_of_its_maker_is_theirs_alone(echo, ada, bob):
    team = create_workspace(ada.principal, "Team")
    Membership.objects.create(workspace=team, user=bob, role="manager")
    Agent.objects.update(access="owner", owner=ada, workspace=team)
    assert seen_by(ada.principal_in(team.pk)) == ["echo"]
    assert seen_by(ada.principal) == seen_by(bob.principal_in(team.pk)) == seen_by(ANONYMOUS) == []


def test_the_card_of_what_is_for_some_alone_is_closed_to_others(echo):
    is_open = {}
    for access in Agent.Access.values:
        Agent.objects.update(access=access)
        echo.access = access
        is_open[access] = Agent.objects.with_open_card().exists()
        assert echo.has_open_card == is_open[access]
    assert is_open == {"public": True, "authenticated": True, "groups": False, "workspace": False, "owner": False}


def test_an_agent_is_not_kept_for_a_workspace_that_has_no_members(ada, echo):
    echo.access = "workspace"
    with pytest.raises(ValidationError, match="has no members"):
        echo.full_clean()
    echo.workspace = ada.personal_workspace
    echo.full_clean()
