"""Why a run waits: a sentence for each step that does not go on by itself just now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apps.plans.board import LIVE
from apps.plans.depicting import Progress, shown_task
from apps.plans.models import Step
from apps.record.lifecycle import TaskState
from apps.record.models import Task

State, Phase = Step.State, Step.Phase
MOST_NAMED = 4  # steps in a sentence

ASKED = {
    Phase.WORK: "It asks you something before it goes on.",
    Phase.BEFORE: "You are asked whether it may begin.",
    Phase.AFTER: "You are asked whether you agree to what it delivered.",
    Phase.DECISION: "It failed, and you are asked how to go on.",
    Phase.ANSWERING: "An agent is answering what it asked.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a step waits. `task`: where there is more to see; `is_yours`: it waits for the reader."""

    title: str
    sentence: str
    task: Task | None = None
    is_yours: bool = False


def reasons(progress: Progress) -> list[Reason]:
    """Those that wait for the reader first; of a fan-out one for all items that wait for the same."""
    found = list(dict.fromkeys(_reasons(progress)))
    return sorted(found, key=lambda reason: not reason.is_yours)


def _reasons(progress: Progress) -> Iterator[Reason]:
    unsettled = {step.key for step in progress.steps if step.state not in Step.SETTLED}
    live, waiting = sum(step.state in LIVE for step in progress.steps), set()
    for step in progress.newest():
        title, task = progress.plan.title_of(step.key), shown_task(step)
        if step.item >= 0 and step.state == State.ASKING:
            title = f"{title} {step.item + 1}"
        if step.state == State.ASKING:
            yield Reason(title, _asked(progress, step), task, step.phase != Phase.ANSWERING)
        elif step.state == State.WAITING and step.key not in waiting:
            waiting.add(step.key)
            yield Reason(title, _waiting(progress, step.key, unsettled, live))
        elif step.state == State.STARTING:
            yield Reason(title, "It is being handed to its agent.")
        elif step.state == State.RUNNING and task and task.state == TaskState.SUBMITTED:
            yield Reason(title, "Its agent has it, and has not begun yet.")


def _asked(progress: Progress, step: Step) -> str:
    question = progress.question_of(step)
    return f"{ASKED[Phase(step.phase)]} {question}".strip()


def _waiting(progress: Progress, key: str, unsettled: set[str], live: int) -> str:
    needs = progress.plan.needs[key] & unsettled
    unmet = [progress.plan.title_of(one) for one in progress.plan.definition.steps if one in needs]
    if unmet:
        more = f" and {len(unmet) - MOST_NAMED} more" if len(unmet) > MOST_NAMED else ""
        named = [f"“{one}”" for one in unmet[:MOST_NAMED]]
        listed = ", ".join(named) if more or len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
        return f"It waits for {listed}{more} to be done."
    if progress.run.paused_at:
        return "The run is paused. Resume it, and this step begins."
    definition = progress.plan.definition
    if live >= definition.limit:
        return f"The plan lets {definition.limit} steps be worked at at the same time, and that many are."
    agent = definition.steps[key].agent
    if agent in definition.agent_limits:
        return f"`{agent}` works at {definition.agent_limits[agent]} steps of a run at the same time at most."
    return "All that it waits for is done. It begins as soon as the run is looked at again."
