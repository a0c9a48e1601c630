"""The made-up papers that come with the pipeline, and what they say together."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from examples.research.results import LiteratureReview, Paper, Source, TargetEvidence

DATA = Path(__file__).parent / "data"
CORPUS = "corpus.json"


@cache
def corpus() -> dict[str, Any]:
    """`weights`, `subjects`, `stress_genes` and `papers`."""
    known: dict[str, Any] = json.loads((DATA / CORPUS).read_text(encoding="utf-8"))
    return known


@cache
def rows_of(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a CSV file that comes with the pipeline."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def source_of(name: str, rows: int) -> Source:
    """Where figures came from that were taken from a file of the pipeline's own."""
    return Source(file=name, sha256=hashlib.sha256((DATA / name).read_bytes()).hexdigest(), rows=rows)


def subjects() -> list[str]:
    return list(corpus()["subjects"])


def subject_in(text: str) -> str | None:
    """The subject that a text speaks of most; None where it speaks of none, or of several alike."""
    said = set(re.findall(r"\w+", text.casefold()))
    hits = {name: len(said & set(about["words"])) for name, about in corpus()["subjects"].items()}
    best = max(hits.values())
    named = [name for name, count in hits.items() if count == best]
    return named[0] if best and len(named) == 1 else None


def review(subject: str) -> LiteratureReview:
    """The papers on the subject, newest first, and for each target what speaks for and against it.

    A paper weighs what its evidence does (genetics 3, animals 2, cells 1); one that contradicts counts against.
    """
    about = corpus()["subjects"][subject]
    papers = [Paper.model_validate(paper) for paper in corpus()["papers"] if paper["subject"] == subject]
    targets = [_evidence(target, known, papers) for target, known in about["targets"].items()]
    return LiteratureReview(
        subject=subject,
        marker=about["marker"],
        papers=sorted(papers, key=lambda paper: (-paper.year, paper.id)),
        targets=sorted(targets, key=lambda target: (-target.score, target.target)),
        corpus=source_of(CORPUS, len(corpus()["papers"])),
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
