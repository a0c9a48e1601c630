"""Starts an agent or a plan for its owner, without a request."""

from __future__ import annotations

import uuid

from apps.accounts.models import User
from apps.accounts.principals import WRITE, Principal
from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.conversations.queue.messages import send_or_queue
from apps.engine.accept import Receipt
from apps.engine.send import accept_and_publish
from apps.plans import registry
from apps.plans.running import runs
from apps.record.content import strict_json
from apps.record.content.composing import compose, parts_of
from apps.record.errors import InvalidFields, UnsupportedOperation, check_allowed
from apps.record.events import JSON
from apps.record.models import Context
from apps.record.projects import find_project

NO_AGENT = "There is no such agent or plan, or you may not use it."
MAX_INPUT_BYTES = 64 * 1024


def find_target(principal: Principal, slug: str) -> Agent:
    """An agent or plan that the caller may use. Raises InvalidFields."""
    found = Agent.objects.find_or_none(principal, slug)
    if found is None:
        raise InvalidFields([("agent", NO_AGENT)])
    return found


def check_content(agent: Agent, text: str, inputs: JSON) -> None:
    """Whether an agent or a plan can be started with this. Raises InvalidFields."""
    if strict_json.size_of(inputs) > MAX_INPUT_BYTES:
        raise InvalidFields([("inputs", f"Must have at most {MAX_INPUT_BYTES // 1024} KiB.")])
    if agent.kind != Agent.Kind.PLAN:
        if not text.strip() and not inputs:
            raise InvalidFields([("text", "Write the message that the agent gets.")])
        return
    definition = registry.definition_of(agent)
    if definition is None:
        raise InvalidFields([("agent", "The plan's definition cannot be read. Its owner has to save it again.")])
    if problems := runs.input_problems(definition, {"text": text, **inputs, "files": []}):
        raise InvalidFields(problems)


def start(
    owner: User,
    workspace: int,
    agent: Agent | None,
    *,
    key: str,
    text: str,
    inputs: JSON,
    temporary: bool = False,
    project: uuid.UUID | None = None,
) -> Receipt:
    """Start a task of the agent, or a run of the plan, once per `key`, in a new session. Synchronous.

    `temporary`: in one that neither uses nor leaves memory of the owner. `project`: in which it begins, if the owner
    sees it.

    The same key with the same content gives the same task. Raises errors.Refusal, QuotaExceeded, limits' Exceeded;
    then nothing was stored.
    """
    principal = owner.principal_in(workspace)
    usable = _usable(owner, principal, agent)
    how: JSON = {"temporary": temporary, "project": project if project and find_project(principal, project) else None}
    if usable.kind == Agent.Kind.PLAN:
        return runs.start_run(principal, usable, inputs, key=key, text=text, **how)
    return accept_and_publish(principal, usable, compose(parts_of(text, data=inputs or None), key=key), **how)


def go_on(owner: User, session: Context, *, key: str, text: str, inputs: JSON) -> uuid.UUID | None:
    """Send the session's agent a message, once per `key`, as soon as nothing works in the session. Synchronous.

    Returns its task; None if it waits in the session's queue. Raises as `start`, and QueueFull.
    """
    principal = owner.principal_in(session.workspace_id)
    _usable(owner, principal, session.agent)
    return send_or_queue(principal, session, compose(parts_of(text, data=inputs or None), key=key))


def _usable(owner: User, principal: Principal, agent: Agent | None) -> Agent:
    """The agent, if the owner may start it now. Raises errors.Refusal, QuotaExceeded."""
    if not owner.is_active:
        raise UnsupportedOperation("The owner's account is not active.")
    check_allowed(principal, WRITE)
    usable = Agent.objects.find_or_none(principal, agent.slug) if agent else None
    if usable is None:
        raise UnsupportedOperation("The agent or plan was deleted or disabled, or its owner may no longer use it.")
    quotas.count_act(principal)
    return usable
