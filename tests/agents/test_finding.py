"""Permitted agents are found by words and by their cards; skills match a text by the words that they share."""

import pytest
from django.utils import timezone

from apps.accounts.principals import ANONYMOUS
from apps.agents.models import Agent, AgentStats
from apps.agents.registration import house_workspace
from apps.agents.search import SkillIndex, categories_of, find_agents, modes_of, tags_of, words_of


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


def changed(agent, **fields):
    Agent.objects.filter(pk=agent.pk).update(**fields)


def test_words_and_filters_narrow_what_is_found(polyglot, painter):
    changed(painter, category="Art")
    for text, asked, slugs in [
        ("", {}, ["painter", "polyglot"]),
        ("please translate this into FRENCH", {}, ["polyglot"]),
        ("paints", {}, ["painter"]),
        ("pictures or language", {}, ["painter", "polyglot"]),
        ("submarine", {}, []),
        ("", {"skill": "Draw Pictures"}, ["painter"]),
        ("", {"skill": "draw"}, []),
        ("", {"tag": "french"}, ["polyglot"]),
        ("", {"tag": "fren"}, []),
        ("", {"mode": "audio/mpeg"}, ["polyglot"]),
        ("", {"mode": "image/*"}, ["painter"]),
        ("", {"kind": "remote", "tag": "art"}, ["painter"]),
        ("", {"kind": "hosted"}, []),
        ("", {"health": "degraded"}, []),
        ("", {"category": "art"}, ["painter"]),
    ]:
        assert sorted(found(text, **asked)) == slugs, (text, asked)
    agents = Agent.objects.all()
    assert (tags_of(agents), categories_of(agents)) == (["French", "art", "language"], ["Art"])
    assert modes_of(agents) == ["audio/mpeg", "image/png", "text/plain"]


def test_unlisted_disabled_and_forbidden_agents_are_not_found(polyglot, painter, ada):
    changed(painter, access="authenticated")
    assert found("pictures") == []
    assert found("pictures", principal=ada.principal) == ["painter"]
    changed(painter, listed=False)
    assert found("pictures language", principal=ada.principal) == ["polyglot"]
    assert Agent.objects.get(slug="painter").is_open_to(ada.principal)
    changed(polyglot, is_enabled=False)
    assert found("translate", principal=ada.principal) == []


def test_own_pinned_healthy_and_used_come_first(ada, echo):
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
    assert found("alpha beta agent")[-1] == "alpha", "although its words fit best"
    changed(echo, owner=ada)
    assert found(principal=ada.principal)[0] == "echo"


def test_finding_is_one_query_however_many_there_are(db, django_assert_num_queries):
    for number in range(20):
        agent = made(f"Agent{number}", skill(f"Skill {number}", "art"))
        AgentStats.objects.create(agent=agent, updated_at=timezone.now())
    with django_assert_num_queries(1):
        assert len(find_agents(ANONYMOUS, "skill", tag="art", mode="text/plain", health="ok")) == 20


# How well a skill fits a text

TRANSLATE = skill("Translate", "french", "german", description="Turns a text into another language.")
COUNT = skill("Countdown", "numbers", description="Counts from a number.")


def scores(asked, *skills):
    return SkillIndex(skills).scores(words_of(asked))


def test_a_skill_is_found_by_any_field():
    assert scores("translate into French", TRANSLATE, COUNT) == [pytest.approx(2 / 3, abs=1e-3), 0.0]
    assert scores("bake bread", TRANSLATE, COUNT) == [0.0, 0.0]
    assert SkillIndex([]).matches(["translate"]) == []
    for fields in ({"name": "Zebra"}, {"description": "zebra"}, {"tags": ["zebra"]}, {"examples": ["zebra"]}):
        assert scores("a ZEBRA", skill("S") | fields)[0] > 0.4, fields
    [match] = SkillIndex([TRANSLATE]).matches(words_of("Translate into French or german"))
    assert match.words == ("translate", "french", "german")
    assert match.reasons == ["shares the words translate, french, german"]
    assert match.tags == ["french", "german"]
