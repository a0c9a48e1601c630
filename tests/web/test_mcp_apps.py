"""Pages of tool servers (MCP Apps) in sessions: who sees them, in which frame, and what they may call."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from pydantic_ai.mcp import MCPToolset

import db as database
import outbound
from agentkit.llm import mcp_apps
from agentkit.llm.approvals import APPROVE, DECISION
from apps.accounts import quotas
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import User
from apps.accounts.permissions import Role
from apps.agents.models import ToolPolicy
from apps.agents.tool_policies import set_policies
from apps.engine import accept, approvals
from apps.features.forks.forking import fork
from apps.features.model_agents import shown_apps
from apps.features.sessions import commands, deletion
from apps.record import lineage
from apps.record.content import blobs
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Blob, Context, Event, Task
from tests.agents.definitions import clerk
from tests.llm import tool_servers
from tests.llm.conftest import endpoint
from tests.llm.endpoint import Endpoint, calls, says
from tests.llm.tool_servers import ToolServer
from tests.members import member
from tests.working import carry_out

__all__ = ["endpoint"]
pytestmark = pytest.mark.django_db(transaction=True)

FRAME = {"Sec-Fetch-Dest": "iframe"}
HERE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}


@pytest.fixture
def server(settings: Any) -> Iterator[ToolServer]:
    outbound.configure(["127.0.0.1"])
    with tool_servers.running(made=tool_servers.clock) as running:
        yield running
    outbound.configure(settings.OUTBOUND_ALLOW)


@pytest.fixture
def app(ada: User, said: Any, endpoint: Endpoint, server: ToolServer) -> Event:
    """The event of a tool's result with a page."""
    agent = clerk(mcp_servers=[{"url": server.url}])
    set_policies(agent, {}, None)
    endpoint.replies = [calls(("tell_time", {"zone": "UTC"})), says("Noon.")]
    receipt = accept.accept(ada.principal, agent, said("What time is it?"))
    async_to_sync(carry_out)(receipt.run)
    return Event.objects.get(context=receipt.context, type=EventType.AGENT_TOOL_RESULT)


def address(event: Event, rest: str = "") -> str:
    return f"/sessions/{event.context_id}/apps/{event.index}{rest}"


def test_approved_call_brings_its_page(ada: User, said: Any, endpoint: Endpoint, server: ToolServer) -> None:
    endpoint.replies = [calls(("tell_time", {"zone": "UTC"})), says("Noon.")]
    receipt = accept.accept(ada.principal, clerk(mcp_servers=[{"url": server.url}]), said())  # its tools ask
    async_to_sync(carry_out)(receipt.run)
    task = Task.objects.get(pk=receipt.task)
    assert not Event.objects.filter(task=task, type=EventType.AGENT_TOOL_RESULT).exists()
    approvals.decide(ada.principal, task.pk, task.status_event, {DECISION: APPROVE})
    async_to_sync(carry_out)(Run.objects.get(task=task, state=Run.State.QUEUED).pk)
    shown = Event.objects.get(task=task, type=EventType.AGENT_TOOL_RESULT)
    assert shown.payload["result"] == {"time": "12:00"}
    assert len(shown.payload["app"]["parts"]) == 2


