"""Plans by the client API; errors name the path."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from jsonschema import Draft202012Validator

from apps.accounts import workspaces
from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import RESERVED_SLUGS, register_plan
from parley import db
from tests.clients.calling import Caller

pytestmark = pytest.mark.django_db(transaction=True)

STORY: dict[str, Any] = {
    "name": "Story",
    "description": "Writes a story.",
    "inputs": {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}},
    "steps": {
        "draft": {"agent": "loud", "message": "About {{ inputs.topic }}."},
        "count": {"agent": "counting", "message": "{{ steps.draft.text }}"},
    },
}
WRONG = {**STORY, "steps": {"draft": {"agent": "nobody", "message": "{{ inputs.city }}"}}, "outputs": ["end"]}
PATHS = ["outputs.0", "steps.draft.agent", "steps.draft.message"]


@pytest.fixture
def story(agents, ada):
    return register_plan("story", PlanDefinition.read(STORY), author=ada)


def saved(slug: str = "tale", **fields: Any) -> dict[str, Any]:
    return {"slug": slug, "definition": STORY, **fields}


async def test_plan_has_definition_inputs_and_versions(ada_calls, story):
    [listed] = (await ada_calls.get("/plans")).body["items"]
    assert (listed["slug"], listed["version"], listed["steps"], listed["mayChange"]) == ("story", 1, 2, True)
    shown = (await ada_calls.get("/plans/story")).body
    assert shown["definition"] == STORY
    assert list(shown["definition"]["steps"]) == ["draft", "count"]
    assert shown["inputs"] == STORY["inputs"]
    assert PlanDefinition.from_yaml(shown["yaml"]).as_json == STORY
    assert [one["number"] for one in shown["versions"]] == [1]
    assert (await ada_calls.get("/plans/loud")).code == "not_found", "it is an agent, and no plan"


async def test_change_is_a_version_conflict_is_refused(ada_calls, story):
    again = (await ada_calls.put("/plans/story", {"definition": STORY})).body
    assert again["version"] == 1
    other = {**STORY, "name": "Another story"}
    newer = (await ada_calls.put("/plans/story", {"definition": other, "base": 1})).body
    assert (newer["version"], newer["name"], len(newer["versions"])) == (2, "Another story", 2)
    assert (await ada_calls.get("/plans/story?version=1")).body["definition"]["name"] == "Story"
    assert (await ada_calls.get("/plans/story?version=3")).code == "not_found"
    late = await ada_calls.put("/plans/story", {"definition": {**STORY, "name": "Late"}, "base": 1})
    assert late.code == "conflict", "who saves over a version that they have not seen"
    assert (await ada_calls.get("/plans/story")).body["name"] == "Another story"


async def test_somebody_elses_plan_is_used_and_not_changed(ada_calls, bob_calls, story):
    await ada_calls.put("/plans/story", {"definition": {**STORY, "name": "Newer"}})
    await db.run(Agent.objects.filter(pk=story.pk).update, access=Agent.Access.AUTHENTICATED)
    assert not (await bob_calls.get("/plans/story")).body["mayChange"]
    assert (await bob_calls.put("/plans/story", {"definition": STORY})).code == "forbidden"
    assert (await bob_calls.get("/plans/story?version=2")).status == 200
    assert (await bob_calls.get("/plans/story?version=1")).code == "not_found"
    assert (await bob_calls.post("/plans", saved("story"))).fields == ["slug"]


async def test_key_changes_only_plans_within_its_reach(ada, story):
    def limited_keys() -> list[str]:
        team = workspaces.create_workspace(ada.principal, "Team")
        limits: list[dict[str, Any]] = [{"agents": ["loud"]}, {"workspace_id": team.pk}]
        return [ApiKey.issue(ada, "limited", **limit)[1] for limit in limits]

    for key in await db.run(limited_keys):
        answer = await Caller(key).put("/plans/story", {"definition": {**STORY, "name": "Theirs"}})
        assert answer.code == "not_found"
    assert (await db.run(Agent.objects.get, slug="story")).name == "Story"


async def test_wrong_plans_are_refused_by_path(ada_calls, agents):
    answer = await ada_calls.post("/plans", saved(definition=WRONG))
    assert answer.code == "invalid"
    assert sorted(answer.fields) == PATHS
    assert not await db.run(Agent.objects.filter(slug="tale").exists)
    told = (await ada_calls.post("/plans/check", {"definition": WRONG})).body
    assert not told["isValid"]
    assert sorted(one["path"] for one in told["problems"]) == PATHS
    told = (await ada_calls.post("/plans/check", {"definition": STORY})).body
    assert (told["isValid"], told["problems"], told["definition"]) == (True, [], STORY)
    told = (await ada_calls.post("/plans/check", {"yaml": "steps: ["})).body
    assert (told["isValid"], told["definition"], told["problems"][0]["path"]) == (False, None, "file")
    for slug in RESERVED_SLUGS:
        assert (await ada_calls.post("/plans", saved(slug))).fields == ["slug"]
    assert not await db.run(Agent.objects.filter(kind="plan").exists)


async def test_operators_alone_say_who_may_use_a_plan(ada_calls, ada, agents):
    assert (await ada_calls.post("/plans", saved(access="authenticated"))).fields == ["access"]
    may = await db.run(Permission.objects.get, codename="change_agent")
    await db.run(ada.user_permissions.add, may)
    assert (await ada_calls.post("/plans", saved(access="authenticated"))).body["access"]


async def test_anybody_reads_the_schema_of_plans(anybody):
    answer = await anybody.get("/plans/schema")
    assert answer.headers["content-type"] == "application/schema+json"
    schema = answer.body
    assert schema["$id"].endswith("/api/v1/plans/schema")
    Draft202012Validator.check_schema(schema)
    assert not list(Draft202012Validator(schema).iter_errors(STORY))
    assert list(Draft202012Validator(schema).iter_errors({**STORY, "stepps": {}}))
    assert "max-age" in answer.headers["cache-control"]
    again = await anybody.get("/plans/schema", if_none_match=answer.headers["etag"])
    assert (again.status, again.content) == (304, b"")


async def test_plan_is_drafted_and_not_saved(ada_calls, echo, countdown):
    drafted = await ada_calls.post("/plans/draft", {"goal": "Count down from 5. Then echo the text."})
    assert drafted.status == 200, drafted.body
    assert [step["agent"] for step in drafted.body["definition"]["steps"].values()] == ["countdown", "echo"]
    assert (await ada_calls.post("/plans/check", {"yaml": drafted.body["yaml"]})).body["problems"] == []
    assert not await Agent.objects.filter(kind="plan").aexists()
    assert (await ada_calls.post("/plans/draft", {"goal": ""})).status == 422
    await Agent.objects.aupdate(is_enabled=False)
    assert (await ada_calls.post("/plans/draft", {"goal": "Count down"})).status == 409
