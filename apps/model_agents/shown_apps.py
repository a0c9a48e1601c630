"""Pages of tool servers (MCP Apps) in sessions: what they show, and their calls of tools.

A page calls tools of its own server for the person who looks at it, under the policies of the agent that used the
server. The log has each call; no task and no model learns of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError

from agentkit.llm import McpServer, mcp_apps
from agentkit.llm.models import import_in_thread
from agentkit.tools import NEEDS, Policy, ToolKind
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.accounts.secrets.encryption import CannotDecrypt
from apps.agents.definitions import Definition, tool_server_headers
from apps.agents.models import Agent
from apps.agents.tool_policies import policies_of, policy_for
from apps.engine.accept import check_obstacles
from apps.engine.turns import questions
from apps.engine.turns.output import clean
from apps.model_agents.language_models import shows_apps
from apps.record import ledger, lineage
from apps.record.content import blobs, json_schema
from apps.record.content.blobs import Part
from apps.record.errors import InvalidParams, Refusal, StorageFull, UnsupportedOperation
from apps.record.events import JSON, EventType
from apps.record.models import Context
from apps.record.reading.lookup import check_may_use, check_may_write
from parley import db

CALL_SECONDS = 45.0  # browsers wait for a minute
LONGEST_BEGINNING = 2000  # characters of a result that is stored as a file

log = logging.getLogger("parley.apps")


@dataclass(frozen=True, slots=True)
class ShownApp:
    """The page that event `index` shows. `payload`: see `events.App`."""

    context: Context
    index: int
    payload: JSON

    @property
    def page(self) -> Part:
        part: Part = self.payload["parts"][0]
        return part

    @property
    def told(self) -> Part:
        """The data that it shows: `arguments` and `result` of its tool."""
        part: Part = self.payload["parts"][1]
        return part

    @property
    def host(self) -> str:
        """The server's name for people."""
        return mcp_apps.host_of(self.payload["server"])

    @property
    def policy(self) -> str:
        """The Content-Security-Policy of its frame."""
        return mcp_apps.content_security_policy(self.payload["ui"]["csp"])


def find_app(context: Context, index: int) -> ShownApp | None:
    """None if the event shows none, or the operators' settings do not allow it any more."""
    event = lineage.events(context, index - 1, index).filter(type=EventType.AGENT_TOOL_RESULT).first()
    app = event.payload.get("app") if event else None
    return ShownApp(context, index, app) if app and app["parts"] and shows_apps(app["server"]) else None


@dataclass(frozen=True, slots=True)
class AppCall:
    """A page's call that its agent's policy allows, perhaps once the person approves it (`needs_approval`)."""

    principal: Principal
    app: ShownApp
    agent: Agent
    server: McpServer
    name: str
    arguments: JSON
    needs_approval: bool


def prepare(principal: Principal, app: ShownApp, name: str, arguments: JSON) -> AppCall:
    """Check a call before it is made, and count it. Raises Refusal."""
    check_may_write(principal, app.context)
    agent = Agent.objects.select_related("current_version").filter(pk=app.payload["agent"]).first()
    server = _server_of(agent, app.payload.get("digest", "")) if agent else None
    if agent is None or server is None:
        raise UnsupportedOperation(f"The agent does not offer tools of {app.host} to pages.")
    check_may_use(principal, agent)
    policy = _policy(principal, app.context, agent, name)
    needed = NEEDS.get(policy, 0)
    if policy == "never":
        raise UnsupportedOperation(f"{agent.name} may not use the tool {name}.")
    if needed > 1:
        raise UnsupportedOperation(f"{needed} people must approve the tool {name}. Ask {agent.name} in a message.")
    check_obstacles(principal, agent)
    return AppCall(principal, app, agent, server, name, arguments, needs_approval=needed > 0)


def _server_of(agent: Agent, digest: str) -> McpServer | None:
    """The server, if the agent's current version has it."""
    version = agent.current_version
    if agent.kind != Agent.Kind.MODEL or version is None:
        return None
    try:
        headers = tool_server_headers(agent, Definition.read(version.content))
    except (ValidationError, CannotDecrypt):
        return None
    servers = (McpServer(url, header) for url, header in headers.items())
    return next((server for server in servers if server.digest == digest), None)


