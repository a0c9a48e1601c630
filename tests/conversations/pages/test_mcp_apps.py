"""Pages of tool servers (MCP Apps) in sessions: who sees them, in which frame, and what they may call."""

import asyncio
import json

import pytest
from asgiref.sync import async_to_sync
from pydantic_ai.mcp import MCPToolset

from agentkit.llm import mcp_apps
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.permissions import Role
from apps.accounts.requests import quotas
from apps.agents.tool_policies import set_policies
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import commands, deletion
from apps.engine import accept
from apps.model_agents import shown_apps
from apps.record import lineage
from apps.record.content import blobs
from apps.record.events import EventType
from apps.record.models import Blob, Context, Event
from parley import db as database
from parley import outbound
from tests.agents.definitions import clerk
from tests.members import member
from tests.model_agents import tool_servers
from tests.model_agents.conftest import endpoint
from tests.model_agents.endpoint import calls, says
from tests.working import carry_out

__all__ = ["endpoint"]
pytestmark = pytest.mark.django_db(transaction=True)

FRAME = {"Sec-Fetch-Dest": "iframe"}
HERE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}


@pytest.fixture
def server(settings):
    outbound.configure(["127.0.0.1"])
    with tool_servers.running(made=tool_servers.clock) as running:
        yield running
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def app(ada, said, endpoint, server):
    """The event of a tool's result with a page."""
    agent = clerk(mcp_servers=[{"url": server.url}])
    set_policies(agent, {}, None)
    endpoint.replies = [calls(("tell_time", {"zone": "UTC"})), says("Noon.")]
    receipt = accept.accept(ada.principal, agent, said("What time is it?"))
    async_to_sync(carry_out)(receipt.run)
    return Event.objects.get(context=receipt.context, type=EventType.AGENT_TOOL_RESULT)


def address(event, rest=""):
    return f"/sessions/{event.context_id}/apps/{event.index}{rest}"