def test_frame_has_no_origin_and_shows_the_result(app: Event, ada_browser: Client) -> None:
    answer = ada_browser.get(address(app), headers=FRAME)
    assert (answer.status_code, answer.content) == (200, b"<!doctype html><p>A clock</p>")
    assert answer["Content-Security-Policy"] == mcp_apps.content_security_policy(tool_servers.CSP)
    assert "sandbox allow-scripts allow-forms" in answer["Content-Security-Policy"]
    kept = {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "SAMEORIGIN"}
    kept |= {"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "private, no-store"}
    assert {name: answer[name] for name in kept} == kept
    assert not answer.cookies
    told = ada_browser.get(address(app, "/result")).json()
    assert told["arguments"] == {"zone": "UTC"}
    assert told["result"]["structuredContent"] == {"time": "12:00"}


def test_page_is_no_window_of_its_own(app: Event, ada_browser: Client) -> None:
    for told in ({"Sec-Fetch-Dest": "document"}, {}, {"Referer": "https://elsewhere.example/"}):
        assert ada_browser.get(address(app), headers=told).status_code == 404
    assert ada_browser.get(address(app), headers={"Referer": "http://testserver/"}).status_code == 200


def test_strangers_find_no_page(app: Event, bob_browser: Client) -> None:
    for rest in ("", "/result"):
        assert bob_browser.get(address(app, rest), headers=FRAME).status_code == 404
    assert bob_browser.post(address(app, "/calls"), {"name": "set_alarm", "arguments": "{}"}).status_code == 404
    assert Client().get(address(app)).status_code == 302


def test_viewers_see_but_do_not_call(app: Event, ada: User, bob: User, bob_browser: Client) -> None:
    member(bob, ada, Role.VIEWER)
    commands.share_session(ada.principal, app.context_id, Context.Sharing.WORKSPACE)
    assert bob_browser.get(address(app), headers=FRAME).status_code == 200
    refused = bob_browser.post(address(app, "/calls"), {"name": "set_alarm", "arguments": "{}"}, headers=HERE)
    assert refused.status_code == 403
    commands.share_session(ada.principal, app.context_id, Context.Sharing.PRIVATE)
    assert bob_browser.get(address(app), headers=FRAME).status_code == 404


def test_operators_switch_hides_what_was_shown(app: Event, ada_browser: Client, settings: Any) -> None:
    assert f'"address": "{address(app)}"' in ada_browser.get(f"/sessions/{app.context_id}").content.decode()
    settings.MCP_APPS_ALLOW = []
    assert ada_browser.get(address(app), headers=FRAME).status_code == 404
    assert address(app) not in ada_browser.get(f"/sessions/{app.context_id}").content.decode()


def test_forks_show_it_and_deletion_removes_it(app: Event, ada: User, ada_browser: Client) -> None:
    forked = fork(ada.principal, app.context, app.context.last_event, reason="fork", title="Fork")
    assert ada_browser.get(f"/sessions/{forked.pk}/apps/{app.index}", headers=FRAME).status_code == 200
    shown = app.payload["app"]["parts"]
    assert Blob.objects.filter(sha256__in=[one["stored"]["sha256"] for one in shown], uses=1).count() == 2
    for one in (forked.pk, app.context_id):
        deletion.delete_session(ada.principal, one)
    assert not Blob.objects.filter(uses__gt=0).exists()
    assert ada_browser.get(address(app), headers=FRAME).status_code == 404


def called(context: uuid.UUID) -> list[tuple[str, Any]]:
    log = lineage.events(Context.objects.get(pk=context)).filter(type__startswith="agent_tool", task=None)
    return [(one.type, one.payload.get("arguments", one.payload.get("result"))) for one in log]


def allow(event: Event, **policies: str) -> None:
    agent = event.task.agent  # type: ignore[union-attr]
    set_policies(agent, {f"mcp:{name}": policy for name, policy in policies.items()}, None)


async def call(client: AsyncClient, event: Event, name: str = "set_alarm", **more: str) -> Any:
    said = {"name": name, "arguments": '{"at": "7:00"}', **more}
    return await client.post(address(event, "/calls"), said, headers=HERE)


async def test_page_calls_its_server_and_the_log_has_it(app: Event, ada: User, ada_at_work: AsyncClient) -> None:
    result = (await call(ada_at_work, app)).json()["result"]
    assert result["content"] == [{"type": "text", "text": "Alarm at 7:00"}]
    log = await database.run(called, app.context_id)
    assert log == [("agent_tool_call", {"at": "7:00"}), ("agent_tool_result", result)]
    made = await Event.objects.aget(context=app.context_id, type="agent_tool_call", task=None)
    assert (made.payload["ofApp"], made.payload["by"]) == (app.index, ada.pk)


@pytest.mark.parametrize("name", ["stop_clock", "nothing"])
async def test_tools_that_are_not_for_pages_are_refused(app: Event, ada_at_work: AsyncClient, name: str) -> None:
    assert (await call(ada_at_work, app, name)).status_code == 422
    assert await database.run(called, app.context_id) == []


@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"at": NaN}', '{"at": 7}'])
async def test_arguments_that_do_not_fit_are_refused(app: Event, ada_at_work: AsyncClient, arguments: str) -> None:
    answer = await call(ada_at_work, app, arguments=arguments)
    assert (answer.status_code, bool(answer.json()["error"])) == (422, True)
    assert await database.run(called, app.context_id) == []


async def test_policy_ask_needs_a_press_for_this_call(app: Event, ada_at_work: AsyncClient) -> None:
    await database.run(lambda: allow(app, set_alarm="ask"))
    asked = (await call(ada_at_work, app)).json()
    assert "7:00" in asked["asks"]
    assert "Sets an alarm." in asked["asks"]
    assert (await call(ada_at_work, app, token="x")).status_code == 409
    said = {"name": "set_alarm", "arguments": '{"at": "7:00"}'}
    given = await ada_at_work.post(address(app, "/calls/token"), said, headers=HERE)
    token = given.json()["token"]
    assert (await call(ada_at_work, app, token=token, arguments='{"at": "8:00"}')).status_code == 409
    assert await database.run(called, app.context_id) == []
    token = (await ada_at_work.post(address(app, "/calls/token"), said, headers=HERE)).json()["token"]
    assert "result" in (await call(ada_at_work, app, token=token)).json()
    assert (await call(ada_at_work, app, token=token)).status_code == 409  # it is good once
    [audited] = [one async for one in AuditEntry.objects.filter(action=AuditAction.TOOL_APPROVED)]
    assert audited.details["tool"] == "set_alarm"


