"""Models of the model library: OpenAI-compatible endpoints and scripted ones; and their errors.

It imports the model library: import it late.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from types import TracebackType
from typing import Any

import pydantic_core
from openai import AsyncOpenAI, Timeout
from pydantic_ai import RequestUsage, UnexpectedModelBehavior
from pydantic_ai import exceptions as library
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from agentkit.content.emissions import price
from agentkit.errors import AgentFailure
from agentkit.llm.conversations import asked_in, own_messages, plain_content
from agentkit.llm.reading import USUAL, Sight, sight_of
from agentkit.llm.scripting import Asked, Respond, Returned, UseTool

OPENAI = "https://api.openai.com/v1"
RETRIES = 2  # repetitions after 408, 409, 429, 5xx or a lost connection
CONNECT_SECONDS = 5.0


# The library raises these for unexpected JSON.
MISSHAPEN = (AttributeError, TypeError, ValueError, LookupError, RecursionError)


@contextmanager
def _refuse_misshapen() -> Iterator[None]:
    """Raises UnexpectedModelBehavior for an answer that cannot be read."""
    try:
        yield
    except MISSHAPEN as error:
        raise UnexpectedModelBehavior("The answer has not the form of a chat completion.") from error


class _Stream(OpenAIStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        with _refuse_misshapen():
            async for event in super()._get_event_iterator():
                yield event


class EndpointModel(OpenAIChatModel):
    """A model with its own HTTP client, which closes with the model's `async with` block.

    Attributes:
        prices: of a million tokens, in and out, if the host knows them.
        check: awaited before each request, with cost and tokens of those before it; may raise AgentFailure.
        sight: the files that it is given instead of their text.
    """

    sight: Sight = USUAL
    prices: tuple[float, float] | None = None
    check: Callable[[float, int], Awaitable[None]] | None = None
    _cost = 0.0
    _tokens = 0

    async def request(self, *args: Any, **kwargs: Any) -> ModelResponse:
        await self._check()
        with _refuse_misshapen():
            response = await super().request(*args, **kwargs)
        self._count(response.usage)
        return response

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[StreamedResponse]:
        await self._check()
        async with super().request_stream(*args, **kwargs) as stream:
            try:
                yield stream
            finally:
                self._count(stream.usage)

    async def _check(self) -> None:
        if self.check is not None:
            await self.check(self._cost, self._tokens)

    def _count(self, used: RequestUsage) -> None:
        self._tokens += used.input_tokens + used.output_tokens
        if self.prices is not None:
            cost = price(self.prices, used.input_tokens, used.output_tokens)
            used.cost = Decimal(str(cost))  # for traces, instead of a price from the library's own list
            self._cost += cost

    async def _process_streamed_response(self, *args: Any, **kwargs: Any) -> OpenAIStreamedResponse:
        with _refuse_misshapen():
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


def openai_client(
    base_url: str = "", api_key: str = "", *, seconds: float = 120.0, http_client: Any = None
) -> AsyncOpenAI:
    """The client of an endpoint, by default OpenAI's.

    A temporarily refused request is repeated, after `Retry-After` (at most two minutes).

    Args:
        seconds: how long the endpoint may stay silent.
        http_client: an `httpx2.AsyncClient` for all requests, closed with the client; by default the library's own.
    """
    return AsyncOpenAI(
        base_url=base_url or OPENAI,
        api_key=api_key or "none",
        timeout=Timeout(seconds, connect=CONNECT_SECONDS),
        max_retries=RETRIES,
        http_client=http_client,
    )


def openai_model(
    name: str, base_url: str = "", api_key: str = "", *, seconds: float = 120.0, http_client: Any = None
) -> EndpointModel:
    """The model `name` at `base_url`, by default OpenAI's. The other arguments are those of `openai_client`."""
    client = openai_client(base_url, api_key, seconds=seconds, http_client=http_client)
    is_openai = not base_url or base_url.rstrip("/") == OPENAI
    provider = (
        OpenAIProvider(openai_client=client) if is_openai else OpenAICompatibleProvider("llm", openai_client=client)
    )
    made = EndpointModel(name, provider=provider)
    made.sight = sight_of(name, is_openai=is_openai)
    return made


WORD = re.compile(r"\S+\s*|\s+")


