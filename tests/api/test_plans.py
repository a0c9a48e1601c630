"""Plans by the client API: found, read, checked and saved; what is wrong with one is said by its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import Permission
from jsonschema import Draft202012Validator

import bridge
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ
from apps.agents.models import Agent
from apps.orchestration.definitions import PlanDefinition
from apps.orchestration.registration import RESERVED_SLUGS, register_plan
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
    """A plan that is Ada's alone."""
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


async def test_a_plan_that_one_may_not_use_is_not_found(bob_calls: Caller, story: Agent) -> None:
    assert (await bob_calls.get("/plans")).body["items"] == []
    for path in ("/plans/story", "/plans/story/picture"):
        assert (await bob_calls.get(path)).code == "not_found"
    assert (await bob_calls.put("/plans/story", {"definition": STORY})).code == "not_found"
    assert (await bob_calls.post("/plans/runs", {"plan": "story"})).code == "not_found"


async def test_an_agent_that_is_no_plan_is_none_here(ada_calls: Caller, story: Agent) -> None:
    assert (await ada_calls.get("/plans/loud")).code == "not_found"


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


async def test_who_saves_over_a_version_that_they_have_not_seen_is_told_so(ada_calls: Caller, story: Agent) -> None:
    await ada_calls.put("/plans/story", {"definition": {**STORY, "name": "Newer"}})
    late = await ada_calls.put("/plans/story", {"definition": {**STORY, "name": "Late"}, "base": 1})
    assert late.code == "conflict"
    assert (await ada_calls.get("/plans/story")).body["name"] == "Newer"


async def test_somebody_elses_plan_is_used_and_not_changed(ada_calls: Caller, bob_calls: Caller, story: Agent) -> None:
    await ada_calls.put("/plans/story", {"definition": {**STORY, "name": "Newer"}})
    await bridge.run(Agent.objects.filter(pk=story.pk).update, access=Agent.Access.AUTHENTICATED)
    assert not (await bob_calls.get("/plans/story")).body["mayChange"]
    assert (await bob_calls.put("/plans/story", {"definition": STORY})).code == "forbidden"
    assert (await bob_calls.get("/plans/story?version=2")).status == 200
    assert (await bob_calls.get("/plans/story?version=1")).code == "not_found"
    assert (await bob_calls.post("/plans", saved("story"))).fields == ["slug"]


async def test_what_is_wrong_is_said_by_its_path_and_nothing_is_saved(ada_calls: Caller, agents: None) -> None:
    answer = await ada_calls.post("/plans", saved(definition=WRONG))
    assert answer.code == "invalid"
    assert sorted(answer.fields) == PATHS
    assert not await bridge.run(Agent.objects.filter(slug="tale").exists)
    told = (await ada_calls.post("/plans/check", {"definition": WRONG})).body
    assert not told["isValid"]
    assert sorted(one["path"] for one in told["problems"]) == PATHS


async def test_a_definition_is_checked_without_being_saved(ada_calls: Caller, agents: None) -> None:
    told = (await ada_calls.post("/plans/check", {"definition": STORY})).body
    assert (told["isValid"], told["problems"], told["definition"]) == (True, [], STORY)
    told = (await ada_calls.post("/plans/check", {"yaml": "steps: ["})).body
    assert (told["isValid"], told["definition"], told["problems"][0]["path"]) == (False, None, "file")
    assert not await bridge.run(Agent.objects.filter(kind="plan").exists)


async def test_an_agent_that_is_for_others_cannot_be_named(ada_calls: Caller, bob: User, story: Agent) -> None:
    home = await bridge.run(lambda: bob.personal_workspace)
    await bridge.run(Agent.objects.filter(slug="loud").update, access="workspace", workspace=home)
    told = (await ada_calls.post("/plans/check", {"definition": STORY})).body
    assert [one["path"] for one in told["problems"]] == ["steps.draft.agent"]


@pytest.mark.parametrize("slug", sorted(RESERVED_SLUGS))
async def test_a_word_of_the_addresses_is_no_name_of_a_plan(ada_calls: Caller, agents: None, slug: str) -> None:
    answer = await ada_calls.post("/plans", saved(slug))
    assert answer.fields == ["slug"]
    assert "Choose another slug." in answer.body["detail"]


async def test_operators_alone_say_who_may_use_a_plan(ada_calls: Caller, ada: User, agents: None) -> None:
    assert (await ada_calls.post("/plans", saved(access="authenticated"))).fields == ["access"]
    may = await bridge.run(Permission.objects.get, codename="change_agent")
    await bridge.run(ada.user_permissions.add, may)
    assert (await ada_calls.post("/plans", saved(access="authenticated"))).body["access"]


async def test_a_key_that_reads_may_check_and_not_save(
    ada: User,
    anybody: Caller,
    story: Agent,
    plan: Callable[..., Agent],
) -> None:
    _, key = await bridge.run(lambda: ApiKey.issue(ada, "reads", scopes=[READ]))
    reads = Caller(key)
    assert (await reads.get("/plans/story")).status == 200
    assert (await reads.post("/plans/check", {"definition": STORY})).status == 200
    assert (await reads.post("/plans", saved())).code == "forbidden"
    assert (await reads.put("/plans/story", {"definition": STORY})).code == "forbidden"
    assert (await reads.post("/plans/runs", {"plan": "story"})).code == "forbidden"
    assert (await anybody.get("/plans")).code == "unauthenticated"


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


async def test_the_schema_is_not_sent_again_to_who_has_it(anybody: Caller) -> None:
    first = await anybody.get("/plans/schema")
    assert "max-age" in first.headers["cache-control"]
    again = await anybody.get("/plans/schema", if_none_match=first.headers["etag"])
    assert (again.status, again.content) == (304, b"")
    assert (await anybody.get("/plans/schema", if_none_match='"another"')).status == 200
