"""What an operator decides about a card that waits: it counts, or it never does."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.gateway.models import RemoteAgent
from apps.gateway.registering import become, trust_card


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
    _decided(proposed, "Approved", by)
    return proposed


@transaction.atomic
def decline(agent: Agent, by: User | None, version: AgentVersion | None = None) -> AgentVersion:
    """Leave the agent as it is; the same card is not proposed again. Arguments as of `approve`."""
    remote, proposed = _waiting(agent, version)
    remote.proposed, remote.declined = None, proposed
    remote.save()
    _decided(proposed, "Declined", by)
    return proposed


def _waiting(agent: Agent, looked_at: AgentVersion | None) -> tuple[RemoteAgent, AgentVersion]:
    locked = Agent.objects.select_for_update().get(pk=agent.pk)
    remote = RemoteAgent.objects.select_related("proposed").get(agent=locked)
    remote.agent = locked
    proposed = remote.proposed
    if proposed is None:
        raise ValidationError({"agent": "Nothing waits for approval."})
    if looked_at is not None and looked_at.pk != proposed.pk:
        raise ValidationError({"agent": "The card changed again meanwhile. Look at what waits now."})
    return remote, proposed


def _decided(version: AgentVersion, word: str, by: User | None) -> None:
    """A version is never changed but for this: what became of it."""
    who = f" by {by.short_name}" if by else ""
    told = version.note.removeprefix("Waits for approval: ")
    AgentVersion.objects.filter(pk=version.pk).update(note=f"{word}{who}: {told}"[:200])
