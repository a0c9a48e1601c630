"""MCP's requests, one POST each, of the newest version with a handshake unless a test says otherwise."""

import asyncio
import base64
import json

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from hypothesis import HealthCheck, example, given
from hypothesis import settings as budget
from hypothesis import strategies as some

from agentkit import Completed, InputRequired, SkillHandler, skill
from apps.accounts.models import ApiKey
from apps.accounts.principals import READ
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.optional.mcp.forms import form_of
from apps.optional.prompts import library
from apps.optional.prompts.models import Prompt
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record.models import Task
from parley import db
from parley.registry import added
from tests.doors import agents
from tests.engine.delegating import until

pytestmark = pytest.mark.django_db(transaction=True)
OLD, MODERN = "2025-11-25", "2026-07-28"
BOTH = "application/json, text/event-stream"


class Door:
    """A client with a key, or without."""

    def __init__(self, key: str = "", version: str = OLD, **capabilities) -> None:
        self.key, self.version, self.capabilities = key, version, capabilities

    async def post(self, body, accept="application/json", **headers):
        sent = {"accept": accept, "mcp-protocol-version": self.version, **headers}
        if self.key:
            sent["authorization"] = f"Bearer {self.key}"
        return await AsyncClient().post("/mcp", body, content_type="application/json", headers=sent)

    async def ask(self, method, accept="application/json", **params):
        headers = {}
        if self.version == MODERN:
            params["_meta"] = {
                **params.get("_meta", {}),
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
            headers = {"mcp-method": method}
            if named := params.get("name") or params.get("uri"):
                headers["mcp-name"] = named
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.post(body, accept, **headers)

    async def result(self, method, **params):
        answer = (await self.ask(method, **params)).json()
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method, **params):
        return (await self.ask(method, **params)).json()["error"]

    async def call(self, tool, /, **arguments):
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def names(self):
        return [tool["name"] for tool in (await self.result("tools/list"))["tools"]]


@pytest.fixture
def offered(speaking):
    Agent.objects.filter(pk=speaking.pk).update(mcp_tools="agent")
    return speaking


@pytest.fixture
def door(ada_key):
    return Door(ada_key)


@pytest.fixture
def modern(ada_key):
    return Door(ada_key, MODERN, elicitation={})


def text_of(result) -> str:
    return result["content"][0]["text"]


