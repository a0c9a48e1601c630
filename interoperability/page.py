"""The table of docs/reference/interoperability.md."""

from __future__ import annotations

import datetime
import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass

from interoperability.packages import Package
from interoperability.tries import WANTED, Outcome
from tests.stack import ROOT

PAGE = ROOT / "docs" / "reference" / "interoperability.md"
BEGIN, END = "<!-- tried -->", "<!-- end -->"
ORDER = list(WANTED)
HEAD = """| package | version | A2A | direction | worked | did not work |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """A package in one direction."""

    package: Package
    is_client: bool
    outcomes: list[Outcome]

    @property
    def own(self) -> dict[str, str]:
        return self.package.clients_own if self.is_client else self.package.servers_own

    @property
    def unexpected(self) -> list[str]:
        """What differs from the declared table."""
        failed = {one.tried: one.failure for one in self.outcomes if one.failure}
        news = [f"{tried}: {failure}" for tried, failure in failed.items() if tried not in self.own]
        tried = {one.tried for one in self.outcomes}
        return news + [f"{name}: works now" for name in self.own if name in tried and name not in failed]

    @property
    def failures(self) -> dict[str, str]:
        """Reasons by what was tried, the package's own also where it cannot be tried."""
        untried = {name: reason for name, reason in self.own.items() if name not in {o.tried for o in self.outcomes}}
        return untried | {o.tried: self.own.get(o.tried) or plain(o.failure) for o in self.outcomes if o.failure}

    def __str__(self) -> str:
        failures = self.failures
        worked = in_order(one.tried for one in self.outcomes if not one.failure)
        failed = {
            reason: in_order(name for name in failures if failures[name] == reason) for reason in failures.values()
        }
        direction = "it calls Parley" if self.is_client else "Parley calls it"
        cells = [f"`{self.package.shown}`", self.package.version, self.package.speaks, direction]
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in failed.items())
        return f"| {' | '.join([*cells, ', '.join(worked), reasons])} |"


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def plain(failure: str) -> str:
    """A failure without paths and ports, short, as a table's cell."""
    text = re.sub(r"(?<![\w:])/[\w./-]+|127\.0\.0\.1:\d+", "…", " ".join(failure.split()))
    return text.replace("|", "\\|").replace("<", "&lt;")[:160]


def write(rows: list[Row]) -> None:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    version = importlib.metadata.version("parley-platform")
    said = f"Parley {version}, {datetime.date.today().isoformat()}.\n\n{HEAD}" + "".join(f"{row}\n" for row in rows)
    PAGE.write_text(f"{before}{BEGIN}\n{said}{END}{rest.split(END)[1]}")
