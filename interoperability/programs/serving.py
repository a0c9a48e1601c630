"""What the server programs share. They say the number of a context's turn and what they were told."""

import sys
from collections import Counter
from typing import Any

import uvicorn

PORT = int(sys.argv[1])
URL = f"http://127.0.0.1:{PORT}/"
TEXT = ["text/plain"]
CARD: dict[str, Any] = {
    "name": "Turns",
    "description": "Counts turns.",
    "version": "1",
    "default_input_modes": TEXT,
    "default_output_modes": TEXT,
}
_turns: Counter[str] = Counter()


def answer(context_id: str, text: str) -> str:
    _turns[context_id] += 1
    return f"{_turns[context_id]}: {text}"


def serve(app: Any) -> None:
    uvicorn.run(app, port=PORT, log_level="warning")


def serve_executor(executor: Any) -> None:
    """By the official SDK of A2A 1.0."""
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
    from starlette.applications import Starlette

    card = AgentCard(
        **CARD,
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="turns", name="Turns", description="Counts turns.", tags=["turns"])],
        supported_interfaces=[AgentInterface(url=URL, protocol_binding="JSONRPC", protocol_version="1.0")],
    )
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    serve(Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")]))
