"""Hypotheses from evidence, and candidates from measurements: by rules that are stated with what they gave."""

from __future__ import annotations

from examples.research.results import (
    Candidate,
    Candidates,
    ExpressionAnalysis,
    Hypotheses,
    Hypothesis,
    LiteratureReview,
    ScreeningAnalysis,
    ScreeningGroup,
    SetAside,
    Signature,
)

LEAST_SHARE = 0.5
MOST_ELSEWHERE = 3
MOST_CANDIDATES = 3
RULES = [
    "It is a hit of the screening.",
    f"At least {100 * LEAST_SHARE:.0f} % of the measured genes that drive the disease fall.",
    "No gene of stressed cells rises.",
    f"At most {MOST_ELSEWHERE} other genes change.",
    "Score: half of it the inhibition, half the share of the genes that fall, each from 0 to 1.",
]


class NothingLeft(Exception):
    """The rules leave nothing; the text says why, and what to do."""


def hypotheses(review: LiteratureReview, modality: str) -> Hypotheses:
    """What to try, the best supported first. Biologics only reach what is not inside the cell. Raises NothingLeft."""
    found: list[Hypothesis] = []
    aside: list[SetAside] = []
    for target in sorted(review.targets, key=lambda one: (-one.score, one.target)):
        if target.score <= 0:
            why = f"The papers say no more for it than against it (score {target.score})."
        elif modality == "biologics" and target.inside:
            why = "It is inside the cell, where biologics do not go."
        else:
            statement = f"Blocking {target.target}, {target.what}, with {modality} lessens {review.marker}."
            found.append(
                Hypothesis(
                    id=f"H{len(found) + 1}",
                    target=target.target,
                    statement=statement,
                    score=target.score,
                    papers=target.supporting,
                )
            )
            continue
        aside.append(SetAside(name=target.target, why=why))
    if not found:
        raise NothingLeft(f"No target is left for {modality}: {' '.join(f'{one.name}: {one.why}' for one in aside)}")
    return Hypotheses(
        subject=review.subject,
        marker=review.marker,
        modality="biologics" if modality == "biologics" else "small molecules",
        hypotheses=found,
        set_aside=aside,
    )


def candidates(screened: ScreeningAnalysis, expressed: ExpressionAnalysis) -> Candidates:
    """The compounds that both experiments speak for, the best first. Raises NothingLeft."""
    best = {group.compound: group for group in reversed(screened.groups) if group.hit}  # its highest inhibition
    found: list[Candidate] = []
    aside: list[SetAside] = []
    for signature in expressed.signatures:
        group = best.get(signature.compound)
        if problem := _objection(group, signature):
            aside.append(SetAside(name=signature.compound, why=problem))
        elif group:
            found.append(_candidate(group, signature))
    measured = {one.compound for one in expressed.signatures}
    aside += [SetAside(name=one, why="Its expression was not measured.") for one in best if one not in measured]
    if not found:
        reasons = " ".join(f"{one.name}: {one.why}" for one in aside)
        raise NothingLeft(f"No compound meets the rules, so there is nothing to validate. {reasons}".strip())
    found.sort(key=lambda one: (-one.score, one.compound))
    aside += [SetAside(name=one.compound, why="Others score higher.") for one in found[MOST_CANDIDATES:]]
    return Candidates(rules=RULES, candidates=found[:MOST_CANDIDATES], set_aside=aside)


def _objection(group: ScreeningGroup | None, signature: Signature) -> str:
    if group is None:
        return "It is no hit of the screening."
    if not signature.pathway_measured:
        return "None of the genes that drive the disease was measured."
    if _share(signature) < LEAST_SHARE:
        return f"Only {signature.pathway_down} of {signature.pathway_measured} genes that drive the disease fall."
    if signature.stress_up:
        return f"Genes of stressed cells rise: {', '.join(signature.stress_up)}."
    if signature.elsewhere > MOST_ELSEWHERE:
        return f"{signature.elsewhere} other genes change."
    return ""


def _candidate(group: ScreeningGroup, signature: Signature) -> Candidate:
    share = _share(signature)
    return Candidate(
        compound=group.compound,
        score=round((min(max(group.inhibition / 100, 0), 1) + share) / 2, 3),
        inhibition=group.inhibition,
        dose_um=group.dose_um,
        pathway_share=share,
        elsewhere=signature.elsewhere,
    )


def _share(signature: Signature) -> float:
    return signature.pathway_down / signature.pathway_measured
