"""Assistants: the agents that the caller may use. An assistant's graph is its agent, by its slug."""

from __future__ import annotations

import uuid
from typing import Any

from apps.accounts.principals import Principal
from apps.agents.models import Agent, AgentNotFound
from apps.doors.callers import open_agent
from apps.optional.langgraph.requests import AssistantFilter, AssistantSearch, picked
from apps.record.content.strict_json import timestamp
from apps.record.events import JSON

NODE = "agent"
"""The one node of every graph."""
METADATA = {"created_by": "system"}
MESSAGES: JSON = {
    "type": "object",
    "properties": {"messages": {"type": "array", "items": {"type": "object"}}},
    "required": ["messages"],
}


def id_of(slug: str) -> str:
    """The assistant's id, the same in all installations."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"parley agent {slug}"))


def find_assistant(principal: Principal, named: str) -> Agent:
    """The agent with this id of an assistant, or this slug. Raises AgentNotFound, Unauthenticated."""
    try:
        key = str(uuid.UUID(named))
    except ValueError:
        return open_agent(principal, named)
    slugs = Agent.objects.visible_to(principal).values_list("slug", flat=True)
    if (slug := next((one for one in slugs if id_of(one) == key), None)) is None:
        raise AgentNotFound
    return open_agent(principal, slug)


def show(principal: Principal, assistant_id: str) -> JSON:
    return _json(find_assistant(principal, assistant_id))


def search(principal: Principal, asked: AssistantSearch) -> list[JSON]:
    found = sorted(_matching(principal, asked), key=lambda one: str(one[asked.sort_by]))
    ordered = found[::-1] if asked.sort_order == "desc" else found
    return picked(ordered[asked.offset : asked.offset + asked.limit], asked.select)


def count(principal: Principal, asked: AssistantFilter) -> int:
    return len(_matching(principal, asked))


def schemas(principal: Principal, assistant_id: str) -> JSON:
    states = dict.fromkeys(("input_schema", "output_schema", "state_schema"), MESSAGES)
    graph = find_assistant(principal, assistant_id).slug
    return {"graph_id": graph, **states, "config_schema": {}, "context_schema": {}}


def graph(principal: Principal, assistant_id: str) -> JSON:
    agent = find_assistant(principal, assistant_id)
    ends = [{"id": end, "type": "schema", "data": end} for end in ("__start__", "__end__")]
    node = {"id": NODE, "type": "runnable", "data": {"id": [NODE], "name": agent.slug}}
    edges = [{"source": "__start__", "target": NODE}, {"source": NODE, "target": "__end__"}]
    return {"nodes": [ends[0], node, ends[1]], "edges": edges}


def _matching(principal: Principal, asked: AssistantFilter) -> list[JSON]:
    found = Agent.objects.visible_to(principal).listed().select_related("current_version")
    if asked.graph_id:
        found = found.filter(slug=asked.graph_id)
    if asked.name:
        found = found.filter(name__icontains=asked.name)
    wanted: dict[str, Any] = asked.metadata or {}
    return [_json(agent) for agent in found] if wanted.items() <= METADATA.items() else []


def _json(agent: Agent) -> JSON:
    return {
        "assistant_id": id_of(agent.slug),
        "graph_id": agent.slug,
        "name": agent.name,
        "description": agent.description,
        "version": agent.current_version.number if agent.current_version else 1,
        "config": {},
        "context": {},
        "metadata": METADATA,
        "created_at": timestamp(agent.created_at),
        "updated_at": timestamp(agent.updated_at),
    }
