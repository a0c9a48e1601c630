"""Questions become forms that MCP clients can show, or lead people to the session's page."""

import pytest

from agentkit import Completed, InputRequired, SkillHandler
from apps.agents.registration import register_hosted
from apps.optional.mcp.forms import form_of
from parley import db
from tests.mcp.test_mcp import MODERN, Door, answer

FILE = {"type": "string", "format": "binary"}


def form(field: object, *required: str):
    schema = {"type": "object", "properties": {"x": field, "y": {"type": "boolean"}}, "required": list(required)}
    return form_of({"name": "slot", "schema": schema}).schema


@pytest.mark.parametrize(
    ("field", "known"),
    [
        ({"type": "string", "pattern": "a+", "maxLength": 3}, {"type": "string", "maxLength": 3}),
        ({"type": "string", "format": "time", "title": "When"}, {"type": "string", "title": "When"}),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, {"type": "integer", "maximum": 9}),
        ({"enum": ["a", "b"], "default": "a"}, {"type": "string", "enum": ["a", "b"], "default": "a"}),
        (
            {"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]},
            {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]},
        ),
        (
            {"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True},
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        ),
        ({"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}, {"type": "number"}),
        ({"type": ["string", "null"], "format": ["email"]}, {"type": "string"}),
    ],
)
def test_fields_keep_what_clients_know(field, known):
    assert form(field, "x")["properties"]["x"] == known


@pytest.mark.parametrize(
    "field",
    [
        FILE,
        {"type": "array", "items": {"type": "object"}},
        {"enum": [1, 2]},
        {},
        {"anyOf": 5},
    ],
)
def test_unknown_fields_are_left_out_if_optional(field):
    assert form(field)["properties"] == {"y": {"type": "boolean"}}
    assert form(field, "x") is None


class Upload(SkillHandler):
    async def on_request(self, task):
        schema = {"type": "object", "properties": {"table": FILE}, "required": ["table"]}
        return InputRequired("Which table?", slot="table", schema=schema)

    async def on_input_received(self, task):
        return Completed("Thanks.")


@pytest.mark.django_db(transaction=True)
async def test_a_question_for_files_leads_to_its_session(ada_key, worker, settings):
    await db.run(register_hosted, "upload", "tests.mcp.test_forms:Upload", mcp_tools="agent")
    door = Door(ada_key, MODERN, elicitation={"url": {}})
    asked = await door.call("upload", message="go")
    params = asked["inputRequests"]["answer"]["params"]
    assert (params["mode"], params["message"]) == ("url", "Which table?")
    waiting = await answer(door, asked, tool="upload")  # the person opened the page
    told = waiting["structuredContent"]
    assert (told["state"], told["page"]) == ("input-required", params["url"])
    assert told["page"] == f"{settings.PUBLIC_BASE_URL}/sessions/{told['session']}"
    without = await Door(ada_key, MODERN, elicitation={}).call("upload", message="go")
    assert without["structuredContent"]["page"] in without["content"][-1]["text"]
