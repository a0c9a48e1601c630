"""The made-up library of molecules: properties computed from formulas, and the rules by which some are chosen.

Small molecules by Lipinski (1997) and Veber (2002), and a least ligand efficiency (Hopkins, 2004).
"""

from __future__ import annotations

import re

from examples.research.corpus import rows_of, source_of
from examples.research.results import Molecule, Selection, SetAside

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


class NotInLibrary(Exception):
    """The library has nothing for that target; the text says what it has."""


def atoms(formula: str) -> dict[str, int]:
    """How many atoms of each element a formula such as C21H23N5O2 has. Raises ValueError for what is none."""
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
    """A molecule with what its formula tells: weight (g/mol), acceptors (N and O, as Lipinski counts), efficiency."""
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
    """Which of Lipinski's limits it is beyond."""
    limits = {"weight": 500.0, "logp": 5.0, "donors": 5.0, "acceptors": 10.0}
    return [f"{name} {molecule.figures[name]:g}" for name, limit in limits.items() if molecule.figures[name] > limit]


def objection(molecule: Molecule) -> str:
    """Why a small molecule is not taken; "" where it may be."""
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


def select(target: str, modality: str) -> Selection:
    """The molecules to test, the best first, and why each of the others is left. Raises NotInLibrary."""
    is_small = modality == "small molecules"
    name, rules = (SMALL, SMALL_RULES) if is_small else (BIOLOGICS, BIOLOGIC_RULES)
    rows = rows_of(name)
    if is_small:
        if f"affinity_{target}" not in rows[0]:
            raise NotInLibrary(_lacking(target, [one[9:] for one in rows[0] if one.startswith("affinity_")]))
        molecules = [(one, objection(one)) for one in (small_molecule(row, target) for row in rows)]
    else:
        mine = [row for row in rows if row["target"] == target]
        if not mine:
            raise NotInLibrary(_lacking(target, sorted({row["target"] for row in rows})))
        molecules = [(one, biologic_objection(one)) for one in map(biologic, mine)]
    ranked = sorted((one for one, problem in molecules if not problem), key=lambda one: (-one.rank_by, one.id))
    refused = [SetAside(name=one.id, why=problem) for one, problem in molecules if problem]
    refused += [SetAside(name=one.id, why="Others bind better.") for one in ranked[MOST_CHOSEN:]]
    return Selection(
        target=target,
        modality="small molecules" if is_small else "biologics",
        rules=rules,
        chosen=ranked[:MOST_CHOSEN],
        refused=refused,
        library=source_of(name, len(rows)),
    )


def _lacking(target: str, there: list[str]) -> str:
    return f"The library has nothing for {target}: it has molecules for {', '.join(there)}."
