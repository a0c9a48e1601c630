"""Speech by the connected models' endpoints: OpenAI's audio API, where an endpoint lists a model for it.

https://platform.openai.com/docs/api-reference/audio
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from django.conf import settings

from agentkit.errors import AgentFailure
from agentkit.llm.models import import_in_thread
from apps.accounts.principals import Principal
from apps.engine.queue import Lane
from apps.engine.turns.assignment import spends_for
from apps.installation import current
from apps.installation.current import Snapshot
from apps.model_agents.language_models import Choice, check_obstacles, choose, endpoint_client
from apps.record.errors import NotAccepting

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OFF = "off"
LISTENS = re.compile(r"whisper|transcri|parakeet|\bstt\b", re.IGNORECASE)
SPEAKS = re.compile(r"\btts\b|kokoro|text-to-speech|orpheus", re.IGNORECASE)
LONGEST_SPOKEN = 4096  # characters in a request
BYTES = "application/octet-stream"
EXTENSIONS = {
    BYTES: "webm",  # as browsers record it
    "audio/webm": "webm",
    "audio/ogg": "ogg",
    "audio/mp4": "mp4",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/flac": "flac",
}
"""Of recordings, by media type. Endpoints read the type from the file's name."""


NOT_OFFERED = "No connected model does this. Use the browser's own speech, or ask an operator to connect such a model."
FAILED = "The model for speech did not answer. Try again, or use the browser's own speech."


def listener() -> str:
    """The name of the model that writes down what is said; "" without one."""
    return _named(settings.TRANSCRIPTION_MODEL, LISTENS, current.snapshot())


def speaker() -> str:
    """The name of the model that reads aloud; "" without one."""
    return _named(settings.SPEECH_MODEL, SPEAKS, current.snapshot())


def _named(chosen: str, pattern: re.Pattern[str], known: Snapshot) -> str:
    if chosen == OFF:
        return ""
    return chosen or next((name for name in known.names if pattern.search(name)), "")


async def transcribe(principal: Principal, recording: bytes, media_type: str, language: str = "") -> str:
    """The words of a recording.

    Args:
        media_type: one of `EXTENSIONS`.
        language: what is spoken, as a code of ISO 639-1; "" lets the model find out.

    Raises NotAccepting.
    """
    async with _opened(principal, listener()) as (client, choice):
        file = (f"recording.{EXTENSIONS[media_type]}", recording)
        extra = {"language": language} if language else {}
        answer = await client.audio.transcriptions.create(model=choice.model, file=file, extra_body=extra)
        return str(getattr(answer, "text", "")).strip()


async def speak(principal: Principal, text: str, voice: str = "") -> bytes:
    """The text as MP3. `voice` is one of the endpoint's. Raises NotAccepting."""
    async with _opened(principal, speaker()) as (client, choice):
        answer = await client.audio.speech.create(
            model=choice.model, voice=voice or settings.SPEECH_VOICE, input=text, response_format="mp3"
        )
        return await answer.aread()


@asynccontextmanager
async def _opened(principal: Principal, name: str) -> AsyncIterator[tuple[AsyncOpenAI, Choice]]:
    """The endpoint's client. Errors inside are raised as NotAccepting."""
    if not name:
        raise NotAccepting(NOT_OFFERED)
    await import_in_thread("agentkit.llm.endpoints")
    import openai

    spends_for.set(Lane(principal.workspace_id or 0, 0, principal.key))
    choice = choose(current.snapshot(), name)
    try:
        await check_obstacles(0.0, 0)
        async with endpoint_client(choice.endpoint) as client:
            yield client, choice
    except AgentFailure as failure:
        raise NotAccepting(str(failure)) from None
    except openai.OpenAIError as error:
        raise NotAccepting(FAILED) from error
