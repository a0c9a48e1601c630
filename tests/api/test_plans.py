"""Plans by the client API; errors name the path."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Permission
from jsonschema import Draft202012Validator

import db
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import RESERVED_SLUGS, register_plan
from tests.api.calling import Caller

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
def story(agents: None, ada: User) -> Agent:
    return register_plan("story", PlanDefinition.read(STORY), author=ada)


def saved(slug: str = "tale", **fields: Any) -> dict[str, Any]:
    return {"slug": slug, "definition": STORY, **fields}


async def test_a_plan_is_listed_and_read_with_its_definition_its_inputs_and_its_versions(
    ada_calls: Caller, story: Agent
) -> None:
    [listed] = (await ada_calls.get("/plans")).body["items"]
    assert (listed["slug"], listed["version"], listed["steps"], listed["mayChange"]) == ("story", 1, 2, True)
    shown = (await ada_calls.get("/plans/story")).body
    assert shown["definition"] == STORY
    assert list(shown["definition"]["steps"]) == ["draft", "count"]
    assert shown["inputs"] == STORY["inputs"]
    assert PlanDefinition.from_yaml(shown["yaml"]).as_json == STORY
    assert [one["number"] for one in shown["versions"]] == [1]
    assert (await ada_calls.get("/plans/loud")).code == "not_found", "it is an agent, and no plan"


async def test_a_new_plan_is_its_authors_alone(ada_calls: Caller, bob_calls: Caller, agents: None) -> None:
    answer = await ada_calls.post("/plans", saved(note="The first."))
    made = answer.body
    assert (answer.status, made["access"], made["versions"][0]["note"]) == (201, "workspace", "The first.")
    assert (await bob_calls.get("/plans/tale")).code == "not_found"


async def test_yaml_is_as_good_as_json(ada_calls: Caller, story: Agent) -> None:
    text = (await ada_calls.get("/plans/story")).body["yaml"]
    made = (await ada_calls.post("/plans", {"slug": "tale", "yaml": text})).body
    assert made["versions"][0]["sha256"] == story.current_version.sha256
    for both_or_neither in ({"slug": "other"}, {"slug": "other", "yaml": text, "definition": STORY}):
        assert (await ada_calls.post("/plans", both_or_neither)).fields == ["definition"]


async def test_a_change_is_a_version_and_the_same_again_is_none(ada_calls: Caller, story: Agent) -> None:
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


async def test_somebody_elses_plan_is_used_and_not_changed(ada_calls: Caller, bob_calls: Caller, story: Agent) -> None:
    await ada_calls.put("/plans/story", {"definition": {**STORY, "name": "Newer"}})
    await db.run(Agent.objects.filter(pk=story.pk).update, access=Agent.Access.AUTHENTICATED)
    assert not (await bob_calls.get("/plans/story")).body["mayChange"]
    assert (await bob_calls.put("/plans/story", {"definition": STORY})).code == "forbidden"
    assert (await bob_calls.get("/plans/story?version=2")).status == 200
    assert (await bob_calls.get("/plans/story?version=1")).code == "not_found"
    assert (await bob_calls.post("/plans", saved("story"))).fields == ["slug"]


async def test_what_is_wrong_is_said_by_its_path_and_nothing_is_saved(ada_calls: Caller, agents: None) -> None:
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


async def test_an_agent_that_is_for_others_cannot_be_named(ada_calls: Caller, bob: User, story: Agent) -> None:
    home = await db.run(lambda: bob.personal_workspace)
    await db.run(Agent.objects.filter(slug="loud").update, access="workspace", workspace=home)
    told = (await ada_calls.post("/plans/check", {"definition": STORY})).body
    assert [one["path"] for one in told["problems"]] == ["steps.draft.agent"]


async def test_operators_alone_say_who_may_use_a_plan(ada_calls: Caller, ada: User, agents: None) -> None:
    assert (await ada_calls.post("/plans", saved(access="authenticated"))).fields == ["access"]
    may = await db.run(Permission.objects.get, codename="change_agent")
    await db.run(ada.user_permissions.add, may)
    assert (await ada_calls.post("/plans", saved(access="authenticated"))).body["access"]


async def test_the_picture_is_a_file_that_needs_nothing_else(ada_calls: Caller, story: Agent) -> None:
    answer = await ada_calls.get("/plans/story/picture")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    drawn = ElementTree.fromstring(answer.content)
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    words = "".join(drawn.itertext())
    assert "draft" in words
    assert "counting" in words
    assert all(one.get("href", "#").startswith("#") for one in drawn.iter())


async def test_anybody_reads_the_schema_which_says_what_a_plan_may_be(anybody: Caller) -> None:
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


async def test_a_plan_is_drafted_from_a_goal_and_not_saved(ada_calls, echo, countdown):
    drafted = await ada_calls.post("/plans/draft", {"goal": "Count down from 5. Then echo the text."})
    assert drafted.status == 200, drafted.body
    assert [step["agent"] for step in drafted.body["definition"]["steps"].values()] == ["countdown", "echo"]
    assert (await ada_calls.post("/plans/check", {"yaml": drafted.body["yaml"]})).body["problems"] == []
    assert not await Agent.objects.filter(kind="plan").aexists()
    assert (await ada_calls.post("/plans/draft", {"goal": ""})).status == 422
    await Agent.objects.aupdate(is_enabled=False)
    assert (await ada_calls.post("/plans/draft", {"goal": "Count down"})).status == 409
