"""Remote agents in the registry, without a server unless a test starts one."""

from typing import Any

from apps.agents import versions
from apps.agents.models import Agent
from apps.agents.registration import house_workspace
from apps.remote.agent_cards import cards
from apps.remote.models import RemoteAgent
from tests.remote.card_server import card


def remote_agent(slug: str, url: str = "https://agents.invalid/a2a", *, card_url: str = "", **fields: Any) -> Agent:
    agent = Agent.objects.create(
        slug=slug, name=slug.capitalize(), description="Somewhere else.", kind=Agent.Kind.REMOTE,
        workspace=house_workspace(), **fields,
    )  # fmt: skip
    said = card(url, name=agent.name)
    versions.save_version(agent, {"kind": "remote", "card": said, "signature": {"state": "unsigned"}})
    RemoteAgent.objects.create(agent=agent, card_url=card_url, origin=cards.checked_origin(url))
    return agent
