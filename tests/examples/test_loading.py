"""Loading the showcase again keeps people's changes."""

import pytest

from apps.accounts.models import ApiKey, User
from apps.accounts.people.erasure import erase
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import update_plan
from examples import showcase
from examples.showcase import ADMIN, DEMO, PLANS, FirstLogin, load_showcase, plan_file

pytestmark = pytest.mark.django_db


def showcase_plan(slug):
    return PlanDefinition.from_yaml(plan_file(slug).read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, settings):
    settings.DATA_DIR = tmp_path


def test_people_and_agents_are_made_once():
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
    assert not Agent.objects.listed().filter(category="").exists()
    workers = {step.agent for slug in PLANS for step in showcase_plan(slug).steps.values() if step.agent}
    assert not Agent.objects.listed().filter(slug__in=workers).exists()
    assert Agent.objects.listed().filter(slug__in=PLANS).count() == len(PLANS)


def test_what_people_changed_stays_so():
    register_hosted("echo", "examples.agents.hello:Hello")  # somebody's own agent with that name
    load_showcase()
    demo = User.objects.get(email=DEMO)
    demo.set_password("my own")
    demo.save()
    demo.api_keys.get().revoke()
    Agent.objects.filter(slug="hello").update(access=Agent.Access.AUTHENTICATED, is_enabled=False)
    Agent.objects.filter(slug="writer").update(handler="examples.agents.gone:Writer")  # of a version before
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
    assert Agent.objects.get(slug="writer").handler == "examples.agents.writer:Writer"
    User.objects.filter(email=ADMIN).update(email="ada@example.org")
    erase(demo)
    load_showcase()
    assert not User.objects.filter(email__in=(ADMIN, DEMO)).exists(), "who left is not made again"
    assert User.objects.filter(is_superuser=True).count() == 1


def test_what_cannot_be_loaded_is_left_out(monkeypatch):
    monkeypatch.setattr(showcase, "PACKAGES", ("json", "no_such_package"))
    (problem,) = load_showcase().problems
    assert "(no_such_package)" in problem
    assert "parley-platform[showcase]" in problem
    monkeypatch.undo()
    Agent.objects.filter(slug__startswith="trip").delete()
    register_hosted("trip-weather", "examples.agents.hello:Hello")
    Agent.objects.filter(slug="trip-weather").update(is_enabled=False)
    (problem,) = load_showcase().problems
    assert problem.startswith("The plan 'trip' is left out. ")
    assert not Agent.objects.filter(slug="trip").exists()
