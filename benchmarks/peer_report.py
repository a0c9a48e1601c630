"""Results of `benchmarks.peers` as text, JSON, and in docs/performance.md with its picture."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.cells import CELLS, Cell, Sample
from benchmarks.figures import shown
from tests.stack import ROOT

SDK, MEMORY, PARLEY = "SDK, PostgreSQL", "SDK, in memory", "Parley"
ROLES = ("client", "web", "worker", "PostgreSQL", "broker")
PAGE = ROOT / "docs" / "performance.md"
PICTURE = PAGE.with_suffix(".svg")
Rows = list[list[str]]


@dataclass
class Results:
    """What was measured.

    Attributes:
        machine: and the run.
        figures: of each round, by cell and peer.
        processor: ms of each round for a request, by cell, peer and role.
    """

    machine: dict[str, Any]
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    processor: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    def add(self, cell: Cell, peer: str, sample: Sample, used: dict[str, float]) -> None:
        self.figures.setdefault(cell.key, {}).setdefault(peer, []).append(sample.figure)
        roles = self.processor.setdefault(cell.key, {}).setdefault(peer, {})
        for role, seconds in used.items():
            roles.setdefault(role, []).append(seconds * 1000 / sample.requests)

    def cells(self) -> list[Cell]:
        return [cell for cell in CELLS if cell.key in self.figures]

    def median(self, cell: Cell, peer: str) -> float | None:
        found = self.figures.get(cell.key, {}).get(peer)
        return statistics.median(found) if found else None

    def used(self, cell: Cell, peer: str, role: str) -> float | None:
        """The mean, because the system counts in steps of 10 ms."""
        found = self.processor.get(cell.key, {}).get(peer, {}).get(role)
        return statistics.fmean(found) if found else None

    def ratios(self, cell: Cell) -> list[float]:
        """Parley's median to the SDK's on PostgreSQL, and the least and the greatest ratio of a round."""
        found = self.figures.get(cell.key, {})
        if SDK not in found or PARLEY not in found:
            return []
        rounds = [parley / sdk for sdk, parley in zip(found[SDK], found[PARLEY], strict=True)]
        return [statistics.median(found[PARLEY]) / statistics.median(found[SDK]), min(rounds), max(rounds)]

    def rows(self) -> Rows:
        rows = [["", SDK, MEMORY, PARLEY, "ratio", "of rounds", "must", "aim", "met"]]
        for cell in self.cells():
            ratio = met = spread = ""
            if ratios := self.ratios(cell):
                ratio, spread = shown(ratios[0]), f"{shown(ratios[1])} to {shown(ratios[2])}"
                met = "aim" if cell.holds(ratios[0], cell.aim) else "must" if cell.holds(ratios[0], cell.must) else "no"
            sign = "≤" if cell.less_is_better else "≥"
            medians = [_shown(self.median(cell, peer)) for peer in (SDK, MEMORY, PARLEY)]
            limits = [f"{sign} {cell.must:g}", f"{sign} {cell.aim:g}"]
            rows.append([f"{cell.title}, {cell.unit}", *medians, ratio, spread, *limits, met])
        return rows

    def processor_rows(self) -> Rows:
        rows = [["processor ms a request", "server", *ROLES]]
        for cell in self.cells():
            for peer in self.processor[cell.key]:
                rows.append([cell.title, peer, *(_shown(self.used(cell, peer, role)) for role in ROLES)])
        return rows

    def described(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.machine.items())

    def as_text(self) -> str:
        return "\n".join([self.described(), "", *_aligned(self.rows()), "", *_aligned(self.processor_rows())])


def changes(before: Results, after: Results) -> Rows:
    """Parley's figures and ratios, and the processor time of its processes for a request."""
    rows = [["", "before", "after", "ratio before", "ratio after", "processor ms before", "processor ms after"]]
    for cell in after.cells():
        row = [f"{cell.title}, {cell.unit}"]
        row += [_shown(one.median(cell, PARLEY)) for one in (before, after)]
        row += [_shown(next(iter(one.ratios(cell)), None)) for one in (before, after)]
        row += [_shown(sum(one.used(cell, PARLEY, role) or 0 for role in ROLES[1:])) for one in (before, after)]
        rows.append(row)
    return rows