@pytest.mark.parametrize("policy", ["never", "ask_two"])
async def test_stricter_policies_refuse_a_page(app: Event, ada_at_work: AsyncClient, policy: str) -> None:
    assert policy in ToolPolicy.Policy.values
    await database.run(lambda: allow(app, set_alarm=policy))
    assert (await call(ada_at_work, app)).status_code == 409
    assert await database.run(called, app.context_id) == []


async def test_allowed_in_the_session_runs_for_its_page(app: Event, ada: User, ada_at_work: AsyncClient) -> None:
    await database.run(lambda: allow(app, set_alarm="ask"))
    await Context.objects.filter(pk=app.context_id).aupdate(approved_tools=[f"{ada.pk} clerk mcp:set_alarm"])
    assert "result" in (await call(ada_at_work, app)).json()


async def test_server_that_the_agent_lost_is_not_called(app: Event, ada_at_work: AsyncClient) -> None:
    await database.run(clerk)  # a version without tool servers
    assert (await call(ada_at_work, app)).status_code == 409


async def test_page_has_its_own_quota(
    app: Event, ada_at_work: AsyncClient, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ACTS_PER_MINUTE = 0
    monkeypatch.setattr(quotas, "APP_CALLS_PER_MINUTE", 1)
    await database.run(lambda: allow(app, set_alarm="ask"))
    said = {"name": "set_alarm", "arguments": '{"at": "7:00"}'}
    assert "asks" in (await call(ada_at_work, app)).json()
    token = (await ada_at_work.post(address(app, "/calls/token"), said, headers=HERE)).json()["token"]
    assert "result" in (await call(ada_at_work, app, token=token)).json()  # an approved call counts once
    assert (await call(ada_at_work, app)).status_code == 429
    refused = await ada_at_work.post(address(app, "/calls/token"), said, headers=HERE)
    assert (refused.status_code, bool(refused.json()["error"])) == (429, True)


async def test_few_calls_run_at_a_time(
    app: Event, ada: User, ada_at_work: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "APP_CONNECTIONS", 1)
    close = quotas.open_app_call(await database.run(lambda: ada.principal))
    assert (await call(ada_at_work, app)).status_code == 429
    close()
    assert (await call(ada_at_work, app)).status_code == 200


async def test_large_arguments_are_refused_unrecorded(app: Event, ada_at_work: AsyncClient) -> None:
    answer = await call(ada_at_work, app, arguments=json.dumps({"at": "x" * 64_000}))
    assert answer.status_code == 422
    assert await database.run(called, app.context_id) == []


async def test_large_results_are_stored_as_files(app: Event, ada_at_work: AsyncClient, settings: Any) -> None:
    settings.INLINE_PART_BYTES = 10
    result = (await call(ada_at_work, app)).json()["result"]
    kept = await Event.objects.aget(context=app.context_id, type="agent_tool_result", task=None)
    [part] = kept.payload["whole"]["parts"]
    assert json.loads(await database.run(blobs.content_of, part)) == result
    assert (await Blob.objects.aget(sha256=part["stored"]["sha256"])).uses == 1


@pytest.mark.parametrize("answered", [True, False])
async def test_slow_server_is_given_up(
    app: Event, ada_at_work: AsyncClient, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    async def wait(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(shown_apps, "CALL_SECONDS", 2.0)
    monkeypatch.setattr(MCPToolset, "call_tool_for_app" if answered else "list_tools", wait)
    answer = await call(ada_at_work, app)
    log = await database.run(called, app.context_id)
    if answered:
        assert answer.json()["result"]["isError"]
        assert [kind for kind, _ in log] == ["agent_tool_call", "agent_tool_result"]
    else:
        assert (answer.status_code, log) == (409, [])
        assert "/mcp" not in answer.json()["error"]


async def test_servers_differ_by_their_query(app: Event, server: ToolServer, ada_at_work: AsyncClient) -> None:
    await database.run(lambda: clerk(mcp_servers=[{"url": f"{server.url}?tenant=other"}]))
    answer = await call(ada_at_work, app)
    assert answer.status_code == 409
    assert "/mcp" not in answer.json()["error"]


async def test_other_sites_cannot_call(app: Event, ada_at_work: AsyncClient) -> None:
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "empty"}
    said = {"name": "set_alarm", "arguments": "{}"}
    assert (await ada_at_work.post(address(app, "/calls"), said, headers=elsewhere)).status_code == 409


def test_client_api_names_the_page_and_links_it(app: Event, ada: User, ada_browser: Client) -> None:
    answer = ada_browser.get(f"/api/v1/sessions/{app.context_id}/events").json()
    [shown] = [one["payload"]["app"] for one in answer["items"] if "app" in one["payload"]]
    assert shown["uri"] == tool_servers.PAGE
    assert not {"agent", "server", "digest"} & shown.keys()
    page, told = (ada_browser.get(urlsplit(part["url"]).path) for part in shown["parts"])
    assert b"A clock" in b"".join(page)  # type: ignore[arg-type]
    assert "sandbox" in page["Content-Security-Policy"]
    assert json.loads(b"".join(told))["arguments"] == {"zone": "UTC"}  # type: ignore[arg-type]
