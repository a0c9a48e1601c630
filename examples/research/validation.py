"""Validation: for each candidate a dose-response curve against the vehicle, and whether it confirms the candidate."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from examples.report.figures import figure
from examples.research.curves import Fit, fitted
from examples.research.results import Curve, ValidationAnalysis
from examples.research.tables import Unusable, Upload

COLUMNS = ("compound", "dose_um", "replicate", "response")
MOST_IC50 = 1.0  # µM
LEAST_R_SQUARED = 0.8
LEAST_EFFECT = 50.0  # percent below the vehicle
FEWEST_DOSES = 4
MOST_COMPOUNDS, MOST_ROWS = 24, 5_000
LEAST_DOSE, MOST_DOSE = 1e-9, 1e9  # µM
RULES = [
    "Responses are percent of the mean of the vehicle, the rows of dose 0.",
    "A curve of four parameters by least squares; the interval of the IC50 from the profile of the likelihood.",
    f"Confirmed: the IC50 lies within the tested doses and is at most {MOST_IC50:g} µM, the curve explains at least "
    f"{100 * LEAST_R_SQUARED:.0f} % of the variance, and the highest effect is at least {LEAST_EFFECT:g} %.",
]

Points = list[tuple[float, float]]


def analysed(upload: Upload) -> tuple[ValidationAnalysis, dict[str, tuple[Points, Fit | None]]]:
    """The analysis, and for each compound its points (percent of the vehicle) and its curve, to draw.

    Raises:
        Unusable: no vehicle, doses below nought, or too few doses or replicates of a compound.
    """
    series = _series(upload)
    drawn = {compound: (points, fitted(points)) for compound, points in series.items()}
    curves = [_curve(compound, points, fit) for compound, (points, fit) in drawn.items()]
    curves.sort(key=lambda one: (not one.confirmed, one.ic50_um if one.ic50_um is not None else 1e9, one.compound))
    notes = [f"{upload.left_out} rows had too many or too few values and were left out."] if upload.left_out else []
    confirmed = [one.compound for one in curves if one.confirmed]
    analysis = ValidationAnalysis(source=upload.source, rules=RULES, curves=curves, confirmed=confirmed, notes=notes)
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
    if len(series) > MOST_COMPOUNDS:
        raise Unusable(f"There are {len(series)} compounds. Send at most {MOST_COMPOUNDS}.")
    for compound, points in series.items():
        _check(compound, [dose for dose, _ in points])
    return series


def _check(compound: str, doses: list[float]) -> None:
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
    why = _objection(fit, doses, most)
    return Curve(
        compound=compound, ic50_um=fit.ic50, low=fit.low, high=fit.high, hill=fit.hill, r_squared=fit.r_squared,
        most=most, confirmed=not why, why=why or f"IC50 {figure(fit.ic50)} µM, highest effect {most:.0f} %.",
    )  # fmt: skip


def _objection(fit: Fit, doses: list[float], most: float) -> str:
    if fit.bottom >= fit.top or most < LEAST_EFFECT:
        return f"Its highest effect is {most:.0f} %, less than {LEAST_EFFECT:g} %."
    if fit.r_squared < LEAST_R_SQUARED:
        return f"The curve explains {100 * fit.r_squared:.0f} % of the variance only."
    if not doses[0] <= fit.ic50 <= doses[-1]:
        return f"Half of its effect lies outside the tested doses, {figure(doses[0])} to {figure(doses[-1])} µM."
    if fit.ic50 > MOST_IC50:
        return f"Its IC50 is {figure(fit.ic50)} µM, more than {MOST_IC50:g} µM."
    return ""
