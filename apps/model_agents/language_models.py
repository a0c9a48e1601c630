"""The language models of this installation: operators' connections, or the endpoint in settings.

A name is a model of the default connection, or `MODEL@CONNECTION`. All calls go through `outbound`.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from agentkit.llm import NoModel, Surroundings, use_models, use_surroundings
from agentkit.llm.models import check_endpoint, import_in_thread
from apps.engine.turns.handlers import ConnectionlessThreads
from apps.installation import current
from apps.installation.current import Endpoint, Snapshot
from apps.record.content import json_schema
from parley import outbound
from parley.outbound import targets, transports
from parley.registry import added
from parley.telemetry import tracing

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from agentkit.llm.endpoints import EndpointModel

log = logging.getLogger("parley.engine")

LIMITS = outbound.Limits(seconds=None)  # the turn's own time limit ends long calls

NOT_CONNECTED = (
    "No language model is connected. An operator can connect one in the settings, under Language models, or with"
    " LLM_MODEL."
)


def configure() -> None:
    """Give agents the models, tool servers and threads of this installation. Raises ImproperlyConfigured."""
    try:
        targets.allowed_hosts(settings.LLM_BASE_URL)
    except (outbound.Forbidden, ValueError) as error:
        raise ImproperlyConfigured(f"LLM_BASE_URL: {error}") from None
    use_models(build_model)
    use_surroundings(
        Surroundings(
            http_client=tool_server_client,
            may_start=lambda command: command in settings.MCP_STDIO_ALLOW,
            shows_apps=shows_apps,
            threads=ConnectionlessThreads(settings.HANDLER_THREADS, thread_name_prefix="tool"),
            misfit=misfit,
            prepare=trace_calls,
        )
    )


def shows_apps(server: str) -> bool:
    """Are the pages of this tool server shown, by its URL without the query, or its command line?"""
    return not {"*", server}.isdisjoint(settings.MCP_APPS_ALLOW)


def misfit(schema: Any, value: Any) -> str:
    """What of a value does not fit the JSON Schema; "" if it fits, or cannot be checked in bounded time."""
    found = json_schema.violations(schema, value)[:5]
    return " ".join(f"{'.'.join(map(str, path)) or 'The value'}: {sentence}" for path, sentence in found)


def trace_calls() -> None:
    """Make spans of the model library's calls, if tracing is on: models by GenAI's conventions, and tools."""
    if (provider := tracing.provider()) is None:
        return
    from pydantic_ai import Agent, InstrumentationSettings

    with_content = tracing.captures_content()
    instrumentation = InstrumentationSettings(
        tracer_provider=provider,
        include_content=with_content,
        include_binary_content=False,
        include_model_request_parameters=False,
    )
    Agent.instrument_all(instrumentation)


@dataclass(frozen=True, slots=True)
class Choice:
    """A model at an endpoint. `missing` is the connection that was named and is not there; "" if it is."""

    endpoint: Endpoint
    model: str
    missing: str = ""


async def build_model(name: str | None) -> EndpointModel:
    """The model of a name, by default the default connection's. Raises agentkit.llm.NoModel."""
    choice = choose(await current.latest(), name)
    if choice.missing:
        log.warning("the model connection %s is not there: the default model answers", choice.missing)
    await import_in_thread("agentkit.llm.endpoints")
    return endpoint_model(choice.endpoint, choice.model)


def endpoint_model(endpoint: Endpoint, model: str) -> EndpointModel:
    """Import `agentkit.llm.endpoints` in a thread before."""
    from agentkit.llm.endpoints import openai_model

    made = openai_model(model, endpoint.base_url, endpoint.api_key, **_transport(endpoint))
    if prices := endpoint.prices.get(model):
        made.prices = (prices.input, prices.output)
    made.check = check_obstacles
    return made


def endpoint_client(endpoint: Endpoint) -> AsyncOpenAI:
    """Close it with `async with`. Import `agentkit.llm.endpoints` in a thread before."""
    from agentkit.llm.endpoints import openai_client

    return openai_client(endpoint.base_url, endpoint.api_key, **_transport(endpoint))


def _transport(endpoint: Endpoint) -> dict[str, Any]:
    # LLM_BASE_URL may be private. For a connection there are allowances, which operators see and take back.
    also = [] if endpoint.slug else targets.allowed_hosts(endpoint.base_url)
    client = transports.client(outbound.exchange(LIMITS, also=also))
    return {"seconds": settings.LLM_SECONDS, "http_client": client}


async def check_obstacles(cost: float, tokens: int) -> None:
    """Raises AgentFailure if the model must not be called now."""
    for check in added["model_obstacles"]:
        await check(cost, tokens)


def offered_models(*, everything: bool) -> list[str]:
    """The models that an agent may be given: those that people may choose, or all that are known."""
    known = current.snapshot()
    if not known.endpoints:
        return list(dict.fromkeys(name for name in (settings.LLM_MODEL, *settings.LLM_MODELS) if name not in ("", "*")))
    return list(dict.fromkeys((known.default.model, *(known.names if everything else known.choices))))


def choose(known: Snapshot, name: str | None) -> Choice:
    """The endpoint and model of a name; the default ones if its connection was removed. Raises NoModel."""
    default, missing = known.default, ""
    if name and (named := re.fullmatch(current.NAMED, name)):
        if endpoint := known.endpoint(named["connection"]):
            return Choice(endpoint, named["model"])
        name, missing = None, named["connection"]
    if not (model := name or default.model):
        raise NoModel(_removed(missing) if missing else NOT_CONNECTED)
    check_endpoint(model, default.base_url, default.api_key)
    return Choice(default, model, missing)


def problem_of(name: str) -> str:
    """Why agents cannot use this model, for operators; "" if they can. Raises NoModel without any model."""
    choice = choose(current.snapshot(), name)
    return f"{_removed(choice.missing)} Until then, the default model answers." if choice.missing else ""


def _removed(connection: str) -> str:
    return f"The model connection {connection} was removed. Choose another model for this agent in admin."


def tool_server_client(**options: Any) -> Any:
    """The HTTP client for an MCP server; private addresses must be allowed."""
    return transports.client(outbound.exchange(LIMITS), **options)
