"""What an operator decides about a card that waits: it counts, or it never does."""

from __future__ import annotations

import logging

from django.core.exceptions import ValidationError
from django.db import transaction

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.remote.models import RemoteAgent
from apps.remote.registering import become, trust_card

audit = logging.getLogger("parley.audit")


@transaction.atomic
def approve(agent: Agent, by: User | None, version: AgentVersion | None = None) -> AgentVersion:
    """Make the agent what its proposed card says, wherever that is, and pin its key.

    `version` is what was looked at: if something else waits by now, nothing is approved. Raises ValidationError.
    """
    remote, proposed = _waiting(agent, version)
    become(remote.agent, proposed.content["card"])
    remote.agent.current_version = proposed
    remote.agent.save(update_fields=["current_version", "updated_at"])
    trust_card(remote, proposed.content)
    remote.proposed = remote.declined = None
    remote.save()
    audit.info("%s approved version %s of the remote agent %s", by, proposed.number, agent.slug)
    return proposed


@transaction.atomic
def decline(agent: Agent, by: User | None, version: AgentVersion | None = None) -> AgentVersion:
    """Leave the agent as it is; the same card is not proposed again. Arguments as of `approve`."""
    remote, proposed = _waiting(agent, version)
    remote.proposed, remote.declined = None, proposed
    remote.save()
    audit.info("%s declined version %s of the remote agent %s", by, proposed.number, agent.slug)
    return proposed


def _waiting(agent: Agent, looked_at: AgentVersion | None) -> tuple[RemoteAgent, AgentVersion]:
    locked = Agent.objects.select_for_update().get(pk=agent.pk)
    remote = RemoteAgent.objects.select_for_update(of=("self",)).select_related("proposed").get(agent=locked)
    remote.agent = locked
    proposed = remote.proposed
    if proposed is None:
        raise ValidationError({"agent": "Nothing waits for approval."})
    if looked_at is not None and looked_at.pk != proposed.pk:
        raise ValidationError({"agent": "The card changed again meanwhile. Look at what waits now."})
    return remote, proposed
