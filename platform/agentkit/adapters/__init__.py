"""Agents of other frameworks, as agents of this one. Each module needs the framework's own package.

`agent(theirs)` makes a `SkillHandler`, which a platform or `agentkit serve` runs; `serve(theirs)` serves it at once.
`docs/how-to/bring-your-agent/README.md` says what of a framework becomes what.
"""

import asyncio
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from agentkit.content.emissions import WholeAnswer
from agentkit.content.messages import Artifact, Message, data_part, text_part
from agentkit.context import TaskContext
from agentkit.effects import MAX_NAME
from agentkit.handlers import SkillHandler
from agentkit.outcomes import Completed, InputRequired

MOST_KEPT = 48 * 1024
"""Bytes of a conversation that are kept in its memory. Of a longer one, the next turn gets the texts alone."""

APPROVAL = "approval"
"""The slot of the question whether a tool may be called."""
APPROVE, REFUSE = "approve", "refuse"
REFUSED = "A person refused this call. Do not make it again unless they ask for it."


def serving(agent: Callable[..., SkillHandler]) -> Callable[..., None]:
    """An adapter's `serve(theirs, *, host, port, token, **options)`: see `agentkit.serving.serve`. `options` are those
    of its `agent`.
    """

    def serve(theirs: Any, *, host: str = "127.0.0.1", port: int = 8080, token: str = "", **options: Any) -> None:
        from agentkit import serving

        serving.serve(agent(theirs, **options), host=host, port=port, token=token)

    return serve


def approval_question(tool: str, arguments: Any) -> InputRequired:
    """Asks whether a tool may be called. The answer is APPROVE or REFUSE."""
    shown = {"tool": tool, "arguments": arguments_of(arguments)}
    choices = {"type": "string", "enum": [APPROVE, REFUSE]}
    return InputRequired([text_part("May the agent use this tool?"), data_part(shown)], APPROVAL, choices)


def answer_of(output: Any) -> Completed:
    """A framework's result: text is the message, all else is data."""
    if isinstance(output, str):
        return Completed(output)
    return Completed(artifacts=[Artifact.json("answer", plain(output))])


async def ended(task: TaskContext, said: str, output: Any) -> Completed:
    """The outcome of a turn that streamed `said`, which may be more than its answer."""
    outcome = answer_of(output)
    if said and outcome.message is not None and said != outcome.message:
        await task.say(WholeAnswer(str(outcome.message)))
    return outcome


class FinishedCalls:
    """A turn's tool calls as steps: a turn that starts again gets the results of those that had finished.

    A call is known by its tool, its arguments and the number of equal calls before it. Results that are not JSON, or
    too long, are not kept: such a call runs again.
    """

    def __init__(self, task: TaskContext) -> None:
        self.task = task
        self._equal: Counter[str] = Counter()

    async def result(self, tool: str, arguments: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        """What `run` returns, or its result of an earlier attempt: a Pydantic model as its data."""
        made: list[Any] = []

        async def act() -> list[Any]:
            made.append(await run())
            return _kept(made[0])

        kept = await self.task.step(_note(tool), act, key=self.key(tool, arguments))
        if made:
            return made[0]
        return kept[0] if kept else await run()

    def key(self, tool: str, arguments: Any) -> str:
        """Of a call that begins: ask once for each."""
        which = hashlib.sha256(json.dumps([tool, arguments_of(arguments)], sort_keys=True).encode()).hexdigest()[:16]
        self._equal[which] += 1
        return f"{which} {self._equal[which]}"

    async def earlier(self, tool: str, key: str) -> list[Any]:
        """The call's result of an earlier attempt, in a list; an empty one if it has none."""
        if self.task.attempt == 1:
            return []
        try:
            found: list[Any] = await self.task.step(_note(tool), _goes_on_here, key=key)
            return found
        except _NothingMore:
            return []

    async def keep(self, tool: str, key: str, result: Any) -> None:
        """For a framework that runs the call itself: its result."""
        await self.task.step(_note(tool), lambda: _kept(result), key=key)


class Saves:
    """What a turn saves, one after the other, as steps: a turn that starts again finds what was saved before."""

    def __init__(self, task: TaskContext, name: str) -> None:
        self.task = task
        self.name = name
        self._count = 0
        self._one_by_one = asyncio.Lock()

    async def earlier(self) -> AsyncGenerator[Any]:
        """What earlier attempts saved. Ask before you add."""
        while self.task.attempt > 1:
            try:
                yield await self._step(_goes_on_here)
            except _NothingMore:
                return

    async def add(self, saved: Any) -> None:
        """Save JSON, unless it is too long."""
        async with self._one_by_one:
            if len(json.dumps(saved)) <= MOST_KEPT:
                await self._step(lambda: saved)

    async def _step(self, run: Callable[[], Any]) -> Any:
        saved = await self.task.step(f"keep {self.name}", run, key=str(self._count))
        self._count += 1
        return saved


def _note(tool: str) -> str:
    return f"keep {tool}"[:MAX_NAME]


class _NothingMore(Exception):
    """Nothing more was saved."""


def _goes_on_here() -> Any:
    raise _NothingMore("The turn goes on from here.")


def _kept(result: Any) -> list[Any]:
    """A result as JSON, in a list; an empty one for what cannot be kept."""
    data = result.model_dump(mode="json") if hasattr(result, "model_dump") else result
    try:
        return [data] if len(json.dumps(data)) <= MOST_KEPT else []
    except (TypeError, ValueError):
        return []


def keep(memory: dict[str, Any], name: str, conversation: Any) -> None:
    """Keep a conversation, unless it is too long."""
    memory.pop(name, None)
    if len(json.dumps(conversation)) <= MOST_KEPT:
        memory[name] = conversation


def words_of(message: Message) -> str:
    """A message's text, or its data as JSON."""
    return message.text or "\n".join(json.dumps(value, ensure_ascii=False) for value in message.data)


def arguments_of(given: Any) -> dict[str, Any]:
    """A tool call's arguments, which may be JSON text."""
    try:
        value = json.loads(given) if isinstance(given, str) and given else given or {}
    except ValueError:
        value = {"text": given}
    return plain(value) if isinstance(value, dict) else {"value": plain(value)}


def plain(value: Any) -> Any:
    """As JSON: Pydantic models and dataclasses by their fields, other objects as text."""
    return json.loads(json.dumps(value, default=_fields))


def _fields(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    is_data = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if is_data else getattr(value, "text", None) or str(value)
