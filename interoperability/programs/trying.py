"""What the client programs share: each thing tried prints one line of JSON, which interoperability/tries.py judges."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

URL, KEY = os.environ["PARLEY_URL"], os.environ["KEY"]
ECHO, COUNTDOWN = f"{URL}/echo", f"{URL}/countdown"
HEADERS = {"Authorization": f"Bearer {KEY}"}


@dataclass(frozen=True)
class Answer:
    """What a package tells of an answer; states as it writes them."""

    text: str = ""
    state: str = ""
    task: str = ""
    context: str = ""


def going_on(answers: list[Answer]) -> dict[str, str]:
    """Names of the context, and of the task if it asks, for the next message."""
    if not answers:
        return {}
    asks = "input" in answers[-1].state.lower()
    return {"context_id": answers[-1].context, **({"task_id": answers[-1].task} if asks else {})}


def main(
    said: Callable[..., Awaitable[list[Answer]]],
    *,
    stream: Callable[[str, str], Awaitable[list[str]]] | None = None,
    cancel: Callable[[str, str], Awaitable[str]] | None = None,
    file: Callable[[str, str, str, bytes], Awaitable[bytes]] | None = None,
) -> None:
    """Tries what the package can do.

    Args:
        said: the answers of one conversation, to an agent's URL and texts.
        stream: the texts of the pieces.
        cancel: the state of the task that begins with the text and is then canceled.
        file: the returned content; by name, media type and content.
    """

    async def message() -> str:
        return (await said(ECHO, "Hello, Parley"))[0].text

    async def second_turn() -> list[str]:
        return [answer.context for answer in await said(ECHO, "Hello, Parley", "Once more")]

    async def question() -> list[str]:
        asked, answered = await said(COUNTDOWN, "20000", "2")
        return [asked.state, answered.state, "same task" if asked.task == answered.task else "another task"]

    tried: dict[str, Callable[[], Awaitable[Any]]] = {
        "message": message,
        "second turn": second_turn,
        "question": question,
    }
    if stream:
        tried["stream"] = lambda: stream(COUNTDOWN, "3")
    if cancel:
        tried["cancel"] = lambda: cancel(COUNTDOWN, "10000")
    if file:
        tried["file"] = lambda: _decoded(file(ECHO, "hello.txt", "text/plain", b"The content of a file."))
    asyncio.run(_try_all(tried))


async def _decoded(content: Awaitable[bytes]) -> str:
    return (await content).decode()


async def _try_all(tried: dict[str, Callable[[], Awaitable[Any]]]) -> None:
    for name, function in tried.items():
        try:
            line = {"tried": name, "got": await asyncio.wait_for(function(), 20)}
        except Exception as error:  # whatever the package raises is the result
            line = {"tried": name, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(line), flush=True)