def _policy(principal: Principal, context: Context, agent: Agent, name: str) -> Policy:
    found = policy_for(policies_of(agent), ToolKind.MCP, name, declared=False)
    remembered = questions.remembered_name(principal.user_id, agent.slug, ToolKind.MCP, name)
    return "run" if found == "ask" and remembered in questions.approved_tools(context.pk) else found


async def described(call: AppCall) -> JSON:
    """What people read before they approve: the tool's `title`, `description` and `schema`. Raises Refusal."""
    async with _connected(call) as (_, tool):
        annotated = tool.annotations.title if tool.annotations else None
        return {"title": tool.title or annotated or "", "description": tool.description, "schema": tool.input_schema}


async def run(call: AppCall) -> JSON:
    """The result, as MCP writes it; of a failed call with `isError`. Raises Refusal before anything is called."""
    key, result = "", _failed("The tool server did not answer.")
    try:
        async with _connected(call) as (server, tool):
            json_schema.validate(tool.input_schema, call.arguments, "arguments")
            key = str(uuid.uuid4())
            await db.run(_record_call, call, key)
            try:
                answer: JSON = clean(await server.call_tool_for_app(call.name, call.arguments))
                mcp_apps.check_result(answer)
                result = answer
            except mcp_apps.NoApp as problem:
                result = _failed(str(problem))
            except Exception as error:
                log.warning("the tool %s of %s failed: %r", call.name, call.server.label, error)
    except Unreachable:
        if not key:
            raise
    return await db.run(_record_result, call, key, result) if key else result


@asynccontextmanager
async def _connected(call: AppCall) -> AsyncIterator[tuple[Any, Any]]:
    """The server, and the tool that its page calls, for `CALL_SECONDS` in all. Raises Refusal."""
    await import_in_thread("agentkit.llm.mcp_servers")
    from agentkit.llm.mcp_servers import open_server

    try:
        async with asyncio.timeout(CALL_SECONDS), AsyncExitStack() as stack:
            server = await open_server(call.server, stack)
            tools = {one.name: one for one in await server.list_tools() if mcp_apps.is_for_pages(one.meta)}
            if call.name not in tools:
                raise InvalidParams(f"The tool server has no tool {call.name[:100]} for its page.", "name")
            yield server, tools[call.name]
    except Refusal:
        raise
    except Exception as error:
        log.warning("the tool server %s cannot be used: %r", call.server.label, error)
        raise Unreachable(f"The tool server {call.app.host} cannot be used. Try again later.") from None


class Unreachable(UnsupportedOperation):
    """The tool server cannot be used."""


def _failed(sentence: str) -> JSON:
    return {"content": [{"type": "text", "text": sentence}], "isError": True}


def _record_call(call: AppCall, key: str) -> None:
    person, session = call.principal.user_id, call.app.context
    called = {"callId": key, "name": call.name, "arguments": call.arguments, "ofApp": call.app.index, "by": person}
    with ledger.writing(session.pk) as events:
        events.add(EventType.AGENT_TOOL_CALL, clean(called))
        if call.needs_approval:
            subject = audit.Subject("agents.agent", str(call.agent.pk), call.agent.slug)
            about = {"tool": call.name, "session": str(session.pk), "app": call.app.index}
            action = AuditAction.TOOL_APPROVED
            audit.record(action, actor=call.principal, object=subject, workspace=session.workspace_id, details=about)


def _record_result(call: AppCall, key: str, result: JSON) -> JSON:
    """The result; another one if the workspace has no room for it."""
    session = call.app.context
    [part] = blobs.store_large([{"data": result}])
    try:
        blobs.check_room(session.workspace_id, [part])
    except StorageFull as full:
        result = _failed(str(full))
        part = {"data": result}
    told = {"callId": key, "name": call.name, "result": result, "isError": bool(result.get("isError"))}
    if "stored" in part:
        told |= {"result": json.dumps(result, ensure_ascii=False)[:LONGEST_BEGINNING], "whole": {"parts": [part]}}
    with ledger.writing(session.pk) as events:
        events.add(EventType.AGENT_TOOL_RESULT, {**told, "ofApp": call.app.index})
    return result
