"""Loading the showcase again keeps people's changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.plans import graphs
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import update_plan
from apps.web.settings.erasure import erase_account
from examples.showcase import ADMIN, DEMO, PLANS, FirstLogin, load_showcase, plan_file
from tests.examples.pipelines import HANDLERS

pytestmark = pytest.mark.django_db


def showcase_plan(slug: str) -> PlanDefinition:
    return PlanDefinition.from_yaml(plan_file(slug).read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


def test_two_people_and_the_agents_are_made_once_and_kept_in_a_file() -> None:
    FirstLogin({DEMO: "old", ADMIN: "old"}, {DEMO: "parley_old_key"}).write()  # from another database
    made = load_showcase()
    assert "old" not in made.logins.passwords.values()
    assert made.logins.api_keys[DEMO] != "parley_old_key"
    assert User.objects.get(email=DEMO).check_password(made.logins.passwords[DEMO])
    operator = User.objects.get(email=ADMIN)
    assert (operator.is_staff, operator.is_superuser) == (True, True)
    access = dict(Agent.objects.values_list("slug", "access"))
    assert access.pop("hello") == "public"
    assert access == dict.fromkeys(access, "authenticated")
    assert {"echo", "report", "research", "research-report", "smart-router", "travel", "trip", "writer"} <= set(access)
    assert FirstLogin.read() == made.logins
    assert FirstLogin.path().stat().st_mode & 0o777 == 0o600
    again = load_showcase()
    assert (again.logins, again.problems, made.problems) == (made.logins, (), ())
    assert (User.objects.count(), ApiKey.objects.count(), Agent.objects.count()) == (2, 1, len(access) + 1)
    for slug in PLANS:
        registered = Agent.objects.get(slug=slug)
        assert (registered.kind, registered.versions.count()) == (Agent.Kind.PLAN, 1)


def test_people_see_whole_agents_with_a_category_and_not_the_workers_of_a_plan() -> None:
    load_showcase()
    assert not Agent.objects.listed().filter(category="").exists()
    workers = {step.agent for slug in PLANS for step in showcase_plan(slug).steps.values() if step.agent}
    assert not Agent.objects.listed().filter(slug__in=workers).exists()
    assert Agent.objects.listed().filter(slug__in=PLANS).count() == len(PLANS)


def test_each_step_of_a_plan_names_a_skill_that_its_agent_has() -> None:
    for name in PLANS:
        assert graphs.graph_problems(showcase_plan(name)) == []
        for step in showcase_plan(name).steps.values():
            skills = [skill.id for skill in HANDLERS[step.agent].skills] if step.agent else []
            assert step.skill in skills if step.skill else len(skills) <= 1
    waits = graphs.dependencies(showcase_plan("research"))
    assert waits["assay"] == waits["molecules"] == {"hypotheses"}
    assert graphs.dependencies(showcase_plan("trip"))["itinerary"] == {"weather", "flight", "hotel"}


def test_what_people_changed_stays_so() -> None:
    register_hosted("echo", "examples.agents.hello:Hello")  # somebody's own agent with that name
    load_showcase()
    demo = User.objects.get(email=DEMO)
    demo.set_password("my own")
    demo.save()
    demo.api_keys.get().revoke()
    Agent.objects.filter(slug="hello").update(access=Agent.Access.AUTHENTICATED, is_enabled=False)
    edited = showcase_plan("trip").model_copy(update={"description": "Mine."})
    update_plan(Agent.objects.get(slug="trip"), edited, author=User.objects.get(email=ADMIN))
    load_showcase()
    demo.refresh_from_db()
    assert demo.check_password("my own")
    assert ApiKey.objects.get().revoked_at
    hello = Agent.objects.get(slug="hello")
    assert (hello.access, hello.is_enabled) == (Agent.Access.AUTHENTICATED, False)
    assert Agent.objects.get(slug="trip").description == "Mine."
    assert Agent.objects.get(slug="echo").handler == "examples.agents.hello:Hello"


def test_a_person_who_took_another_address_or_deleted_the_account_is_not_made_again() -> None:
    load_showcase()
    User.objects.filter(email=ADMIN).update(email="ada@example.org")
    erase_account(User.objects.get(email=DEMO))
    load_showcase()
    assert not User.objects.filter(email__in=(ADMIN, DEMO)).exists()
    assert User.objects.filter(is_superuser=True).count() == 1


def test_a_plan_without_its_agents_is_left_out_with_a_sentence() -> None:
    register_hosted("trip-weather", "examples.agents.hello:Hello")
    Agent.objects.filter(slug="trip-weather").update(is_enabled=False)
    (problem,) = load_showcase().problems
    assert problem.startswith("The plan 'trip' is left out. ")
    assert not Agent.objects.filter(slug="trip").exists()
