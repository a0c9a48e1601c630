"""Only permitted callers find an agent, which takes the files that it names."""

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from agentkit.llm.reading import MODEL_INPUTS
from apps.accounts.models import ApiKey, Membership
from apps.accounts.principals import ANONYMOUS
from apps.accounts.workspaces import create_workspace
from apps.agents.intake import intake_of
from apps.agents.media_types import Intake
from apps.agents.models import Agent

pytestmark = pytest.mark.django_db


def seen_by(principal):
    return [agent.slug for agent in Agent.objects.visible_to(principal)]


@pytest.mark.parametrize(
    ("access", "openings"),
    [
        ("public", {"ada", "ada's key", "ada in the team", "bob", "bob in the team", "anonymous"}),
        ("authenticated", {"ada", "ada's key", "ada in the team", "bob", "bob in the team"}),
        ("groups", {"ada", "ada's key", "ada in the team"}),
        ("workspace", {"ada in the team", "bob in the team"}),
        ("owner", {"ada in the team"}),
    ],
)
def test_agents_are_open_to_their_callers_alone(access, openings, echo, ada, bob):
    team = create_workspace(ada.principal, "Team")
    Membership.objects.create(workspace=team, user=bob, role="manager")
    groups = [Group.objects.create(name=name) for name in ("Lab", "Office")]
    echo.groups.add(*groups)
    ada.groups.add(*groups)
    echo.access, echo.owner, echo.workspace = access, ada, team
    callers = {
        "ada": ada.principal,
        "ada's key": ApiKey.issue(ada, "laptop")[0].principal,
        "ada in the team": ada.principal_in(team.pk),
        "bob": bob.principal,
        "bob in the team": bob.principal_in(team.pk),
        "anonymous": ANONYMOUS,
    }
    for echo.is_enabled in (True, False):
        echo.save()
        found = {name for name, principal in callers.items() if seen_by(principal) == ["echo"]}
        assert found == (openings if echo.is_enabled else set())
        assert found == {name for name, principal in callers.items() if echo.is_open_to(principal)}


def test_only_cards_for_all_are_open(echo):
    for access in Agent.Access.values:
        Agent.objects.update(access=access)
        echo.access = access
        is_open = access in ("public", "authenticated")
        assert echo.has_open_card == Agent.objects.with_open_card().exists() == is_open


def test_no_agent_is_kept_for_nobody(ada, echo):
    echo.access = "workspace"
    with pytest.raises(ValidationError, match="has no members"):
        echo.full_clean()
    echo.workspace = ada.personal_workspace
    echo.full_clean()


@pytest.mark.parametrize(
    ("modes", "taken", "refused"),
    [
        (["text/plain"], ["text/plain"], ["text/csv", "image/png"]),
        (["text/*"], ["text/plain", "text/csv"], ["application/json"]),
        (["*/*"], ["application/json", "image/png"], []),
        (["image/png", "text/csv"], ["image/png", "text/csv"], ["text/plain"]),
    ],
)
def test_an_agent_takes_the_media_types_it_names(modes, taken, refused):
    agent = Agent(input_modes=modes)
    assert all(agent.takes(media_type) for media_type in taken)
    assert not any(agent.takes(media_type) for media_type in refused)


def test_media_types_in_words_and_for_dialogs():
    assert Intake(list(MODEL_INPUTS)).words == "text, pictures, PDFs and Office documents"
    assert Intake(["application/zip", "audio/*"]).words == "sound and .zip files"
    assert Intake(["text/plain", "*/*"]).words == ""
    assert {"text/*", ".go", "image/png"} <= set(Intake(["text/*", "image/png"]).accept.split(","))


def test_a_blind_model_is_given_no_pictures(settings):
    agent = Agent(kind="model", slug="clerk", name="Clerk", input_modes=["text/*", "image/png"])
    agent.skills = [{"id": "table", "inputModes": ["text/csv", "application/pdf"]}]
    settings.LLM_MODEL = "deepseek-chat"
    assert intake_of(agent).words == "text and PDFs"
    assert "image/png" in intake_of(agent, {"model": "gpt-4o@work"}).modes
