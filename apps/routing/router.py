"""The router: an agent that delegates messages to the agent that fits best, and answers what fits none itself."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from agentkit import Completed, HandlerError, Skill, SkillHandler, TaskContext, load_handler
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.routing import assistant
from apps.routing.assistant import answer
from apps.routing.choosing import pass_on

HANDLER = "apps.routing.router:Router"


class Router(SkillHandler):
    """Sends your message to the agent that fits it best, or answers it if none does."""

    name = "Router"
    category = "General"
    skills = (
        Skill(
            "route",
            "Find the right agent",
            "Chooses the agent that fits a message best, sends the message to it, and returns its answer.",
            tags=["router", "delegation"],
            examples=["Count down from 5", "@echo Repeat this"],
        ),
    )
    input_modes = ("*/*",)
    output_modes = ("*/*",)
    retry_safe = True
    time_limit = 4 * 3600.0

    async def on_request(self, task: TaskContext) -> Completed:
        return await pass_on(task) or await answer(task)


def register_house_agents() -> None:
    """Register the router and the Assistant if they are missing. Keeps people's changes, and agents of these names."""
    _register(settings.ROUTER_AGENT, HANDLER)
    _register(settings.DEFAULT_AGENT, assistant.HANDLER, pinned=1)


def _register(slug: str, handler: str, **policies: Any) -> None:
    found = Agent.objects.filter(slug=slug).first()
    if found is None:
        register_hosted(slug, handler, **policies)
    elif found.handler == handler or _has_moved(found.handler):
        register_hosted(slug, handler)


def _has_moved(handler: str) -> bool:
    """Was it Parley's own, in a version before?"""
    if not handler.startswith(("apps.", "examples.")):
        return False
    try:
        load_handler(handler)
    except HandlerError:
        return True
    return False
