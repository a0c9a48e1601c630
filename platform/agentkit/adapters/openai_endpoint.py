"""An OpenAI-compatible endpoint as an agent.

    from agentkit.adapters.openai_endpoint import serve
    serve("http://127.0.0.1:11434/v1", model="llama3.2")

It needs `httpx2`. The conversation is sent as chat messages, and the answer streams. No tools are offered to the model:
an agent behind the endpoint uses its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack
from urllib.parse import urlsplit

from agentkit.adapters import serving, words_of
from agentkit.adapters.http_endpoint import LONGEST_ERROR, SECONDS, inline, lines, posted, read
from agentkit.content.emissions import Emission, Thought, Token, Usage
from agentkit.content.messages import File, Message
from agentkit.context import TaskContext
from agentkit.errors import AgentFailure
from agentkit.handlers import SkillHandler, Traits
from agentkit.outcomes import Completed

PATH = "/chat/completions"


class OpenAIEndpoint(SkillHandler):
    """A model or an agent at a URL of chat completions."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        api_key: str = "",
        instructions: str = "",
        options: Mapping[str, Any] | None = None,
        seconds: float = SECONDS,
        **traits: Unpack[Traits],
    ) -> None:
        """
        Args:
            url: of the API, such as `https://api.openai.com/v1`, or of its `/chat/completions`.
            instructions: the system message.
            options: more of the request's body, such as `temperature`.
            seconds: how long it may stay silent.
        """
        self.url = url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH
        self.model = model
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.instructions = instructions
        self.options = dict(options or {})
        self.seconds = seconds
        self.name = model
        self.description = f"{model} at {urlsplit(url).hostname}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Completed:
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        messages = [*system, *map(chat_message, task.history), chat_message(task.message)]
        body = {"model": self.model, "messages": messages, **self.options}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        heard = Heard()
        async with posted(self.url, body, self.headers, self.seconds) as response:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                async for line in lines(response):
                    for emission in heard.emissions(read(line)):
                        await task.say(emission)
            else:  # it does not stream
                await response.aread()
                for emission in heard.emissions(read(response.text)):
                    await task.say(emission)
        if heard.used:
            given, made = (int(heard.used.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
            await task.say(Usage(self.model, 1, given, made, is_cut_off=heard.is_cut_off))
        return Completed()


class Heard:
    """What the endpoint says in its chunks, or at once."""

    def __init__(self) -> None:
        self.used: dict[str, Any] = {}
        self.is_cut_off = False

    def emissions(self, piece: Any) -> list[Emission]:
        """Raises AgentFailure for an error."""
        if not isinstance(piece, dict) or piece.get("error"):
            raise AgentFailure("The endpoint broke off its answer.", "endpoint", str(piece)[:LONGEST_ERROR])
        self.used = piece.get("usage") or self.used
        choice = (piece.get("choices") or [{}])[0]
        self.is_cut_off = self.is_cut_off or choice.get("finish_reason") == "length"
        said = choice.get("delta") or choice.get("message") or {}
        thought, text = said.get("reasoning_content"), said.get("content")
        return [*([Thought(str(thought))] if thought else ()), *([Token(str(text))] if text else ())]


agent = OpenAIEndpoint
serve = serving(agent)


def chat_message(message: Message) -> dict[str, Any]:
    """A message with a person's files."""
    text = words_of(message)
    if message.role == "agent":
        return {"role": "assistant", "content": text}
    files = [_file(file) for file in message.files]
    return {"role": "user", "content": [{"type": "text", "text": text}, *files] if files else text}


def _file(file: File) -> dict[str, Any]:
    url = file.url or f"data:{file.media_type};base64,{inline(file)}"
    if file.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name or "file", "file_data": url}}
