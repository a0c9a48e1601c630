"""What files an agent takes, with the model that is chosen for it."""

from __future__ import annotations

from typing import Any

from agentkit.llm.reading import IMAGES, sight_of
from apps.agents.media_types import Intake
from apps.agents.models import Agent
from apps.agents.options import model_choices

JSON = dict[str, Any]


def stated_intake(agent: Agent) -> Intake:
    """What the agent, or one of its skills, says that it takes. Without a query."""
    of_skills = (mode for skill in agent.skills for mode in skill.get("inputModes", []))
    return Intake(list(dict.fromkeys([*agent.input_modes, *of_skills])))


def intake_of(agent: Agent, options: JSON | None = None) -> Intake:
    """`stated_intake`, with the model that these options choose."""
    modes = stated_intake(agent).modes
    if agent.offers_models and not _sees(agent, options or {}):
        modes = [one for one in modes if one not in (*IMAGES, "image/*")]
    return Intake(modes)


def _sees(agent: Agent, options: JSON) -> bool:
    model = options.get("model") or next(iter(model_choices(agent)), "")
    return sight_of(model.partition("@")[0]).images
