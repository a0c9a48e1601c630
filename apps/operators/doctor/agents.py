"""Checks of what keeps agents from working: pauses, remote agents that are down, and code that kills its process."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from apps.agents.models import Agent
from apps.deployments import confinement
from apps.deployments.models import Folder
from apps.engine.turns import isolation
from apps.installation.models import Activity, Operation
from apps.operators.doctor.examination import Finding, Patient, ok, problem, warning
from apps.remote.health_checks import down
from apps.remote.models import RemoteAgent

NAMED = 3  # of the agents that a sentence is about
RESUME = "Resume them in admin when the reason for the pause is gone."


def killers(_: Patient) -> Finding:
    """Whose runs killed their process."""
    found = isolation.kills()
    if not found:
        return ok("None killed its worker in the last hour.")
    text = f"Runs killed their worker in the last hour: {', '.join(f'{slug} {n}' for slug, n in found.most_common())}."
    most = isolation.PAUSE_AFTER
    advice = f"Mend the agent's code; its runs say what ended them. After {most} it is paused: resume it in admin."
    return problem(text, advice) if max(found.values()) >= most else warning(text, advice)


def all_agents(_: Patient) -> Finding:
    operation = Operation.objects.exclude(activity=Activity.ACTIVE).first()
    if operation is None:
        return ok("They take messages.")
    return warning(f"All agents are {operation.get_activity_display().lower()}.", RESUME)


def paused(_: Patient) -> Finding:
    slugs = _slugs(Agent.objects.enabled().filter(activity=Activity.PAUSED))
    return warning(f"{_named(slugs, 'agent')} paused.", RESUME) if slugs else ok("None is paused.")


def remote(_: Patient) -> Finding:
    slugs = _slugs(Agent.objects.filter(down()))
    advice = "Look at the last checks and errors in admin. Parley tries again by itself."
    return problem(f"{_named(slugs, 'remote agent')} down.", advice) if slugs else ok("None is down.")


def changed_cards(_: Patient) -> Finding:
    slugs = _slugs(Agent.objects.filter(pk__in=RemoteAgent.objects.filter(proposed__isnull=False).values("agent")))
    if not slugs:
        return ok("None waits for approval.")
    own = "their changed cards are" if len(slugs) > 1 else "its changed card is"
    return warning(
        f"{_named(slugs, 'remote agent')} used as before until {own} approved.", "Review the change in admin."
    )


def confined(_: Patient) -> Finding:
    """Does this machine's kernel keep processes of agents from what is Parley's?"""
    gap = confinement.gap()
    if not gap:
        return ok("This machine confines agents' processes.")
    if not Folder.objects.exists():
        return ok("No agent has a folder.")
    return warning(gap, "Add only folders that you trust, or run Parley on Linux 6.12 or newer.")


def _slugs(agents: QuerySet[Agent]) -> list[str]:
    return list(agents.order_by("slug").values_list("slug", flat=True))


def _named(slugs: Sequence[str], what: str) -> str:
    """Such as "2 agents (echo, report) are"."""
    number = len(slugs)
    names = ", ".join(slugs[:NAMED]) + (f" and {number - NAMED} more" if number > NAMED else "")
    return f"{number:,} {what}{'s' * (number > 1)} ({names}) {'are' if number > 1 else 'is'}"
