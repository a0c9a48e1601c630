"""What pages offer people whose role lets them only read."""

import re

import pytest
from django.urls import resolve, reverse

from apps.accounts.models import User
from apps.accounts.permissions import Role
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.web.roles import role_refusal
from tests.members import member
from tests.web import telling

pytestmark = pytest.mark.django_db

ACTION = re.compile(r'(?:hx-post|action)="(/[^"?#]*)"')
HIDDEN = re.compile(r"<form[^>]*\bhidden\b.*?</form>", re.DOTALL)
FOR_BUILDERS = ("add-agent", "new-plan")


@pytest.fixture
def viewer(ada, bob):
    return member(bob, ada, Role.VIEWER)


@pytest.fixture
def plan(ada):
    steps = {"one": {"agent": "echo", "message": "x"}}
    read = PlanDefinition.read({"name": "P", "description": "P.", "steps": steps})
    return register_plan("p", read, author=ada, access=Agent.Access.WORKSPACE)


@pytest.mark.parametrize("name", ["home", "agents", "agent", "plans", "plan", "inbox"])
def test_viewers_are_offered_nothing_that_would_be_refused(name, viewer, echo, plan, bob, bob_browser):
    telling.asked(
        User.objects.get(pk=bob.pk), echo, {"name": "which", "schema": {"type": "string"}}, "which?"
    )  # before the role changed
    slugs = {"agent": {"slug": "echo"}, "plan": {"slug": plan.slug}}
    shown = bob_browser.get(reverse(f"web:{name}", kwargs=slugs.get(name, {})))
    assert shown.status_code == 200
    text = HIDDEN.sub("", shown.content.decode())
    offered = {address: role_refusal(viewer, resolve(address)) for address in ACTION.findall(text)}
    assert {address for address, refusal in offered.items() if refusal} == set()
    assert "data-new" not in text
    assert not [one for one in FOR_BUILDERS if f'href="{reverse(f"web:{one}")}"' in text]


@pytest.mark.parametrize("name", FOR_BUILDERS)
def test_viewers_cannot_open_a_form_for_builders(name, viewer, bob_browser):
    assert bob_browser.get(reverse(f"web:{name}")).status_code == 403
