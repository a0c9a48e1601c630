"""Expression of genes under compounds: how far each gene moves, and what the moves of all come to."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from examples.report.figures import clipped
from examples.research.inference import NoSpread, adjusted, welch
from examples.research.results import ExpressionAnalysis, GeneChange, Signature
from examples.research.tables import NAME, Unusable, Upload

COLUMNS = ("gene",)
CONTROL = "control"
LEAST_FOLD = 1.0  # of the logarithm to base 2: twice, or half
LEAST_Q = 0.05
MOST_TESTS, MOST_COMPOUNDS = 60_000, 12
MOST_KEPT = 2_000
RULES = [
    "Log2 fold change: the mean of log2(value + 1) under the compound, less that under the control.",
    "p by Welch's test on these logarithms, two-sided; q by Benjamini and Hochberg over the genes of a compound.",
    f"A gene has changed where q is below {LEAST_Q:g} and it at least doubled or halved.",
]

Values = dict[str, list[list[float]]]
"""For each condition a list of its values, gene by gene, as logarithms."""


def analysed(
    upload: Upload, pathway: Sequence[str], stress: Sequence[str]
) -> tuple[ExpressionAnalysis, list[GeneChange]]:
    """The analysis, which keeps the genes that have changed, and all that were tested.

    Args:
        pathway: the genes that drive the disease: they should fall.
        stress: the genes of stressed cells: they should not rise.

    Raises:
        Unusable: no control, a condition with one replicate, a gene twice, or values below nought.
    """
    genes, values = _values(upload)
    compounds = [name for name in values if name != CONTROL]
    untested: set[str] = set()
    changes = {name: _changes(name, genes, values[name], values[CONTROL], untested) for name in compounds}
    notes = [f"{len(untested)} genes have no spread at all and were not tested."] if untested else []
    if not set(pathway) & set(genes):
        notes.append("None of the genes that drive the disease is in the file, or no follow-up design came with it.")
    if upload.left_out:
        notes.append(f"{upload.left_out} rows had too many or too few values and were left out.")
    every = [change for name in compounds for change in changes[name]]
    analysis = ExpressionAnalysis(
        source=upload.source,
        rules=RULES,
        signatures=[_signature(name, changes[name], pathway, stress) for name in compounds],
        changes=[one for one in every if has_changed(one)][:MOST_KEPT],
        notes=notes,
    )
    return analysis, every


def has_changed(change: GeneChange) -> bool:
    return change.q < LEAST_Q and abs(change.log2_fold_change) >= LEAST_FOLD


def _values(upload: Upload) -> tuple[list[str], Values]:
    genes = upload.texts("gene")
    gene, times = Counter(genes).most_common(1)[0]
    if times > 1:
        raise Unusable(f"The gene {gene} is there {times} times: keep one row for each gene.")
    columns: dict[str, list[str]] = defaultdict(list)
    for column in upload.columns:
        if column == "gene":
            continue
        parts = re.fullmatch(r"(.+)[_.](\d+)", column)
        if not parts or not NAME.fullmatch(parts[1]):
            raise Unusable(
                f"The column “{clipped(column, 40)}” is none that I know: name the columns by condition and replicate, "
                "such as control_1, control_2, PX-07_1, PX-07_2."
            )
        columns[CONTROL if parts[1].casefold() == CONTROL else parts[1]].append(column)
    _check(columns, len(genes))
    return genes, {name: _logarithms(upload, mine) for name, mine in columns.items()}


def _check(columns: dict[str, list[str]], genes: int) -> None:
    if CONTROL not in columns:
        raise Unusable("There is no control: name its columns control_1, control_2 and so on.")
    if len(columns) < 2:
        raise Unusable("There is nothing but the control: add columns for each compound, such as PX-07_1, PX-07_2.")
    if alone := next((name for name, mine in columns.items() if len(mine) < 2), None):
        raise Unusable(f"{alone} has one replicate: send at least two columns for each condition.")
    if len(columns) - 1 > MOST_COMPOUNDS or genes * (len(columns) - 1) > MOST_TESTS:
        raise Unusable(f"Send at most {MOST_COMPOUNDS} compounds, and {MOST_TESTS:,} genes times compounds.")


def _logarithms(upload: Upload, columns: Iterable[str]) -> list[list[float]]:
    cells = [upload.numbers(column) for column in columns]
    if any(value < 0 for column in cells for value in column):
        raise Unusable("There are values below nought: send counts or normalised counts, not logarithms.")
    return [[math.log2(value + 1) for value in row] for row in zip(*cells, strict=True)]


def _changes(
    compound: str, genes: list[str], treated: list[list[float]], control: list[list[float]], untested: set[str]
) -> list[GeneChange]:
    tested: list[tuple[str, float, float]] = []
    for gene, under, without in zip(genes, treated, control, strict=True):
        try:
            tested.append((gene, fmean(under) - fmean(without), welch(under, without).p))
        except NoSpread:
            untested.add(gene)
    discoveries = adjusted([p for _, _, p in tested])
    found = [
        GeneChange(compound=compound, gene=gene, log2_fold_change=fold, p=p, q=q)
        for (gene, fold, p), q in zip(tested, discoveries, strict=True)
    ]
    return sorted(found, key=lambda one: (one.q, -abs(one.log2_fold_change), one.gene))


def _signature(compound: str, changes: list[GeneChange], pathway: Sequence[str], stress: Sequence[str]) -> Signature:
    changed = [one for one in changes if has_changed(one)]
    return Signature(
        compound=compound,
        tested=len(changes),
        changed=len(changed),
        pathway_measured=sum(one.gene in pathway for one in changes),
        pathway_down=sum(one.gene in pathway and one.log2_fold_change < 0 for one in changed),
        stress_up=sorted(one.gene for one in changed if one.gene in stress and one.log2_fold_change > 0),
        elsewhere=sum(one.gene not in pathway and one.gene not in stress for one in changed),
    )
