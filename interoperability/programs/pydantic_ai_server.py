"""Pydantic AI by fasta2a, with a function in place of a language model."""

from collections.abc import AsyncIterator

from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from serving import URL, serve


def answer(messages: list[ModelMessage]) -> str:
    prompts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    said = prompts[-1].content
    return f"{len(prompts)}: {said if isinstance(said, str) else ''.join(map(str, said))}"


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart(answer(messages))])


async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    for word in answer(messages).split(" "):
        yield word if word.endswith(":") else f" {word}"


serve(agent_to_a2a(Agent(FunctionModel(respond, stream_function=stream)), name="Turns", url=URL))
