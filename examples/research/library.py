"""The pipeline's made-up papers and molecules, and the rules that choose among them."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from agentkit import AgentFailure
from examples.research.results import (
    LiteratureReview,
    Modality,
    Molecule,
    Paper,
    Selection,
    SetAside,
    Source,
    TargetEvidence,
)

DATA = Path(__file__).parent / "data"
CORPUS = "corpus.json"


@cache
def corpus() -> dict[str, Any]:
    known: dict[str, Any] = json.loads((DATA / CORPUS).read_text(encoding="utf-8"))
    return known


@cache
def read_rows(name: str) -> tuple[dict[str, str], ...]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def file_source(name: str, rows: int) -> Source:
    return Source(file=name, sha256=hashlib.sha256((DATA / name).read_bytes()).hexdigest(), rows=rows)


def subjects() -> list[str]:
    return list(corpus()["subjects"])


def subject_in(text: str) -> str | None:
    """The subject that a text mentions most; None without a subject, or if several are mentioned equally."""
    said = set(re.findall(r"\w+", text.casefold()))
    hits = {name: len(said & set(about["words"])) for name, about in corpus()["subjects"].items()}
    best = max(hits.values())
    named = [name for name, count in hits.items() if count == best]
    return named[0] if best and len(named) == 1 else None


def review_papers(subject: str) -> LiteratureReview:
    """The papers on the subject, newest first, and for each target the evidence for and against it.

    A paper's weight depends on its evidence (genetics 3, animals 2, cells 1). A contradicting paper counts against the
    target.
    """
    about = corpus()["subjects"][subject]
    papers = [Paper.model_validate(paper) for paper in corpus()["papers"] if paper["subject"] == subject]
    targets = [_evidence(target, known, papers) for target, known in about["targets"].items()]
    return LiteratureReview(
        subject=subject,
        marker=about["marker"],
        papers=sorted(papers, key=lambda paper: (-paper.year, paper.id)),
        targets=sorted(targets, key=lambda target: (-target.score, target.target)),
        corpus=file_source(CORPUS, len(corpus()["papers"])),
    )


def _evidence(target: str, known: dict[str, Any], papers: list[Paper]) -> TargetEvidence:
    weights = corpus()["weights"]
    mine = [paper for paper in papers if paper.target == target]
    return TargetEvidence(
        target=target,
        what=known["what"],
        inside=known["inside"],
        score=sum(weights[paper.evidence] * (1 if paper.supports else -1) for paper in mine),
        supporting=[paper.id for paper in mine if paper.supports],
        contradicting=[paper.id for paper in mine if not paper.supports],
    )


SMALL, BIOLOGICS = "small-molecules.csv", "biologics.csv"
MOST_CHOSEN = 10
KCAL_PER_DECADE = 1.37  # of affinity, at 25 °C
MASSES = {
    "H": 1.008, "C": 12.011, "N": 14.007, "O": 15.999, "F": 18.998, "P": 30.974, "S": 32.06, "Cl": 35.45, "Br": 79.904,
}  # fmt: skip

SMALL_RULES = [
    "At most one of Lipinski's limits is passed: weight 500 g/mol, logP 5, five hydrogen bond donors, ten acceptors.",
    "At most ten rotatable bonds, and a polar surface of at most 140 Å² (Veber).",
    "A ligand efficiency of at least 0.30 kcal/mol for each atom that is not hydrogen.",
    f"Of those, the {MOST_CHOSEN} with the highest affinity (pKd) for the target.",
]
BIOLOGIC_RULES = [
    "Binds the target with at most 10 nM.",
    "A tendency to aggregate of at most 0.30.",
    "An isoelectric point from 6.0 to 9.5.",
    f"Of those, the {MOST_CHOSEN} that bind at the lowest concentration.",
]


def atoms(formula: str) -> dict[str, int]:
    """How many atoms of each element a formula such as C21H23N5O2 has. Raises ValueError if it is invalid."""
    pieces = re.findall(r"([A-Z][a-z]?)(\d*)", formula)
    if "".join(f"{element}{count}" for element, count in pieces) != formula or not pieces:
        raise ValueError(f"{formula!r} is no formula.")
    found: dict[str, int] = {}
    for element, count in pieces:
        if element not in MASSES:
            raise ValueError(f"{element!r} in {formula!r} is no element that is known here.")
        found[element] = found.get(element, 0) + int(count or 1)
    return found


def small_molecule(row: dict[str, str], target: str) -> Molecule:
    """A molecule with values from its formula: weight (g/mol), acceptors (N and O, as Lipinski counts), efficiency."""
    made_of = atoms(row["formula"])
    affinity = float(row[f"affinity_{target}"])
    heavy = sum(count for element, count in made_of.items() if element != "H")
    figures = {
        "weight": round(sum(MASSES[element] * count for element, count in made_of.items()), 2),
        "logp": float(row["logp"]),
        "donors": float(row["donors"]),
        "acceptors": float(made_of.get("N", 0) + made_of.get("O", 0)),
        "rotatable_bonds": float(row["rotatable_bonds"]),
        "polar_surface": float(row["polar_surface"]),
        "affinity": affinity,
        "efficiency": round(KCAL_PER_DECADE * affinity / heavy, 3),
    }
    return Molecule(id=row["id"], figures=figures, rank_by=affinity)


def passed_limits(molecule: Molecule) -> list[str]:
    """The limits of Lipinski that the molecule exceeds."""
    limits = {"weight": 500.0, "logp": 5.0, "donors": 5.0, "acceptors": 10.0}
    return [f"{name} {molecule.figures[name]:g}" for name, limit in limits.items() if molecule.figures[name] > limit]


def small_molecule_objection(molecule: Molecule) -> str:
    """Why a small molecule is rejected; "" if it is not."""
    figures = molecule.figures
    if len(beyond := passed_limits(molecule)) > 1:
        return f"It is beyond {len(beyond)} of Lipinski's limits: {', '.join(beyond)}."
    if figures["rotatable_bonds"] > 10 or figures["polar_surface"] > 140:
        return f"Veber: {figures['rotatable_bonds']:g} rotatable bonds, polar surface {figures['polar_surface']:g} Å²."
    if figures["efficiency"] < 0.30:
        return f"Its ligand efficiency is {figures['efficiency']:.2f}."
    return ""


def biologic(row: dict[str, str]) -> Molecule:
    names = ("affinity_nm", "aggregation", "isoelectric_point")
    return Molecule(
        id=row["id"], figures={name: float(row[name]) for name in names}, rank_by=-float(row["affinity_nm"])
    )


def biologic_objection(molecule: Molecule) -> str:
    figures = molecule.figures
    if figures["affinity_nm"] > 10:
        return f"It binds at {figures['affinity_nm']:g} nM only."
    if figures["aggregation"] > 0.3:
        return f"It aggregates: {figures['aggregation']:.2f}."
    if not 6 <= figures["isoelectric_point"] <= 9.5:
        return f"Its isoelectric point is {figures['isoelectric_point']:g}."
    return ""


def select_molecules(target: str, modality: Modality) -> Selection:
    """The molecules to test, best first, and why others are rejected. Raises AgentFailure for an unknown target."""
    is_small = modality == "small molecules"
    name, rules = (SMALL, SMALL_RULES) if is_small else (BIOLOGICS, BIOLOGIC_RULES)
    rows = read_rows(name)
    if is_small:
        if f"affinity_{target}" not in rows[0]:
            raise _lacking(target, [one[9:] for one in rows[0] if one.startswith("affinity_")])
        molecules = [(one, small_molecule_objection(one)) for one in (small_molecule(row, target) for row in rows)]
    else:
        mine = [row for row in rows if row["target"] == target]
        if not mine:
            raise _lacking(target, sorted({row["target"] for row in rows}))
        molecules = [(one, biologic_objection(one)) for one in map(biologic, mine)]
    ranked = sorted((one for one, problem in molecules if not problem), key=lambda one: (-one.rank_by, one.id))
    refused = [SetAside(name=one.id, why=problem) for one, problem in molecules if problem]
    refused += [SetAside(name=one.id, why="Others bind better.") for one in ranked[MOST_CHOSEN:]]
    return Selection(
        target=target,
        modality=modality,
        rules=rules,
        chosen=ranked[:MOST_CHOSEN],
        refused=refused,
        library=file_source(name, len(rows)),
    )


def _lacking(target: str, there: list[str]) -> AgentFailure:
    known = f"it has molecules for {', '.join(there)}."
    return AgentFailure(
        f"The library has nothing for {target}: {known} Choose a hypothesis on one of those.", "not_in_library"
    )
