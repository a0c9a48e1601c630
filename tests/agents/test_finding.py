"""Permitted agents are found by words and by their cards."""

import pytest
from django.utils import timezone

from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent, AgentStats
from apps.agents.registration import house_workspace
from apps.agents.search import categories_of, find_agents, modes_of, tags_of

pytestmark = pytest.mark.django_db


def made(name, *skills, **fields):
    plain = {"kind": "remote", "description": f"The agent {name}.", "access": "public", "skills": list(skills)}
    known = {"slug": name.lower(), "name": name, "workspace": house_workspace()}
    return Agent.objects.create(**{**known, **plain, **fields})


def skill(name, *tags, **fields):
    return {"id": name.lower().replace(" ", "-"), "name": name, "description": f"{name}.", "tags": list(tags), **fields}


@pytest.fixture
def polyglot(db):
    return made("Polyglot", skill("Translate", "language", "French"), input_modes=["text/plain", "audio/mpeg"])


@pytest.fixture
def painter(db):
    return made("Painter", skill("Draw pictures", "art", outputModes=["image/png"]), description="Paints what you say.")


def found(*text, principal=ANONYMOUS, **asked):
    return [agent.slug for agent in find_agents(principal, *text, **asked)]


def test_words_find_what_agents_and_their_skills_say(polyglot, painter):
    for text, slugs in [
        ("", ["painter", "polyglot"]),
        ("translate", ["polyglot"]),
        ("please translate this into FRENCH", ["polyglot"]),
        ("paints", ["painter"]),
        ("poly", ["polyglot"]),
        ("pictures or language", ["painter", "polyglot"]),
        ("submarine", []),
        ("   ", ["painter", "polyglot"]),
    ]:
        assert sorted(found(text)) == slugs, text


def test_filters_narrow_what_is_found(polyglot, painter):
    for asked, slugs in [
        ({"skill": "translate"}, ["polyglot"]),
        ({"skill": "Draw Pictures"}, ["painter"]),
        ({"skill": "draw"}, []),
        ({"tag": "french"}, ["polyglot"]),
        ({"tag": "fren"}, []),
        ({"mode": "audio/mpeg"}, ["polyglot"]),
        ({"mode": "image/png"}, ["painter"]),
        ({"mode": "image/*"}, ["painter"]),
        ({"mode": "text/plain"}, ["painter", "polyglot"]),
        ({"kind": "remote", "tag": "art"}, ["painter"]),
        ({"kind": "hosted"}, []),
        ({"health": "degraded"}, []),
    ]:
        assert found(**asked) == slugs, asked
    agents = Agent.objects.all()
    assert tags_of(agents) == ["French", "art", "language"]
    assert modes_of(agents) == ["audio/mpeg", "image/png", "text/plain"]


def test_an_agent_that_is_not_well_comes_later_and_is_not_dropped(polyglot, painter):
    Agent.objects.filter(pk=painter.pk).update(health="unavailable")
    assert found() == ["polyglot", "painter"]
    assert found("agent paints pictures polyglot")[-1] == "painter"
    assert found(health="unavailable") == ["painter"]


def test_an_unlisted_agent_is_not_found_and_still_open_to_those_who_may_use_it(polyglot, painter, ada):
    Agent.objects.filter(pk=painter.pk).update(listed=False)
    assert found() == found("pictures language") == ["polyglot"]
    assert Agent.objects.get(slug="painter").is_open_to(ada.principal)


def test_without_words_the_pinned_the_last_used_and_the_most_used_come_first(db):
    for name in ("Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta"):
        made(name)
    Agent.objects.filter(slug="zeta").update(pinned=1)
    Agent.objects.filter(slug="epsilon").update(pinned=2)
    Agent.objects.filter(slug="alpha").update(health="unavailable", pinned=1)
    AgentStats.objects.create(agent=Agent.objects.get(slug="gamma"), tasks=3, messages=2, updated_at=timezone.now())
    used = {Agent.objects.get(slug="delta").pk: 1000.0}
    order = [agent.slug for agent in find_agents(ANONYMOUS, last_used=used)]
    assert order == ["zeta", "epsilon", "delta", "gamma", "beta", "alpha"]
    assert found() == ["zeta", "epsilon", "gamma", "beta", "delta", "alpha"]


def test_a_category_is_a_filter(polyglot, painter):
    Agent.objects.filter(pk=painter.pk).update(category="Art")
    assert found(category="art") == ["painter"]
    assert found(category="Sports") == []
    assert categories_of(Agent.objects.all()) == ["Art"]


def test_nobody_finds_what_they_may_not_use(polyglot, painter, ada):
    Agent.objects.filter(pk=painter.pk).update(access="authenticated")
    Agent.objects.filter(pk=polyglot.pk).update(is_enabled=False)
    assert found("pictures") == []
    assert found("pictures", principal=ada.principal) == ["painter"]
    assert found("translate", principal=ada.principal) == []


def test_finding_is_one_query_however_many_agents_there_are(django_assert_num_queries):
    for number in range(200):
        agent = made(f"Agent{number}", skill(f"Skill {number}", "art"))
        AgentStats.objects.create(agent=agent, updated_at=timezone.now())
    with django_assert_num_queries(1):
        assert len(find_agents(ANONYMOUS, "skill", tag="art", mode="text/plain", health="ok")) == 200
    with django_assert_num_queries(1):
        assert len(find_agents(ANONYMOUS)) == 200


def test_ones_own_agents_come_first(ada, echo, countdown):
    Agent.objects.filter(pk=countdown.pk).update(owner=ada)
    assert found(principal=ada.principal)[0] == "countdown"
