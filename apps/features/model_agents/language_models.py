"""The language models of this installation, at the endpoint in settings. All calls go through `outbound`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

import outbound
from agentkit.llm import Surroundings, use_models, use_surroundings
from agentkit.llm.models import check_endpoint
from apps.engine.handlers import ConnectionlessThreads
from outbound import targets, transports

if TYPE_CHECKING:
    from pydantic_ai.models import Model


MEGABYTE = 1024 * 1024
LIMITS = outbound.Limits(seconds=None, bytes=50 * MEGABYTE)  # the turn's own time limit ends long calls


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
            threads=ConnectionlessThreads(settings.HANDLER_THREADS, thread_name_prefix="tool"),
        )
    )


def build_model(name: str | None) -> Model:
    """The model of a name, by default `LLM_MODEL`. Raises agentkit.llm.NoModel."""
    name = check_model(name)
    base_url, key = settings.LLM_BASE_URL, settings.LLM_API_KEY
    from agentkit.llm.endpoints import openai_model

    client = transports.client(outbound.exchange(LIMITS, also=targets.allowed_hosts(base_url)))
    return openai_model(name, base_url, key, seconds=settings.LLM_SECONDS, http_client=client)


def check_model(name: str | None) -> str:
    """The model's name, by default `LLM_MODEL`. Raises agentkit.llm.NoModel if no endpoint is known for it."""
    name = name or settings.LLM_MODEL
    check_endpoint(name, settings.LLM_BASE_URL, settings.LLM_API_KEY)
    return name


def tool_server_client(**options: Any) -> Any:
    """The HTTP client for an MCP server; private addresses need `OUTBOUND_ALLOW`."""
    return transports.client(outbound.exchange(LIMITS), **options)