def test_frame_has_no_origin_and_shows_the_result(app, ada_browser):
    answer = ada_browser.get(address(app), headers=FRAME)
    assert (answer.status_code, answer.content) == (200, b"<!doctype html><p>A clock</p>")
    assert answer["Content-Security-Policy"] == mcp_apps.content_security_policy(tool_servers.CSP)
    assert "sandbox allow-scripts allow-forms" in answer["Content-Security-Policy"]
    kept = {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "SAMEORIGIN"}
    kept |= {"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "private, no-store"}
    assert {name: answer[name] for name in kept} == kept
    assert not answer.cookies
    told = ada_browser.get(address(app, "/result")).json()
    assert (told["arguments"], told["result"]["structuredContent"]) == ({"zone": "UTC"}, {"time": "12:00"})
    for headers in ({"Sec-Fetch-Dest": "document"}, {}, {"Referer": "https://elsewhere.example/"}):
        assert ada_browser.get(address(app), headers=headers).status_code == 404, "it is no window of its own"


def test_viewers_see_but_do_not_call(app, ada, bob, bob_browser, settings):
    member(bob, ada, Role.VIEWER)
    commands.share_session(ada.principal, app.context_id, Context.Sharing.WORKSPACE)
    shown = bob_browser.get(f"/sessions/{app.context_id}").content.decode()
    assert (bob_browser.get(address(app), headers=FRAME).status_code, address(app) in shown) == (200, True)
    assert bob_browser.post(address(app, "/calls"), SAID, headers=HERE).status_code == 403
    settings.MCP_APPS_ALLOW = []  # operators hide them
    shown = bob_browser.get(f"/sessions/{app.context_id}").content.decode()
    assert (bob_browser.get(address(app), headers=FRAME).status_code, address(app) in shown) == (404, False)


def test_forks_show_it_and_deletion_removes_it(app, ada, ada_browser):
    forked = fork(ada.principal, app.context, app.context.last_event, reason="fork", title="Fork")
    assert ada_browser.get(f"/sessions/{forked.pk}/apps/{app.index}", headers=FRAME).status_code == 200
    shown = app.payload["app"]["parts"]
    assert Blob.objects.filter(sha256__in=[one["stored"]["sha256"] for one in shown], uses=1).count() == 2
    for one in (forked.pk, app.context_id):
        deletion.delete_session(ada.principal, one)
    assert not Blob.objects.filter(uses__gt=0).exists()
    assert ada_browser.get(address(app), headers=FRAME).status_code == 404


def called(context):
    log = lineage.events(Context.objects.get(pk=context)).filter(type__startswith="agent_tool", task=None)
    return [(one.type, one.payload.get("arguments", one.payload.get("result"))) for one in log]


def allow(event, **policies):
    agent = event.task.agent
    set_policies(agent, {f"mcp:{name}": policy for name, policy in policies.items()}, None)


SAID = {"name": "set_alarm", "arguments": '{"at": "7:00"}'}


async def call(client, event, name="set_alarm", **more):
    return await client.post(address(event, "/calls"), {**SAID, "name": name, **more}, headers=HERE)


async def token(client, event):
    """As a press of the button gets it."""
    return str((await client.post(address(event, "/calls/token"), SAID, headers=HERE)).json()["token"])


async def test_page_calls_its_server_on_the_record(app, ada, ada_at_work):
    result = (await call(ada_at_work, app)).json()["result"]
    assert result["content"] == [{"type": "text", "text": "Alarm at 7:00"}]
    log = await database.run(called, app.context_id)
    assert log == [("agent_tool_call", {"at": "7:00"}), ("agent_tool_result", result)]
    made = await Event.objects.aget(context=app.context_id, type="agent_tool_call", task=None)
    assert (made.payload["ofApp"], made.payload["by"]) == (app.index, ada.pk)


async def test_other_tools_and_arguments_are_refused(app, ada_at_work):
    for name in ("stop_clock", "nothing"):
        assert (await call(ada_at_work, app, name)).status_code == 422
    for arguments in ("", "[]", '{"at": NaN}', '{"at": 7}', json.dumps({"at": "x" * 64_000})):
        assert (await call(ada_at_work, app, arguments=arguments)).status_code == 422, arguments[:9]
    assert await database.run(called, app.context_id) == []


async def test_calls_beyond_the_agents_rules_are_refused(app, server, ada_at_work):
    async def is_refused(headers=HERE):
        answer = await ada_at_work.post(address(app, "/calls"), SAID, headers=headers)
        assert (answer.status_code, b"/mcp" in answer.content) == (409, False)
        assert await database.run(called, app.context_id) == []

    await is_refused(HERE | {"Sec-Fetch-Site": "cross-site"})
    for policy in ("never", "ask_two"):
        await database.run(lambda policy=policy: allow(app, set_alarm=policy))
        await is_refused()
    await database.run(lambda: allow(app))
    for servers in ([{"url": f"{server.url}?tenant=other"}], []):  # of a newer version
        await database.run(lambda servers=servers: clerk(mcp_servers=servers))
        await is_refused()


async def test_policy_ask_needs_a_press_for_this_call(app, ada, ada_at_work):
    await database.run(lambda: allow(app, set_alarm="ask"))
    assert "7:00" in (await call(ada_at_work, app)).json()["asks"]
    assert (await call(ada_at_work, app, token="x")).status_code == 409
    given = await token(ada_at_work, app)
    assert (await call(ada_at_work, app, token=given, arguments='{"at": "8:00"}')).status_code == 409
    assert await database.run(called, app.context_id) == []
    given = await token(ada_at_work, app)
    assert "result" in (await call(ada_at_work, app, token=given)).json()
    assert (await call(ada_at_work, app, token=given)).status_code == 409  # it is good once
    audited = await AuditEntry.objects.aget(action=AuditAction.TOOL_APPROVED)
    assert audited.details["tool"] == "set_alarm"
    await Context.objects.filter(pk=app.context_id).aupdate(approved_tools=[f"{ada.pk} clerk mcp:set_alarm"])
    assert "result" in (await call(ada_at_work, app)).json(), "it is allowed for the session"


async def test_calls_of_pages_have_their_own_quota(app, ada, ada_at_work, settings, monkeypatch):
    settings.ACTS_PER_MINUTE = 0
    monkeypatch.setattr(quotas, "APP_CONNECTIONS", 1)
    close = quotas.open_app_call(await database.run(lambda: ada.principal))
    assert (await call(ada_at_work, app)).status_code == 429, "another call is under way"
    close()
    monkeypatch.setattr(quotas, "APP_CALLS_PER_MINUTE", 1)
    await database.run(lambda: allow(app, set_alarm="ask"))
    given = await token(ada_at_work, app)
    assert "result" in (await call(ada_at_work, app, token=given)).json()  # an approved call counts once
    for ending in ("/calls", "/calls/token"):
        assert (await ada_at_work.post(address(app, ending), SAID, headers=HERE)).status_code == 429


async def test_results_are_files_and_slow_servers_given_up(app, ada_at_work, settings, monkeypatch):
    async def wait(*_):
        await asyncio.sleep(60)

    settings.INLINE_PART_BYTES = 10
    answer = await call(ada_at_work, app)
    kept = await Event.objects.aget(context=app.context_id, type="agent_tool_result", task=None)
    [part] = kept.payload["whole"]["parts"]
    assert json.loads(await database.run(blobs.content_of, part)) == answer.json()["result"]
    assert (await Blob.objects.aget(sha256=part["stored"]["sha256"])).uses == 1
    monkeypatch.setattr(shown_apps, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(MCPToolset, "call_tool_for_app", wait)
    assert (await call(ada_at_work, app)).json()["result"]["isError"]
