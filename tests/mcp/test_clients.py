"""Real clients of MCP, over HTTP."""

import html
import re
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import ElicitResult

from apps.agents.models import Agent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client(served, ada_key, speaking, mode):
    url, headers = f"{served}/mcp", {"Authorization": f"Bearer {ada_key}"}
    await Agent.objects.filter(pk=speaking.pk).aupdate(mcp_tools="agent")
    told = []

    async def on_progress(progress, total, message):
        told.append(message)

    async def on_question(context, params):
        return ElicitResult(action="accept", content={"answer": "tea"})

    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=on_question) as client:
            assert "speaking" in [tool.name for tool in (await client.list_tools()).tools]
            steps = await client.call_tool("speaking", {"message": "steps"}, progress_callback=on_progress)
            assert (steps.content[0].text, told) == ("Both.", ["half", "half, too"])
            asked = await client.call_tool("speaking", {"message": "ask"})
            if mode == "legacy":
                asked = await client.call_tool("speaking", {"task": asked.structured_content["task"], "message": "tea"})
            assert asked.content[0].text == "It was tea."
            made = await client.call_tool("speaking", {"message": "file"})
            link = next(one for one in made.content if one.type == "resource_link")
            assert (await client.read_resource(link.uri)).contents[0].mime_type == "text/csv"


class Kept:
    """What a client keeps of a server, for an hour of its life."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


class Person:
    """Who signs in and allows what the client asks for, in a browser."""

    def __init__(self, url: str, email: str, password: str) -> None:
        self.url, self.email, self.password = url, email, password
        self.returned = ""

    async def visit(self, address: str) -> None:
        async with httpx2.AsyncClient(
            base_url=self.url, follow_redirects=True, headers={"Referer": self.url}
        ) as browser:
            page = await browser.get(address)
            said = {"username": self.email, "password": self.password, **_hidden(page.text)}
            page = await browser.post("/sign-in", data=said)
            scopes = re.findall(r'name="scopes" value="([^"]+)"', page.text)
            said = {**_hidden(page.text), "scopes": scopes, "action": "grant"}
            answer = await browser.post("/oauth/authorize", data=said, follow_redirects=False)
            self.returned = answer.headers["Location"]

    async def come_back(self) -> AuthorizationCodeResult:
        said = parse_qs(urlsplit(self.returned).query)
        return AuthorizationCodeResult(code=said["code"][0], state=said["state"][0])


def _hidden(page: str) -> dict[str, str]:
    fields = [re.findall(r'(\w+)="([^"]*)"', field) for field in re.findall(r'<input type="hidden"([^>]+)>', page)]
    return {found["name"]: html.unescape(found["value"]) for field in fields if "value" in (found := dict(field))}


async def test_the_official_client_needs_the_address_alone(served, ada):
    url, person, kept = f"{served}/mcp", Person(served, ada.email, "correct horse"), Kept()
    about = OAuthClientMetadata(
        client_name="The official client",
        redirect_uris=["http://localhost:3030/callback"],
        token_endpoint_auth_method="none",
    )
    signing_in = OAuthClientProvider(url, about, kept, person.visit, person.come_back)
    async with (
        httpx2.AsyncClient(auth=signing_in, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        assert "get_task" in [tool.name for tool in (await client.list_tools()).tools]
    assert urlsplit(person.returned).netloc == "localhost:3030"
    assert kept.tokens.refresh_token
