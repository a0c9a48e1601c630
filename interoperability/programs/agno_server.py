from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.os import AgentOS
from serving import serve


class Turns(Model):
    """In place of a language model."""

    def invoke(self, messages: list[Message], *args: Any, **kwargs: Any) -> ModelResponse:
        told = [message.get_content_string() for message in messages if message.role == "user"]
        return ModelResponse(role="assistant", content=f"{len(told)}: {told[-1]}")

    async def ainvoke(self, messages: list[Message], *args: Any, **kwargs: Any) -> ModelResponse:
        return self.invoke(messages)

    def invoke_stream(self, messages: list[Message], *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
        yield self.invoke(messages)

    async def ainvoke_stream(self, messages: list[Message], *args: Any, **kwargs: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke(messages)

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


agent = Agent(
    id="turns",
    name="Turns",
    description="Counts turns.",
    model=Turns(id="turns"),
    db=InMemoryDb(),
    add_history_to_context=True,
    telemetry=False,
)
serve(AgentOS(agents=[agent], a2a_interface=True, telemetry=False).get_app())
