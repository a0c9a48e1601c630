"""What a caller shows Parley goes to nobody else: no cookie, key or header reaches remote agents and tool servers."""

from __future__ import annotations

import json

import pytest
from django.conf import settings as configured

from agentkit import Outcome, SkillHandler, TaskContext
from agentkit.llm import LlmWorker, McpServer
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from parley import db, outbound
from tests.model_agents import endpoint as endpoints
from tests.model_agents import tool_servers
from tests.model_agents.endpoint import calls, says
from tests.outbound.receiving import server
from tests.remote.card_server import card
from tests.remote.conversing import remote_agent
from tests.remote.reaching import answer, task
from tests.security.knocking import JSON, post, said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]

CANARY = "canary-91c1f0"
SHOWN = {
    "Cookie": f"sessionid={CANARY}; csrftoken={CANARY}",
    "X-Api-Key": CANARY,
    "X-Forwarded-For": CANARY,
    "Proxy-Authorization": CANARY,
    "X-Anything": CANARY,
}
TOOLS: list[McpServer] = []


class Calling(SkillHandler):
    """Lets its model call a tool server."""

    async def on_request(self, task: TaskContext) -> Outcome:
        return await LlmWorker("Help.", TOOLS).run(task)


@pytest.fixture
def outward():
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(configured.OUTBOUND_ALLOW)


def messages(agent: str) -> list[tuple[str, JSON]]:
    message = {"message": said("hello")}
    return [
        (f"/a2a/{agent}", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}),
        ("/v1/chat/completions", {"model": agent, "messages": [{"role": "user", "content": "hello"}]}),
    ]


async def test_remote_agents_hear_nothing_of_a_request(ada_key):
    async with server(answer({"task": task("TASK_STATE_COMPLETED")})) as at:
        await db.run(remote_agent, card(at.url))
        for path, body in messages("remote"):
            await post(path, body, ada_key, **SHOWN)
    heard = b"".join(at.requests)
    assert heard.count(b"SendMessage") + heard.count(b"SendStreamingMessage") == 2
    assert CANARY.encode() not in heard
    assert ada_key.encode() not in heard
    assert b"cookie:" not in heard.lower()


async def test_tool_servers_hear_nothing_of_a_request(ada_key, settings):
    register = (register_hosted, "calling", f"{__name__}:Calling")
    await db.run(*register, access=Agent.Access.AUTHENTICATED)
    with tool_servers.running() as tools, endpoints.running() as model:
        settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "test-model", model.url, "sk-model"
        TOOLS[:] = [McpServer(tools.url)]
        for path, body in messages("calling"):
            model.replies = [calls(("add", {"a": 2, "b": 3})), says("5")]
            await post(path, body, ada_key, **SHOWN)
    assert len(tools.headers) > 2
    for headers in tools.headers:
        assert not {"cookie", "authorization"} & headers.keys()
        assert CANARY not in json.dumps(headers)
        assert ada_key not in json.dumps(headers)
