from collections.abc import AsyncIterator
from typing import Any

from serving import PORT
from strands import Agent
from strands.models import Model
from strands.multiagent.a2a import A2AServer


class Turns(Model):
    """In place of a language model."""

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        told = [message["content"][0]["text"] for message in messages if message["role"] == "user"]
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        for piece in (f"{len(told)}: ", told[-1]):
            yield {"contentBlockDelta": {"delta": {"text": piece}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def agent(context_id: str) -> Agent:
    return Agent(model=Turns(), name="Turns", description="Counts turns.", callback_handler=None)


A2AServer(agent_factory=agent, port=PORT, enable_a2a_compliant_streaming=True).serve()
