"""The next step, by stated rules: hypotheses, experiments and candidates."""

from __future__ import annotations

from agentkit import AgentFailure
from examples.research import analyses, library
from examples.research.library import corpus, read_rows
from examples.research.results import (
    Candidate,
    Candidates,
    Condition,
    ExpressionAnalysis,
    FollowUpDesign,
    Hypotheses,
    Hypothesis,
    LiteratureReview,
    Modality,
    ScreeningAnalysis,
    ScreeningAssay,
    ScreeningGroup,
    SetAside,
    Signature,
    ValidationAssay,
)
from examples.research.statistics import replicates_for

LEAST_SHARE = 0.5
MOST_ELSEWHERE = 3
MOST_CANDIDATES = 3
CANDIDATE_RULES = [
    "It is a hit of the screening.",
    f"At least {100 * LEAST_SHARE:.0f} % of the measured genes that drive the disease fall.",
    "No gene of stressed cells rises.",
    f"At most {MOST_ELSEWHERE} other genes change.",
    "Score: half of it the inhibition, half the share of the genes that fall, each from 0 to 1.",
]


def make_hypotheses(review: LiteratureReview, modality: Modality) -> Hypotheses:
    """What to try, the best supported first. Raises AgentFailure if no target is left."""
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
        raise AgentFailure(
            f"No target is left for {modality}: {_reasons(aside)} Choose the other modality, or another subject.",
            "no_hypothesis",
        )
    return Hypotheses(
        subject=review.subject,
        marker=review.marker,
        modality=modality,
        hypotheses=found,
        set_aside=aside,
    )


def choose_candidates(screened: ScreeningAnalysis, expressed: ExpressionAnalysis) -> Candidates:
    """The compounds that both experiments support, best first. Raises AgentFailure if none meets the rules."""
    best = {group.compound: group for group in reversed(screened.groups) if group.hit}  # its highest inhibition
    found: list[Candidate] = []
    aside: list[SetAside] = []
    for signature in expressed.signatures:
        group = best.get(signature.compound)
        if problem := _candidate_objection(group, signature):
            aside.append(SetAside(name=signature.compound, why=problem))
        elif group:
            found.append(_candidate(group, signature))
    measured = {one.compound for one in expressed.signatures}
    aside += [SetAside(name=one, why="Its expression was not measured.") for one in best if one not in measured]
    if not found:
        raise AgentFailure(
            f"No compound meets the rules, so there is nothing to validate. {_reasons(aside)} Follow up other hits, or "
            "screen other molecules.",
            "no_candidates",
        )
    found.sort(key=lambda one: (-one.score, one.compound))
    aside += [SetAside(name=one.compound, why="Others score higher.") for one in found[MOST_CANDIDATES:]]
    return Candidates(rules=CANDIDATE_RULES, candidates=found[:MOST_CANDIDATES], set_aside=aside)


def _reasons(aside: list[SetAside]) -> str:
    return " ".join(f"{one.name}: {one.why}" for one in aside)


def _candidate_objection(group: ScreeningGroup | None, signature: Signature) -> str:
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


CELL_LINES = "cell-lines.csv"
SCREENING_HOURS, FOLLOW_UP_HOURS = 72, 24
SCREENING_DOSES = [1.0, 10.0]
SHOWN_EFFECT = 2.0  # standard deviations that a screening should be able to detect
EXPRESSION_EFFECT = 3.0
FOLLOWED = 3  # hits whose expression is measured
HALF_LOGS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # µM


def cell_lines() -> list[str]:
    return [row["name"] for row in read_rows(CELL_LINES)]


def suggested_cell_line(subject: str) -> str:
    for row in read_rows(CELL_LINES):
        if row["subject"] == subject:
            return f"For {subject} I would take {row['name']}: {row['cells']}."
    return ""


def design_screening(hypotheses: Hypotheses, cell_line: str) -> ScreeningAssay:
    """The screening of the first hypothesis. Cells are counted so that they fill a well at the end."""
    (line,) = [row for row in read_rows(CELL_LINES) if row["name"] == cell_line]
    doublings = SCREENING_HOURS / float(line["doubling_hours"])
    return ScreeningAssay(
        target=hypotheses.hypotheses[0].target,
        marker=hypotheses.marker,
        cell_line=cell_line,
        cells=line["cells"],
        hours=SCREENING_HOURS,
        seeded_per_well=round(int(line["confluent_per_well"]) / 2**doublings / 100) * 100,
        replicates=replicates_for(SHOWN_EFFECT),
        doses_um=SCREENING_DOSES,
        columns=list(analyses.SCREENING_COLUMNS),
    )


def design_follow_up(screened: ScreeningAnalysis, subject: str) -> FollowUpDesign:
    """Expression with the best hits, each at its lowest dose. Raises AgentFailure without hits or known genes."""
    if not screened.hits:
        raise AgentFailure(
            f"The screening has no hit to follow up (Z′ {screened.z_prime:.2f}). Repeat it, with more compounds or "
            "higher doses, and analyse the new data.",
            "no_hits",
        )
    if subject not in library.subjects():
        raise AgentFailure(f"I know no genes of {subject[:60]}.", "unknown_subject")
    lowest: dict[str, float] = {}
    for group in screened.groups:
        if group.hit:
            lowest[group.compound] = min(group.dose_um, lowest.get(group.compound, group.dose_um))
    conditions = [Condition(compound=one, dose_um=lowest[one]) for one in screened.hits[:FOLLOWED]]
    replicates = replicates_for(EXPRESSION_EFFECT)
    names = [analyses.CONTROL, *(one.compound for one in conditions)]
    return FollowUpDesign(
        subject=subject,
        conditions=conditions,
        replicates=replicates,
        hours=FOLLOW_UP_HOURS,
        pathway_genes=corpus()["subjects"][subject]["pathway_genes"],
        stress_genes=corpus()["stress_genes"],
        columns=["gene", *(f"{name}_{number}" for name in names for number in range(1, replicates + 1))],
    )


def design_validation(candidates: Candidates) -> ValidationAssay:
    """Eight doses, half a decade apart, of each candidate."""
    return ValidationAssay(
        compounds=[one.compound for one in candidates.candidates],
        doses_um=list(HALF_LOGS),
        replicates=replicates_for(EXPRESSION_EFFECT),
        columns=list(analyses.VALIDATION_COLUMNS),
    )
