"""Endpoints that speak OpenAI's chat completions API. This module imports the model library: import it late."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from openai import AsyncOpenAI, Timeout
from pydantic_ai import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

OPENAI = "https://api.openai.com/v1"
RETRIES = 2  # of a request that is refused for now (408, 409, 429, 5xx) or breaks off before it is answered
CONNECT_SECONDS = 5.0


# What the library raises for JSON of another shape than its own client promises.
MISSHAPEN = (AttributeError, TypeError, ValueError, LookupError, RecursionError)


@contextmanager
def _reading() -> Iterator[None]:
    """An answer that cannot be read is one that cannot be used. Raises UnexpectedModelBehavior."""
    try:
        yield
    except MISSHAPEN as error:
        raise UnexpectedModelBehavior("The answer has not the form of a chat completion.") from error


class _Stream(OpenAIStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        with _reading():
            async for event in super()._get_event_iterator():
                yield event


class EndpointModel(OpenAIChatModel):
    """A model with an HTTP client of its own, which ends with the `async with` block of the model."""

    async def request(self, *args: Any, **kwargs: Any) -> ModelResponse:
        with _reading():
            return await super().request(*args, **kwargs)

    async def _process_streamed_response(self, *args: Any, **kwargs: Any) -> OpenAIStreamedResponse:
        with _reading():
            return await super()._process_streamed_response(*args, **kwargs)

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _Stream

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        await self.client.close()
        return None


def openai_model(
    name: str, base_url: str = "", api_key: str = "", *, seconds: float = 120.0, http_client: Any = None
) -> EndpointModel:
    """The model `name` of the endpoint at `base_url`, by default OpenAI's own.

    A request that is refused for now is sent again, after the time that `Retry-After` names up to two minutes.

    Args:
        seconds: how long nothing may come from the endpoint.
        http_client: an `httpx2.AsyncClient` for all requests; one of the library's own by default.
    """
    client = AsyncOpenAI(
        base_url=base_url or OPENAI,
        api_key=api_key or "none",  # the library insists on one
        timeout=Timeout(seconds, connect=CONNECT_SECONDS),
        max_retries=RETRIES,
        http_client=http_client,
    )
    is_openai = not base_url or base_url.rstrip("/") == OPENAI
    provider = (
        OpenAIProvider(openai_client=client) if is_openai else OpenAICompatibleProvider("llm", openai_client=client)
    )
    return EndpointModel(name, provider=provider)
