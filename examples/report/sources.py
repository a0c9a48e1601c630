"""Which of the files within reach a report is about."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit import File, Message, TaskContext, UnreadableContent
from examples.report.decoding import NotATable
from examples.report.figures import clipped
from examples.report.table import Table, read_table

TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".txt")


@dataclass(frozen=True)
class Source:
    """A file that holds a table."""

    message_id: str
    name: str
    table: Table

    @property
    def memo(self) -> dict[str, Any]:
        """Enough to find the file again in a later turn."""
        return {"message": self.message_id, "name": self.name}


class NoSource(Exception):
    """There is no file to report on; the text says what to send."""


async def newly_sent(task: TaskContext) -> Source | None:
    """The table among the files of this turn's message; None when it has no files.

    Raises:
        NoSource: it has files, and none of them is a table.
    """
    return await _first_table([task.message])


async def remembered(task: TaskContext, memo: dict[str, Any] | None) -> Source | None:
    """The table that an earlier turn settled on, if it is still there."""
    if not memo:
        return None
    for message in _reachable(task):
        for file in message.files:
            if message.id == memo["message"] and file.name == memo["name"]:
                return await _read(message, file)
    return None


async def within_reach(task: TaskContext) -> Source | None:
    """The nearest table: what the referenced tasks were given, then what the conversation holds, newest first."""
    for message in _reachable(task):
        if message.files:
            try:
                return await _first_table([message])
            except NoSource:
                continue
    return None


def _reachable(task: TaskContext) -> Iterator[Message]:
    for reference in task.references:
        yield from (message for message in reversed(reference.messages) if message.role == "user")
    yield task.message
    yield from reversed(task.history)


async def _first_table(messages: Sequence[Message]) -> Source | None:
    found = [(message, file) for message in messages for file in message.files]
    # What is called a table is looked at first; what is wrong with it is what people want to know.
    found.sort(key=lambda pair: not pair[1].name.lower().endswith(TABLE_ENDINGS))
    problem: NoSource | None = None
    for message, file in found:
        try:
            return await _read(message, file)
        except NoSource as error:
            problem = problem or error
    if problem:
        raise problem
    return None


async def _read(message: Message, file: File) -> Source:
    try:
        table = await asyncio.to_thread(lambda: read_table(file.read()))
    except (NotATable, UnreadableContent) as error:
        name = clipped(file.name, 60)
        raise NoSource(f"I cannot use {f'“{name}”' if name else 'this file'}. {error}") from error
    return Source(message.id, file.name, table)
