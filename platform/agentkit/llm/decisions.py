"""The decisions that models are asked for. It imports Pydantic: import it late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from agentkit.selecting import Clarify, Decision, Reject, Start
from agentkit.skills import Skill


class Effort(BaseModel):
    """What it takes to answer the message."""

    complexity: Literal["simple", "moderate", "complex"] = Field(description="How much thought it takes.")
    duration: Literal["seconds", "minutes", "hours"] = Field(description="How long it takes.")
    needs_tracking: bool = Field(description="Does the sender want to follow the work, or get files or documents?")
    is_certain: bool = Field(description="Are you certain of all this?")

    @property
    def is_small(self) -> bool:
        """Is it certain that it can be answered at once?"""
        quick = self.complexity == "simple" and self.duration == "seconds"
        return quick and self.is_certain and not self.needs_tracking


class Choice(BaseModel):
    """Which skill takes the message."""

    action: Literal["start", "clarify", "reject"] = Field(
        description="start a skill; clarify where it is unclear which; reject what no skill is for"
    )
    skill: str = Field("", description="The id of the skill to start.")
    words: str = Field("", description="The question to the sender, or the reason for them, in their language.")

    def decision(self, skills: Sequence[Skill]) -> Decision | None:
        """None for an invalid choice."""
        if self.action == "start":
            return Start(self.skill) if self.skill in {one.id for one in skills} else None
        if not self.words:
            return None
        return Clarify(self.words) if self.action == "clarify" else Reject(self.words)


def skill_list(skills: Sequence[Skill]) -> str:
    return "\n".join(f"- {one.id}: {one.name}. {one.description} Examples: {list(one.examples)}" for one in skills)
