"""The showcase may be loaded again and again: what people changed stays as they left it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.orchestration.registration import define
from apps.showcase.first_login import FirstLogin
from apps.showcase.loading import ADMIN, DEMO, PLANS, load, plan

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


def test_the_first_time_makes_two_people_and_the_agents() -> None:
    logins = load().logins
    assert User.objects.get(email=DEMO).check_password(logins.passwords[DEMO])
    operator = User.objects.get(email=ADMIN)
    assert operator.is_staff
    assert operator.is_superuser
    access = dict(Agent.objects.values_list("slug", "access"))
    assert access.pop("hello") == "public"
    assert access == dict.fromkeys(access, "authenticated")
    assert access.keys() == {
        "assistant", "builder", "builder-worker", "countdown", "echo", "report", "research", "research-analysis",
        "research-assays", "research-candidates", "research-hypotheses", "research-literature", "research-molecules",
        "research-report", "reviewer", "router", "smart-router", "translator", "travel", "trip", "trip-flights",
        "trip-hotels", "trip-itinerary", "trip-weather", "writer",
    }  # fmt: skip


def test_what_was_made_is_kept_in_a_file() -> None:
    made = load().logins
    assert FirstLogin.read() == made
    assert FirstLogin.path().stat().st_mode & 0o777 == 0o600


def test_the_second_time_changes_nothing() -> None:
    made = load().logins
    assert load().logins == made
    assert User.objects.count() == 2
    assert ApiKey.objects.count() == 1


def test_a_changed_password_and_a_revoked_key_stay_so() -> None:
    load()
    demo = User.objects.get(email=DEMO)
    demo.set_password("my own")
    demo.save()
    demo.api_keys.get().revoke()
    load()
    demo.refresh_from_db()
    assert demo.check_password("my own")
    assert ApiKey.objects.get().revoked_at


def test_what_operators_decided_about_an_agent_stays_so() -> None:
    load()
    Agent.objects.filter(slug="hello").update(access=Agent.Access.AUTHENTICATED, is_enabled=False)
    load()
    hello = Agent.objects.get(slug="hello")
    assert hello.access == Agent.Access.AUTHENTICATED
    assert not hello.is_enabled


def test_somebodys_own_agent_of_the_same_name_is_left_alone() -> None:
    register_hosted("echo", "apps.showcase.agents.hello:Hello")
    load()
    assert Agent.objects.get(slug="echo").handler == "apps.showcase.agents.hello:Hello"


def test_both_plans_are_registered_by_the_installation_once() -> None:
    assert load().problems == load().problems == ()
    for slug in PLANS:
        plan_agent = Agent.objects.get(slug=slug)
        assert (plan_agent.kind, plan_agent.versions.count()) == (Agent.Kind.PLAN, 1)


def test_a_plan_that_somebody_edited_stays_as_they_left_it() -> None:
    load()
    operator = User.objects.get(email=ADMIN)
    edited = plan("trip").model_copy(update={"description": "Mine."})
    define(Agent.objects.get(slug="trip"), edited, author=operator)
    load()
    assert Agent.objects.get(slug="trip").description == "Mine."


def test_a_plan_without_its_agents_is_left_out_with_a_sentence() -> None:
    register_hosted("trip-weather", "apps.showcase.agents.hello:Hello")
    Agent.objects.filter(slug="trip-weather").update(is_enabled=False)
    (problem,) = load().problems
    assert problem.startswith("The plan 'trip' is left out. ")
    assert not Agent.objects.filter(slug="trip").exists()


def test_a_new_database_beside_an_old_file_gets_new_secrets() -> None:
    FirstLogin({DEMO: "old", ADMIN: "old"}, {DEMO: "parley_old_key"}).write()
    logins = load().logins
    assert "old" not in logins.passwords.values()
    assert logins.api_keys[DEMO] != "parley_old_key"
    assert FirstLogin.read() == logins
