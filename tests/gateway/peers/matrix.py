"""Which agent passed which operation of the script: a table, written where MATRIX says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class Matrix:
    """Cells by agent and operation: milliseconds where it passed, otherwise what went wrong."""

    def __init__(self, agents: Sequence[str], operations: Sequence[str]) -> None:
        self._agents, self._operations = agents, operations
        self._cells: dict[tuple[str, str], str] = {}

    @contextmanager
    def cell(self, agent: str, operation: str) -> Iterator[None]:
        """Note how the block ends."""
        began = time.perf_counter()
        try:
            yield
        except BaseException as error:
            self._cells[agent, operation] = f"**{type(error).__name__}**"
            raise
        self._cells[agent, operation] = f"passed, {(time.perf_counter() - began) * 1000:.0f} ms"

    def write(self, path: Path) -> None:
        """As a table in Markdown: a row for each operation, a column for each agent."""
        rows = [["operation", *self._agents], ["---"] * (len(self._agents) + 1)]
        rows += [[one, *(self._cells.get((agent, one), "") for agent in self._agents)] for one in self._operations]
        path.write_text("".join(f"| {' | '.join(row)} |\n" for row in rows))
