"""Makes a plan of a session: what the person asked becomes steps of the agents that answered.

What cannot become a step is named, so that the person can decide about it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.plans.definitions import PlanDefinition, as_yaml
from apps.plans.drafting import PLANNER, literal, title_of
from apps.plans.person import PERSON
from apps.record import lineage
from apps.record.content.parts import words_of
from apps.record.errors import UnsupportedOperation
from apps.record.events import JSON
from apps.record.models import Context, Message, Task, TaskState
from apps.record.reading.lookup import find_session

MOST_STEPS = 100
LONGEST_MESSAGE = 20_000  # characters; braces in it may become more
LONGEST_TITLE, LONGEST_QUOTE = 120, 60  # characters


class NothingToPlan(UnsupportedOperation):
    """No agent that you may use has answered in this session, so there is nothing to make a plan of."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A message of a person, the agent that answered, and the task in which it did, if it was one."""

    message: Message
    agent: Agent
    task: Task | None

    @property
    def has_files(self) -> bool:
        return any(_is_file(part) for part in self.message.parts)


@dataclass(slots=True)
class PlanOfChat:
    """A definition as YAML, and sentences about what is not in it."""

    text: str = ""
    left_out: list[str] = field(default_factory=list)


def plan_of_session(principal: Principal, session: uuid.UUID) -> PlanOfChat:
    """Raises ContextNotFound, NothingToPlan."""
    context = find_session(principal, session)
    made = PlanOfChat()
    asked = list(_asked(context, principal, made.left_out))
    if not asked:
        raise NothingToPlan
    if len(asked) > MOST_STEPS:
        made.left_out.append(f"Everything after the first {MOST_STEPS} answers.")
    delivering = set(lineage.artifacts(context).values_list("task", flat=True))
    steps = _steps(asked[:MOST_STEPS], delivering)
    if with_files := [one for one in asked[:MOST_STEPS] if one.has_files]:
        quoted = ", ".join(_quote(one.message) for one in with_files)
        made.left_out.append(f"The files of {quoted}. A run starts with files of its own, which these steps get.")
    title = context.title or "Plan of a session"
    definition = PlanDefinition.read({"name": title[:100], "description": f"Made of the session “{title}”.", **steps})
    made.text = as_yaml(definition.as_json)
    return made


def _asked(context: Context, principal: Principal, left_out: list[str]) -> Iterator[Asked]:
    """The messages that were answered by an agent that the person may use. Notes the others."""
    tasks = {task.pk: task for task in lineage.shown_tasks(context)}
    said = list(lineage.messages(context).select_related("agent").order_by("index"))
    usable = Agent.objects.visible_to(principal).exclude(slug__in=(PERSON, PLANNER))
    keys = {task.agent_id for task in tasks.values()} | {one.agent_id for one in said if one.agent_id}
    agents: dict[int | None, Agent] = {agent.pk: agent for agent in usable.filter(pk__in=keys)}
    begun = set[uuid.UUID]()
    for number, message in enumerate(said):
        if message.role != Message.Role.USER:
            continue
        task = tasks.get(message.task_id) if message.task_id else None
        answer = next(iter(said[number + 1 :]), None)
        agent = agents.get(task.agent_id if task else (answer.agent_id if answer and not answer.task_id else None))
        if task is not None and task.pk in begun:
            left_out.append(f"{_quote(message)}: an answer to a question. The step asks again.")
        elif task is not None and task.state != TaskState.COMPLETED:
            left_out.append(f"{_quote(message)}: it was not completed.")
        elif agent is None:
            left_out.append(f"{_quote(message)}: no agent that your plans can use answered it.")
        elif not words_of(message.parts).strip():
            left_out.append("A message without text.")
        elif len(words_of(message.parts)) > LONGEST_MESSAGE:
            left_out.append(f"{_quote(message)}: it is longer than {LONGEST_MESSAGE:,} characters.")
        else:
            yield Asked(message, agent, task)
        begun |= {task.pk} if task else set()


def _steps(asked: Sequence[Asked], delivering: set[uuid.UUID]) -> JSON:
    """Each step gets what the one before it gave."""
    steps: JSON = {}
    earlier, former = "", None
    for number, one in enumerate(asked, 1):
        words = words_of(one.message.parts).strip()
        message, attach = literal(words), ["inputs.files"] if one.has_files else []
        if former is not None:
            message += f"\n\nThe earlier answer:\n{{{{ steps.{earlier}.text }}}}"
            if former.task is None or former.task.pk in delivering:
                attach.append(f"steps.{earlier}.artifacts")
        earlier, former = f"step_{number}", one
        steps[earlier] = {
            "title": title_of(words)[:LONGEST_TITLE],
            "agent": one.agent.slug,
            "message": message,
            **({"attach": attach} if attach else {}),
        }
    return {"steps": steps}


def _is_file(part: JSON) -> bool:
    return bool(part.get("filename")) or not {"text", "data"} & part.keys()


def _quote(message: Message) -> str:
    words = " ".join(words_of(message.parts).split())
    if not words:
        return "a message without text"
    return f"“{words[:LONGEST_QUOTE]}{'…' if len(words) > LONGEST_QUOTE else ''}”"
