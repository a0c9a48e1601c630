"""The three analyses of uploaded tables: a screening, gene expression under compounds, and dose-response validation."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from examples.research.results import (
    Curve,
    ExpressionAnalysis,
    GeneChange,
    ScreeningAnalysis,
    ScreeningGroup,
    Signature,
    ValidationAnalysis,
)
from examples.research.statistics import Fit, NoSpread, false_discovery_rates, fit_curve, hedges, welch, z_prime
from examples.research.tables import NAME, Unusable, Upload
from examples.texts import cut, figure

SCREENING_COLUMNS = ("compound", "role", "dose_um", "replicate", "response")
ROLES = ("sample", "negative", "positive")
LEAST_INHIBITION = 50.0  # percent of the distance from the negative control to the positive one
LEAST_Q = 0.05
MOST_GROUPS, MOST_CONTROLS = 2_000, 1_000
SCREENING_RULES = [
    "Effect size: Hedges' g against the negative control, with its 95 % interval.",
    "p by Welch's test, two-sided; q by Benjamini and Hochberg over all groups.",
    f"A hit has q below {LEAST_Q:g} and an inhibition of at least {LEAST_INHIBITION:g} %, where 0 % is the negative "
    "control and 100 % the positive one.",
    "Hits are only called where Z′ is above 0, that is where the controls do not overlap.",
]

Wells = dict[tuple[str, float], list[float]]


def analyse_screening(upload: Upload) -> ScreeningAnalysis:
    """Raises Unusable if the table has no controls, too few replicates, or groups without any variation."""
    controls, samples = _wells(upload)
    negative, positive = controls["negative"], controls["positive"]
    try:
        quality = z_prime(positive, negative)
        groups = _groups(samples, negative, fmean(positive), is_usable=quality > 0)
    except NoSpread:
        raise Unusable(
            "The controls have the same mean, or nothing varies: check which wells are which, and send the file again."
        ) from None
    hits = sorted({one.compound for one in groups if one.hit}, key=[one.compound for one in groups].index)
    notes = [] if quality >= 0.5 else [_quality_note(quality)]
    return ScreeningAnalysis(
        source=upload.source,
        z_prime=quality,
        usable=quality > 0,
        rules=SCREENING_RULES,
        groups=groups,
        hits=hits,
        notes=notes + upload.notes,
    )


def _wells(upload: Upload) -> tuple[dict[str, list[float]], Wells]:
    compounds, doses, responses = upload.texts("compound"), upload.numbers("dose_um"), upload.numbers("response")
    roles = [role.casefold() for role in upload.texts("role")]
    controls: dict[str, list[float]] = {"negative": [], "positive": []}
    samples: Wells = defaultdict(list)
    for at, (compound, role, dose, response) in enumerate(zip(compounds, roles, doses, responses, strict=True), 2):
        if role not in ROLES:
            raise Unusable(f"Row {at} has the role “{role}”: write sample, negative or positive there.")
        if role == "sample":
            samples[compound, dose].append(response)
        else:
            controls[role].append(response)
    _check_wells(controls, samples)
    return controls, samples


def _check_wells(controls: dict[str, list[float]], samples: Wells) -> None:
    for role, values in controls.items():
        if len(values) < 2:
            raise Unusable(
                f"There {'is one well' if values else 'are no wells'} of the {role} control: at least two rows need "
                f"the role “{role}”."
            )
        if len(values) > MOST_CONTROLS:
            raise Unusable(f"The {role} control has {len(values):,} wells. Send at most {MOST_CONTROLS:,}.")
        if not stdev(values):
            raise Unusable(f"All wells of the {role} control have the same value: send the wells, not their mean.")
    if not samples:
        raise Unusable("There is nothing but controls: the rows of the compounds need the role “sample”.")
    if len(samples) > MOST_GROUPS:
        raise Unusable(f"There are {len(samples):,} compounds and doses. Send at most {MOST_GROUPS:,}.")
    alone = [f"{compound} at {figure(dose)} µM" for (compound, dose), values in samples.items() if len(values) < 2]
    if alone:
        raise Unusable(f"{alone[0]} has one replicate: send at least two of each compound and dose.")


def _groups(samples: Wells, negative: list[float], full: float, *, is_usable: bool) -> list[ScreeningGroup]:
    nought = fmean(negative)
    towards = 1 if full > nought else -1
    tests = {key: welch(values, negative).p for key, values in samples.items()}
    discoveries = dict(zip(tests, false_discovery_rates(list(tests.values())), strict=True))
    found = []
    for (compound, dose), values in samples.items():
        effect = hedges([towards * value for value in values], [towards * value for value in negative])
        inhibition = 100 * (fmean(values) - nought) / (full - nought)
        q = discoveries[compound, dose]
        group = ScreeningGroup(
            compound=compound, dose_um=dose, replicates=len(values), mean=fmean(values), inhibition=inhibition,
            g=effect.g, low=effect.low, high=effect.high, p=tests[compound, dose], q=q,
            hit=is_usable and q < LEAST_Q and inhibition >= LEAST_INHIBITION,
        )  # fmt: skip
        found.append(group)
    return sorted(found, key=lambda one: (not one.hit, -one.inhibition, one.compound, one.dose_um))


def _quality_note(quality: float) -> str:
    if quality > 0:
        return f"Z′ is {quality:.2f}: the controls are told apart, but not well (0.5 and more is excellent)."
    return f"Z′ is {quality:.2f}: the controls overlap, so nothing is called a hit. Repeat the screening."


EXPRESSION_COLUMNS = ("gene",)
CONTROL = "control"
LEAST_FOLD = 1.0  # log2: twice, or half


MOST_TESTS, MOST_EXPRESSION_COMPOUNDS = 60_000, 12
MOST_KEPT = 2_000
EXPRESSION_RULES = [
    "Log2 fold change: the mean of log2(value + 1) under the compound, less that under the control.",
    "p by Welch's test on these logarithms, two-sided; q by Benjamini and Hochberg over the genes of a compound.",
    f"A gene has changed where q is below {LEAST_Q:g} and it at least doubled or halved.",
]

Values = dict[str, list[list[float]]]
"""For each condition a list of its values, gene by gene, as logarithms."""


def analyse_expression(
    upload: Upload, pathway: Sequence[str], stress: Sequence[str]
) -> tuple[ExpressionAnalysis, list[GeneChange]]:
    """The analysis with the changed genes, and all tested genes.

    Args:
        pathway: the genes that drive the disease: they should fall.
        stress: the genes of stressed cells: they should not rise.

    Raises:
        Unusable: no control, a condition with one replicate, a gene twice, or negative values.
    """
    genes, values = _values(upload)
    compounds = [name for name in values if name != CONTROL]
    untested: set[str] = set()
    changes = {name: _changes(name, genes, values[name], values[CONTROL], untested) for name in compounds}
    notes = [f"{len(untested)} genes have no spread at all and were not tested."] if untested else []
    if not set(pathway) & set(genes):
        notes.append("None of the genes that drive the disease is in the file, or no follow-up design came with it.")
    every = [change for name in compounds for change in changes[name]]
    analysis = ExpressionAnalysis(
        source=upload.source,
        rules=EXPRESSION_RULES,
        signatures=[_signature(name, changes[name], pathway, stress) for name in compounds],
        changes=[one for one in every if has_changed(one)][:MOST_KEPT],
        notes=notes + upload.notes,
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
                f"The column “{cut(column, 40)}” is none that I know: name the columns by condition and replicate, "
                "such as control_1, control_2, PX-07_1, PX-07_2."
            )
        columns[CONTROL if parts[1].casefold() == CONTROL else parts[1]].append(column)
    _check_conditions(columns, len(genes))
    return genes, {name: _logarithms(upload, mine) for name, mine in columns.items()}


def _check_conditions(columns: dict[str, list[str]], genes: int) -> None:
    if CONTROL not in columns:
        raise Unusable("There is no control: name its columns control_1, control_2 and so on.")
    if len(columns) < 2:
        raise Unusable("There is nothing but the control: add columns for each compound, such as PX-07_1, PX-07_2.")
    if alone := next((name for name, mine in columns.items() if len(mine) < 2), None):
        raise Unusable(f"{alone} has one replicate: send at least two columns for each condition.")
    if len(columns) - 1 > MOST_EXPRESSION_COMPOUNDS or genes * (len(columns) - 1) > MOST_TESTS:
        raise Unusable(f"Send at most {MOST_EXPRESSION_COMPOUNDS} compounds, and {MOST_TESTS:,} genes times compounds.")


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
    discoveries = false_discovery_rates([p for _, _, p in tested])
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


VALIDATION_COLUMNS = ("compound", "dose_um", "replicate", "response")
MOST_IC50 = 1.0  # µM
LEAST_R_SQUARED = 0.8
LEAST_EFFECT = 50.0  # percent below the vehicle
FEWEST_DOSES = 4
MOST_VALIDATION_COMPOUNDS, MOST_ROWS = 24, 5_000
LEAST_DOSE, MOST_DOSE = 1e-9, 1e9  # µM
VALIDATION_RULES = [
    "Responses are percent of the mean of the vehicle, the rows of dose 0.",
    "A curve of four parameters by least squares; the interval of the IC50 from the profile of the likelihood.",
    f"Confirmed: the IC50 lies within the tested doses and is at most {MOST_IC50:g} µM, the curve explains at least "
    f"{100 * LEAST_R_SQUARED:.0f} % of the variance, and the highest effect is at least {LEAST_EFFECT:g} %.",
]

Points = list[tuple[float, float]]


def analyse_validation(upload: Upload) -> tuple[ValidationAnalysis, dict[str, tuple[Points, Fit | None]]]:
    """The analysis, and for each compound its points (percent of the vehicle) and its curve.

    Raises:
        Unusable: no vehicle, negative doses, or too few doses or replicates of a compound.
    """
    series = _series(upload)
    drawn = {compound: (points, fit_curve(points)) for compound, points in series.items()}
    curves = [_curve(compound, points, fit) for compound, (points, fit) in drawn.items()]
    curves.sort(key=lambda one: (not one.confirmed, one.ic50_um if one.ic50_um is not None else 1e9, one.compound))
    confirmed = [one.compound for one in curves if one.confirmed]
    analysis = ValidationAnalysis(
        source=upload.source, rules=VALIDATION_RULES, curves=curves, confirmed=confirmed, notes=upload.notes
    )
    return analysis, drawn


def _series(upload: Upload) -> dict[str, Points]:
    compounds, doses, responses = upload.texts("compound"), upload.numbers("dose_um"), upload.numbers("response")
    rows = list(zip(compounds, doses, responses, strict=True))
    if len(rows) > MOST_ROWS:
        raise Unusable(f"There are {len(rows):,} rows. Send at most {MOST_ROWS:,}.")
    if any(dose and not LEAST_DOSE <= abs(dose) <= MOST_DOSE for dose in doses):
        raise Unusable(f"There are doses outside {LEAST_DOSE:g} to {MOST_DOSE:g} µM: write them in µM.")
    if any(dose < 0 for dose in doses):
        raise Unusable("There are doses below nought: write them in µM, and 0 for the vehicle.")
    vehicle = [response for _, dose, response in rows if not dose]
    if len(vehicle) < 2:
        raise Unusable("There is no control: at least two rows need the dose 0, for the vehicle alone.")
    if (full := fmean(vehicle)) <= 0:
        raise Unusable("The mean of the vehicle is not above nought, so nothing can be a percentage of it: check it.")
    series: dict[str, Points] = defaultdict(list)
    for compound, dose, response in rows:
        if dose:
            series[compound].append((dose, 100 * response / full))
    if not series:
        raise Unusable("There is nothing but the vehicle: add rows with the doses of each compound.")
    if len(series) > MOST_VALIDATION_COMPOUNDS:
        raise Unusable(f"There are {len(series)} compounds. Send at most {MOST_VALIDATION_COMPOUNDS}.")
    for compound, points in series.items():
        _check_doses(compound, [dose for dose, _ in points])
    return series


def _check_doses(compound: str, doses: list[float]) -> None:
    if len(set(doses)) < FEWEST_DOSES:
        raise Unusable(f"{compound} has {len(set(doses))} doses: a curve needs at least {FEWEST_DOSES}.")
    if alone := next((dose for dose in sorted(set(doses)) if doses.count(dose) < 2), None):
        raise Unusable(f"{compound} at {figure(alone)} µM has one replicate: send at least two of each dose.")


def _curve(compound: str, points: Points, fit: Fit | None) -> Curve:
    doses = sorted({dose for dose, _ in points})
    most = 100 - min(fmean(response for at, response in points if at == dose) for dose in doses)
    if fit is None:
        return Curve(
            compound=compound, ic50_um=None, low=None, high=None, hill=None, r_squared=None, most=most,
            confirmed=False, why="Its responses do not differ from dose to dose.",
        )  # fmt: skip
    why = _curve_objection(fit, doses, most)
    return Curve(
        compound=compound, ic50_um=fit.ic50, low=fit.low, high=fit.high, hill=fit.hill, r_squared=fit.r_squared,
        most=most, confirmed=not why, why=why or f"IC50 {figure(fit.ic50)} µM, highest effect {most:.0f} %.",
    )  # fmt: skip


def _curve_objection(fit: Fit, doses: list[float], most: float) -> str:
    if fit.bottom >= fit.top or most < LEAST_EFFECT:
        return f"Its highest effect is {most:.0f} %, less than {LEAST_EFFECT:g} %."
    if fit.r_squared < LEAST_R_SQUARED:
        return f"The curve explains {100 * fit.r_squared:.0f} % of the variance only."
    if not doses[0] <= fit.ic50 <= doses[-1]:
        return f"Half of its effect lies outside the tested doses, {figure(doses[0])} to {figure(doses[-1])} µM."
    if fit.ic50 > MOST_IC50:
        return f"Its IC50 is {figure(fit.ic50)} µM, more than {MOST_IC50:g} µM."
    return ""
