"""Only `outbound` calls out: networking modules are imported nowhere else, except as listed."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = (
    "a2a.client", "aiohttp", "asyncio.open_connection", "boto3", "botocore", "fastmcp", "ftplib", "http.client",
    "httpcore", "httpcore2", "httpx", "httpx2", "imaplib", "mcp", "openai", "poplib", "pydantic_ai.mcp",
    "pydantic_ai.models.openai", "pydantic_ai.providers", "requests", "smtplib", "socket", "ssl", "telnetlib",
    "urllib.request", "urllib3", "websockets", "xmlrpc",
)  # fmt: skip
BY_THE_HOST = "the host gives it an HTTP client that goes by outbound (apps/model_agents/language_models.py)"
A_LINE = "the client of the A2A SDK goes over a line whose transport is outbound's"
A_SIGNATURE = "what signs the requests that go over that line"
A_CLIENT = "a program of its own, on a person's machine"
REASONS = {
    ("platform/parley/terminal/client.py", "httpx2"): A_CLIENT,
    ("platform/parley/terminal/client.py", "ssl"): A_CLIENT,
    ("platform/parley/terminal/program.py", "httpx2"): A_CLIENT,
    ("platform/agentkit/command/deploying.py", "httpx2"): A_CLIENT,
    ("apps/remote/authentication/oauth2.py", "httpx"): A_SIGNATURE,
    ("apps/remote/authentication/http_auth.py", "httpx"): A_SIGNATURE,
    ("apps/remote/federation/tokens.py", "httpx"): A_SIGNATURE,
    ("apps/remote/transport.py", "httpx"): A_LINE,
    ("apps/remote/a2a_client.py", "a2a.client"): A_LINE,
    ("apps/credentials/oauth.py", "httpx2"): "errors of an OAuth client whose transport is outbound's",
    ("platform/parley/templating/processes.py", "socket"): "a pair of sockets, to its own child process",
    ("apps/engine/worker.py", "socket"): "the machine's own name",
    ("platform/parley/serving/server.py", "socket"): "whether the port to listen on is free",
    ("apps/housekeeping/processes.py", "socket"): "the machine's name",
    ("apps/housekeeping/heartbeats.py", "socket"): "systemd's socket on this machine",
    ("platform/parley/telemetry/tracing.py", "ssl"): "where the system's authorities are, for the operators' collector",
    ("apps/operators/doctor/calls.py", "ssl"): "the reasons why a certificate is refused",
    ("apps/optional/backup/moving.py", "socket"): "whether this installation serves",
    (
        "apps/optional/backup/s3.py",
        "boto3",
    ): "the operators' storage of backups, which a command names",
    ("apps/optional/backup/s3.py", "botocore"): "its errors and settings",
    ("apps/installation/embeddings.py", "pydantic_ai.providers"): "names a client whose transport is outbound's",
    ("apps/operators/metrics.py", "socket"): "the family of the address to listen on",
    ("apps/operators/doctor/edge.py", "websockets"): "the installation's own address, as outbound resolves it",
    ("apps/accounts/people/single_sign_on.py", "requests"): "a session whose only adapter is the way out",
    ("apps/optional/channels/mail/mailbox.py", "imaplib"): "a session over a connection that outbound opened",
    ("apps/optional/channels/mail/mailbox.py", "socket"): "how to shut that connection down",
    ("apps/optional/channels/discord/gateway.py", "websockets"): "the types and errors of outbound's connections",
    ("apps/operators/doctor/connections.py", "smtplib"): "the operators' mail server",
    ("platform/agentkit/adapters/http_endpoint.py", "httpx2"): BY_THE_HOST,
    ("platform/agentkit/llm/endpoints.py", "openai"): BY_THE_HOST,
    ("apps/model_agents/language_models.py", "openai"): BY_THE_HOST,
    ("apps/optional/voice/endpoints.py", "openai"): BY_THE_HOST,
    ("platform/agentkit/llm/endpoints.py", "pydantic_ai.models.openai"): BY_THE_HOST,
    ("platform/agentkit/llm/endpoints.py", "pydantic_ai.providers"): BY_THE_HOST,
    ("platform/agentkit/llm/mcp_servers.py", "fastmcp"): BY_THE_HOST,
    ("platform/agentkit/llm/mcp_servers.py", "mcp"): BY_THE_HOST,
    ("platform/agentkit/llm/mcp_servers.py", "pydantic_ai.mcp"): BY_THE_HOST,
}


def sources() -> list[Path]:
    folders = (ROOT / "apps", ROOT / "platform")
    return [path for folder in folders for path in folder.rglob("*.py") if "outbound" not in path.parts]


def used(tree: ast.AST) -> Iterator[str]:
    """A module's imports, and uses of `asyncio.open_connection`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (name.name for name in node.names)
            case ast.ImportFrom(module=str(module)):
                yield from (f"{module}.{name.name}" for name in node.names)
            case ast.Attribute(value=ast.Name(id="asyncio"), attr=str(attribute)):
                yield f"asyncio.{attribute}"


ROOTS = {client.partition(".")[0] for client in CLIENTS}


def clients_in(source: str) -> set[str]:
    if not any(root in source for root in ROOTS):
        return set()
    return {
        client
        for name in used(ast.parse(source))
        for client in CLIENTS
        if name == client or name.startswith(f"{client}.")
    }


def test_nothing_else_imports_what_could_call_out():
    found = {(str(path.relative_to(ROOT)), client) for path in sources() for client in clients_in(path.read_text())}
    assert found == set(REASONS)


def test_each_way_to_a_client_is_seen():
    reaching = ("import httpx", "def f():\n    import requests.sessions", "import http.client as h",
                "from urllib import request", "asyncio.open_connection('a', 1)")  # fmt: skip
    assert [source for source in reaching if not clients_in(source)] == []
    harmless = "from apps.a2a.requests import Listing\nfrom urllib.parse import urlsplit\nimport httptools"
    assert clients_in(harmless) == set()