def write(results: Results, before: Results | None) -> None:
    """Put tables between the page's markers, and draw its picture."""
    page = _between(PAGE.read_text(), "figures", f"{_table(results.rows())}\n\nThe run: {results.described()}.")
    page = _between(page, "processor", _table(results.processor_rows()))
    if before:
        page = _between(page, "changes", _table(changes(before, results)))
    PAGE.write_text(page)
    PICTURE.write_text("\n".join(picture(results)) + "\n")


def _table(rows: Rows) -> str:
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|---|" + "---:|" * (len(rows[0]) - 1), *others])


def _between(page: str, marker: str, text: str) -> str:
    begin, end = f"<!-- {marker} -->", f"<!-- end of {marker} -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL)


def picture(results: Results) -> Iterator[str]:
    """How many times as fast as the SDK's server Parley is: a bar for each cell, on a logarithmic scale."""
    left, top, step, decade = 285, 66, 40, 200  # pixels
    cells = [(cell, results.ratios(cell)[0]) for cell in results.cells() if results.ratios(cell)]
    bottom = top + step * len(cells)

    def place(times: float) -> int:
        return min(max(left, round(left + decade * (math.log10(times) + 0.35))), 755)

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {bottom + 34}" role="img" aria-labelledby="t">'
    yield '<title id="t">How many times as fast as the official SDK’s server on PostgreSQL Parley is</title>'
    yield STYLE
    yield f'<rect class="page" width="800" height="{bottom + 34}" rx="8"/>'
    yield '<text class="bold" x="20" y="30">Parley, times as fast as the SDK’s server on PostgreSQL</text>'
    for times in (1, 3, 10, 30, 100):
        yield f'<path class="line" d="M{place(times)} {top - 10}V{bottom}"/>'
        yield f'<text class="mid" x="{place(times)}" y="{bottom + 20}">{times}×</text>'
    for number, (cell, ratio) in enumerate(cells):
        y = top + number * step
        speed, must, aim = (1 / one if cell.less_is_better else one for one in (ratio, cell.must, cell.aim))
        begin, end = sorted((place(1), place(speed)))
        kind = "good" if cell.holds(ratio, cell.must) else "bad"
        yield f'<text x="20" y="{y + 15}">{cell.title}</text>'
        yield f'<rect class="{kind}" x="{begin}" y="{y}" width="{max(1, end - begin)}" height="20"/>'
        yield f'<path class="mark" d="M{place(must)} {y - 4}v28"/>'
        yield f'<path class="mark dots" d="M{place(aim)} {y - 4}v28"/>'
        yield f'<text x="{max(end, place(aim)) + 8}" y="{y + 15}">{shown(speed)}×</text>'
    yield "</svg>"


STYLE = """<style>
  text{font:14px system-ui,sans-serif;fill:#0f172a} .bold{font-weight:600} .mid{text-anchor:middle}
  .mark{stroke:#0f172a;stroke-width:2} .dots{stroke-dasharray:3 3}
  .page{fill:#fff} .line{stroke:#cbd5e1} .good{fill:#2563eb} .bad{fill:#dc2626}
  @media (prefers-color-scheme:dark){
    text{fill:#f1f5f9} .mark{stroke:#f1f5f9}
    .page{fill:#1e2129} .line{stroke:#475569} .good{fill:#60a5fa} .bad{fill:#f87171}
  }
</style>"""


def _shown(value: float | None) -> str:
    return "" if value is None else shown(value)


def _aligned(rows: Rows) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{value:<{width}}" for value, width in zip(row, widths, strict=True)).rstrip() for row in rows]