def function_model(label: str, respond: Respond) -> Model:
    async def reply_to(messages: list[ModelMessage], info: AgentInfo) -> str | list[UseTool]:
        reply = respond(asked(messages, info))
        return as_reply(await reply if inspect.isawaitable(reply) else reply, info)

    async def at_once(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reply = await reply_to(messages, info)
        if isinstance(reply, str):
            return ModelResponse(parts=[TextPart(reply)])
        return ModelResponse(parts=[ToolCallPart(call.tool, call.arguments) for call in reply])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        reply = await reply_to(messages, info)
        if isinstance(reply, str):
            for piece in WORD.findall(reply):
                yield piece
            return
        for number, call in enumerate(reply):
            call_id = f"call-{len(messages)}-{number}"
            yield {number: DeltaToolCall(call.tool, json.dumps(call.arguments), tool_call_id=call_id)}

    return FunctionModel(at_once, stream_function=stream, model_name=label)


def as_reply(reply: Any, info: AgentInfo) -> str | list[UseTool]:
    """Text, or tool calls. A typed value becomes a call of the output tool."""
    if isinstance(reply, str):
        return reply
    if isinstance(reply, UseTool):
        return [reply]
    if isinstance(reply, Sequence) and reply and all(isinstance(one, UseTool) for one in reply):
        return list(reply)
    value = pydantic_core.to_jsonable_python(reply)
    if not info.output_tools:
        return json.dumps(value, ensure_ascii=False)
    output = info.output_tools[0]
    key = output.outer_typed_dict_key
    return [UseTool(output.name, **({key: value} if key else value))]


def asked(messages: Sequence[ModelMessage], info: AgentInfo) -> Asked:
    """A request's messages as an author sees them."""
    # This work's requests. The first brings the newest message.
    work = own_messages(messages)
    run = [message for message in work if isinstance(message, ModelRequest)]
    earlier = messages[: len(messages) - len(work)]
    functions = [tool.name for tool in info.function_tools]
    results = [
        Returned(part.tool_name, plain_content(part), part.outcome != "success")
        for request in run
        for part in request.parts
        if isinstance(part, ToolReturnPart) and part.tool_name in functions
    ]
    again = [one for one in run[1:] if not any(getattr(part, "tool_name", None) in functions for part in one.parts)]
    return Asked(
        text=asked_in(run[0]),
        earlier=[
            ("agent", one.text or "") if isinstance(one, ModelResponse) else ("user", asked_in(one)) for one in earlier
        ],
        instructions=info.instructions or "",
        tools=functions,
        results=results,
        attempt=1 + len(again),
    )


DETAIL_LENGTH = 2000  # characters
TRY_LATER = "Try again later."
UNFIT = "The language model's answer could not be used. Try again, or choose another model."
FAILURES: tuple[tuple[type[Exception], str, str], ...] = (
    (library.ModelAuthenticationError, "model_key", "The language model refuses the key. An operator must correct it."),
    (library.ModelNotFoundError, "model_unknown", "Its endpoint does not know the language model {model}."),
    (library.ModelQuotaExceededError, "model_quota", "The quota of the language model is used up."),
    (library.ModelRateLimitError, "model_busy", f"The language model has too much to do. {TRY_LATER}"),
    (library.ModelContextWindowExceededError, "too_long", "The conversation is too long for the language model."),
    (library.ModelRequestRejectedError, "model_refused", "The language model does not take this request."),
    (library.ModelRequestTimeout, "model_timeout", f"The language model did not answer in time. {TRY_LATER}"),
    (library.ModelTimeoutError, "model_timeout", f"The language model did not answer in time. {TRY_LATER}"),
    (library.ModelConnectionError, "model_unreachable", f"The language model cannot be reached. {TRY_LATER}"),
    (library.ModelAPIError, "model_failed", f"The language model failed. {TRY_LATER}"),
    (library.ContentFilterError, "model_refused", "The language model's filter keeps it from answering this."),
    (library.OutputTokenLimitExceeded, "model_cut_off", "The language model's answer is longer than it may be."),
    (library.UserError, "agent_unfit", "The agent is set up in a way that cannot work. An operator must look at it."),
    (library.UnexpectedModelBehavior, "model_unfit", UNFIT),
)


class ModelFailed(AgentFailure):
    """A language model could not be used. People see the text, operators `detail`."""


@contextmanager
def as_model_failures(model: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Raise the model library's errors as `ModelFailed`, without these secrets."""
    try:
        yield
    except Exception as error:
        for kind, code, sentence in FAILURES:
            if isinstance(error, kind):
                raise ModelFailed(sentence.format(model=model), code, error_detail(error, secrets)) from None
        raise


def error_detail(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The error and its causes, for operators."""
    chain = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    text = " <- ".join(f"{type(one).__name__}: {one}" for one in chain)
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text[:DETAIL_LENGTH]
