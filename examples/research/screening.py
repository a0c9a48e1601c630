"""A screening: every compound at every dose against the negative control, with the positive one as the measure."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, stdev

from examples.report.figures import figure
from examples.research.inference import NoSpread, adjusted, hedges, welch, z_prime
from examples.research.results import ScreeningAnalysis, ScreeningGroup
from examples.research.tables import Unusable, Upload

COLUMNS = ("compound", "role", "dose_um", "replicate", "response")
ROLES = ("sample", "negative", "positive")
LEAST_INHIBITION = 50.0  # percent of the way from the negative control to the positive one
LEAST_Q = 0.05
MOST_GROUPS, MOST_CONTROLS = 2_000, 1_000
RULES = [
    "Effect size: Hedges' g against the negative control, with its 95 % interval.",
    "p by Welch's test, two-sided; q by Benjamini and Hochberg over all groups.",
    f"A hit has q below {LEAST_Q:g} and an inhibition of at least {LEAST_INHIBITION:g} %, where 0 % is the negative "
    "control and 100 % the positive one.",
    "Hits are only called where Z′ is above 0, that is where the controls do not overlap.",
]

Wells = dict[tuple[str, float], list[float]]


def analysed(upload: Upload) -> ScreeningAnalysis:
    """Raises Unusable where the table has no controls, too few replicates, or values without any spread."""
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
    notes = [] if quality >= 0.5 else [_doubt(quality)]
    if upload.left_out:
        notes.append(f"{upload.left_out} rows had too many or too few values and were left out.")
    return ScreeningAnalysis(
        source=upload.source, z_prime=quality, usable=quality > 0, rules=RULES, groups=groups, hits=hits, notes=notes
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
    _check(controls, samples)
    return controls, samples


def _check(controls: dict[str, list[float]], samples: Wells) -> None:
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
    discoveries = dict(zip(tests, adjusted(list(tests.values())), strict=True))
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


def _doubt(quality: float) -> str:
    if quality > 0:
        return f"Z′ is {quality:.2f}: the controls are told apart, but not well (0.5 and more is excellent)."
    return f"Z′ is {quality:.2f}: the controls overlap, so nothing is called a hit. Repeat the screening."
