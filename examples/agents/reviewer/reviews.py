"""A review, a verdict, and the page that both become."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pydantic import BaseModel, Field


class Review(BaseModel):
    """What one look at a text found."""

    score: int = Field(ge=0, le=10)
    remarks: list[str] = Field(max_length=20)


class Decision(Enum):
    """What is to become of the text."""

    READY = "ready"
    REVISE = "revise"
    REWRITE = "rewrite"


class Verdict(BaseModel):
    """What the reviews come to."""

    decision: Decision
    why: str = Field(min_length=1)


def as_markdown(verdict: Verdict, reviews: Mapping[str, Review]) -> str:
    """The whole review as a page."""
    lines = [f"# {verdict.decision.value.capitalize()}", verdict.why]
    for aspect, review in reviews.items():
        lines.append(f"## {aspect.capitalize()}: {review.score} of 10")
        lines.append("\n".join(f"- {remark}" for remark in review.remarks) or "Nothing to remark.")
    return "\n\n".join(lines) + "\n"