async def test_handshake_agrees_on_a_version(door, modern):
    info = {"name": "test", "version": "1"}
    asked = await door.result("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo=info)
    assert (asked["protocolVersion"], "tasks" in asked["capabilities"]) == ("2025-03-26", False)
    other = await door.result("initialize", protocolVersion="1999-01-01", capabilities={}, clientInfo=info)
    assert (other["protocolVersion"], "tasks" in other["capabilities"]) == (OLD, True)
    assert (await modern.result("server/discover"))["supportedVersions"] == [MODERN]
    assert (await modern.ask("initialize")).status_code == 404
    assert (await door.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status_code == 202


async def test_only_what_owners_switch_on_is_a_tool(door, speaking, echo):
    assert await door.names() == ["get_task", "cancel_task"]
    assert (await door.error("tools/call", name="speaking", arguments={"message": "x"}))["code"] == -32602
    await Agent.objects.filter(pk=speaking.pk).aupdate(mcp_tools="agent")
    assert await door.names() == ["speaking", "get_task", "cancel_task"]
    tool = (await door.result("tools/list"))["tools"][0]
    assert {"message", "files", "session", "task"} <= set(tool["inputSchema"]["properties"])
    assert tool["annotations"]["openWorldHint"] is True


class Skilled(SkillHandler):
    @skill("Adds", tags=["x"])
    async def add_up(self, task):
        return Completed(f"added {task.message.text}")

    @skill("Takes away", tags=["x"])
    async def take_away(self, task):
        return Completed(f"took {task.message.text}")


async def test_skills_are_tools_of_their_own(door, worker):
    await db.run(register_hosted, "skilled", "tests.mcp.test_mcp:Skilled", mcp_tools="skills")
    first, second, *_ = await door.names()
    assert first.startswith("skilled__")
    told = {text_of(await door.call(first, message="3")), text_of(await door.call(second, message="3"))}
    assert told == {"added 3", "took 3"}
    assert (await door.error("tools/call", name="skilled", arguments={"message": "x"}))["code"] == -32602


async def test_calls_continue_sessions_and_return_files(door, offered, worker):
    first = await door.call("speaking", message="hello")
    assert (text_of(first), first["isError"]) == ("hello", False)
    again = await door.call("speaking", message="again", session=first["structuredContent"]["session"])
    assert text_of(again) == "again | user: hello | agent: hello"
    data = base64.b64encode(b"abc").decode()
    sent = await door.call(
        "speaking", message="see", files=[{"name": "a.bin", "mimeType": "application/x", "data": data}]
    )
    assert text_of(sent) == "see | a.bin application/x 3"
    made = await door.call("speaking", message="file")
    link = next(one for one in made["content"] if one["type"] == "resource_link")
    assert (link["name"], link["mimeType"]) == ("table.csv", "text/csv")
    read = await door.result("resources/read", uri=link["uri"])
    assert base64.b64decode(read["contents"][0]["blob"]) == b"a,b\n1,2\n"
    listed = (await door.result("resources/list"))["resources"]
    assert link["uri"] in [one["uri"] for one in listed]
    for words in ("fail", "decline"):
        result = await door.call("speaking", message=words)
        assert (result["isError"], bool(text_of(result))) == (True, True)
    for wrong in ({}, {"message": 3}, {"message": "x", "files": [{"name": "a"}]}, {"message": "x", "task": "none"}):
        assert (await door.call("speaking", **wrong))["isError"] is True


async def test_progress_comes_before_the_result(door, offered, worker):
    params = {"name": "speaking", "arguments": {"message": "steps"}, "_meta": {"progressToken": "p"}}
    stream = await text(await door.ask("tools/call", BOTH, **params))
    half, more, last = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    assert half["method"] == more["method"] == "notifications/progress"
    assert half["params"] == {"progressToken": "p", "progress": 1.0, "total": 2.0, "message": "half"}
    assert more["params"]["progress"] > 1
    assert text_of(last["result"]) == "Both."


async def text(response) -> str:
    return b"".join([part async for part in response.streaming_content]).decode()


async def test_long_work_names_its_task(door, offered, worker, settings):
    settings.MCP_WAIT_SECONDS = 0.2
    going = await door.call("speaking", message="wait")
    task = going["structuredContent"]["task"]
    assert (going["structuredContent"]["state"], going["isError"]) == ("working", False)
    assert (await door.call("get_task", task=task))["structuredContent"]["state"] == "working"
    assert (await door.call("cancel_task", task=task))["structuredContent"]["state"] == "canceled"
    assert (await door.call("get_task", task=task))["structuredContent"]["state"] == "canceled"


async def test_same_tool_takes_the_answer(door, offered, worker):
    asked = await door.call("speaking", message="ask")
    told = asked["structuredContent"]
    assert (told["state"], text_of(asked)) == ("input-required", "Which word?")
    assert text_of(await door.call("get_task", task=told["task"])) == "Which word?"
    assert text_of(await door.call("speaking", task=told["task"], message="tea")) == "It was tea."


async def answer(door, asked, action="accept", tool="speaking", **content):
    given = {"answer": {"action": action, **({"content": content} if content else {})}}
    state = asked["requestState"]
    return await door.result("tools/call", name=tool, arguments={}, inputResponses=given, requestState=state)


async def test_people_are_asked_where_the_client_can(modern, ada_key, bob_key, offered, worker):
    asked = await modern.call("speaking", message="ask")
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["answer"]["params"]["message"] == "Which word?"
    declined = await answer(modern, asked, "decline")
    assert declined["structuredContent"]["state"] == "input-required"
    foreign = await answer(Door(bob_key, MODERN, elicitation={}), asked, answer="tea")
    assert foreign["isError"] is True
    assert text_of(await answer(modern, asked, answer="tea")) == "It was tea."
    assert text_of(await answer(modern, asked, answer="tea")) == "It was tea.", "sent again, it is the same answer"
    assert (await Door(ada_key, MODERN).call("speaking", message="ask"))["resultType"] == "complete"


class Form(SkillHandler):
    async def on_request(self, task):
        from pydantic import BaseModel

        class Trip(BaseModel):
            city: str
            nights: int = 1

        return InputRequired("Where to?", slot=Trip)

    async def on_input_received(self, task):
        return Completed(f"To {task.message.data[0]['city']}")


async def test_a_questions_form_is_the_clients_form(modern, worker):
    await db.run(register_hosted, "form", "tests.mcp.test_mcp:Form", mcp_tools="agent")
    asked = await modern.call("form", message="go")
    assert set(asked["inputRequests"]["answer"]["params"]["requestedSchema"]["properties"]) == {"city", "nights"}
    assert (await answer(modern, asked, tool="form", nights=2))["isError"] is True
    assert text_of(await answer(modern, asked, tool="form", city="Oslo", nights=2)) == "To Oslo"


@pytest.fixture
def prompt(ada):
    text = "Summarize {{topic}} in {{tone: plain | formal = plain}} words."
    return library.save(ada.principal, Prompt(name="Summary", text=text, description="Of a topic"))


async def test_prompts_are_offered_and_filled_in(door, modern, prompt):
    shake = await door.result(
        "initialize", protocolVersion=OLD, capabilities={}, clientInfo={"name": "a", "version": "1"}
    )
    assert "prompts" in shake["capabilities"]
    for client in (door, modern):
        [offered] = (await client.result("prompts/list"))["prompts"]
        required = {one["name"]: one["required"] for one in offered["arguments"]}
        assert (offered["name"], required) == ("summary", {"topic": True, "tone": False})
        filled = await client.result("prompts/get", name="summary", arguments={"topic": "energy"})
        assert filled["messages"][0]["content"]["text"] == "Summarize energy in plain words."
        for refused in ({"name": "summary"}, {"name": "other"}):
            assert (await client.ask("prompts/get", **refused)).json()["error"]["code"] == -32602


async def test_without_a_library_no_prompts_are_offered(door, monkeypatch):
    monkeypatch.setitem(added, "prompt_library", None)
    assert (await door.ask("prompts/list")).json()["error"]["code"] == -32601


async def test_tasks_of_mcp(door, offered, worker):
    started = await door.result("tools/call", name="speaking", arguments={"message": "wait"}, task={"ttl": 1000})
    task = started["task"]["taskId"]
    assert (started["task"]["status"], started["task"]["ttl"]) == ("working", None)
    assert (await door.result("tasks/get", taskId=task))["status"] == "working"
    assert [one["taskId"] for one in (await door.result("tasks/list"))["tasks"]] == [task]
    assert (await door.result("tasks/cancel", taskId=task))["status"] == "cancelled"
    assert (await door.error("tasks/cancel", taskId=task))["code"] == -32602
    asked = await door.result("tools/call", name="speaking", arguments={"message": "hello"}, task={})
    assert text_of(await door.result("tasks/result", taskId=asked["task"]["taskId"])) == "hello"


async def test_a_plan_takes_its_inputs_by_their_schema(door, echo, worker):
    inputs = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    steps = {"one": {"agent": "echo", "message": "To {{ inputs.city }}"}}
    plan = {"name": "Trip", "description": "Plans a trip.", "inputs": inputs, "steps": steps}
    await db.run(register_plan, "trip", PlanDefinition.read(plan), access="authenticated", mcp_tools="agent")
    tool = (await door.result("tools/list"))["tools"][0]
    assert tool["inputSchema"]["properties"]["inputs"]["properties"] == inputs["properties"]
    assert "To Oslo" in text_of(await door.call("trip", inputs={"city": "Oslo"}))
    assert (await door.call("trip", message="go"))["structuredContent"]["state"] == "input-required"


async def test_a_modern_client_that_leaves_stops_its_task(modern, offered, worker, settings):
    settings.MCP_WAIT_SECONDS = 60
    params = {"name": "speaking", "arguments": {"message": "wait"}, "_meta": {"progressToken": 1}}
    reading = asyncio.create_task(text(await modern.ask("tools/call", BOTH, **params)))
    await until(agents.STARTED.is_set)
    reading.cancel()
    await until(lambda: Task.objects.get().state == "canceled")


async def test_missing_credentials_and_scope_are_named(ada, offered, settings):
    refused = await Door().ask("tools/list")
    assert refused.status_code == 401
    assert "/.well-known/oauth-protected-resource/mcp" in refused["WWW-Authenticate"]
    key = (await db.run(lambda: ApiKey.issue(ada, "reader", scopes=[READ])))[1]
    reader = Door(key)
    assert "speaking" in await reader.names()
    denied = await reader.ask("tools/call", name="speaking", arguments={"message": "x"})
    assert (denied.status_code, "insufficient_scope" in denied["WWW-Authenticate"]) == (403, True)


async def test_http_is_refused_by_its_own_codes(door):
    assert (await AsyncClient().get("/mcp")).status_code == 405
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await door.post(ping, origin="https://evil.example")).status_code == 403
    assert (await door.post(ping, origin="http://testserver")).status_code == 200
    assert (await Door(door.key, "1999-01-01").post(ping)).status_code == 400
    assert (await door.post([ping])).status_code == 400
    unknown = await door.ask("nothing/there")
    assert (unknown.json()["error"]["code"], unknown.json()["id"]) == (-32601, 1)
    mismatch = await Door(door.key, MODERN).post(ping)
    assert (mismatch.status_code, mismatch.json()["error"]["code"]) == (400, -32602)


ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
METHODS = ["initialize", "tools/list", "tools/call", "resources/list", "resources/read", "tasks/get", "tasks/list", "x"]
FIELDS = ["name", "arguments", "uri", "taskId", "cursor", "task", "_meta", "message", "files", "inputs", "answer"]
NAMED = some.dictionaries(some.sampled_from(FIELDS), ANYTHING, max_size=4)
CALL = some.fixed_dictionaries({"name": some.sampled_from(["speaking", "get_task"]), "arguments": NAMED})
BODY = some.fixed_dictionaries(
    {"jsonrpc": some.just("2.0") | ANYTHING, "method": some.sampled_from(METHODS) | ANYTHING},
    optional={"id": some.integers() | ANYTHING, "params": NAMED | CALL | ANYTHING},
)
ABOUT = "io.modelcontextprotocol/"
CAPABLE = {f"{ABOUT}protocolVersion": MODERN, f"{ABOUT}clientCapabilities": {}}
STATED = {"name": "speaking", "_meta": CAPABLE, "requestState": "x.1", "inputResponses": {"answer": {}}}


@budget(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(body=BODY | ANYTHING, version=some.sampled_from([OLD, MODERN, "2025-03-26", "x"]))
@example(body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": STATED}, version=MODERN)
@example(body={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "\u0000"}}, version=OLD)
@example(body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\u0000"}}, version=OLD)
@example(body={"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "\ud800"}}, version=OLD)
def test_whatever_a_body_holds_is_answered_or_refused(offered, ada_key, settings, body, version):
    settings.MCP_WAIT_SECONDS = 0
    headers = {"mcp-method": "tools/call", "mcp-name": "speaking"}
    response = async_to_sync(Door(ada_key, version).post)(json.dumps(body), **headers)
    assert response.status_code < 500


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
    await db.run(register_hosted, "upload", "tests.mcp.test_mcp:Upload", mcp_tools="agent")
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
