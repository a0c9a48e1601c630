"""Evaluates an agent: sends each example as a task, and checks the answers once the tasks have settled.

All is in rows, so an evaluation goes on after a crash. Sending an example again gives the same task: its messageId is
that of the evaluation and the example.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.models import User, person_of
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource, through
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import check_release
from apps.agents.rollouts.models import Rollout
from apps.agents.versions import run_side_by_side
from apps.engine.cancel import cancel_task
from apps.engine.send import accept_and_publish
from apps.optional.evaluations import checks
from apps.optional.evaluations.models import LEASE, LONGEST, Evaluation, Example, Result
from apps.record import ledger, wire
from apps.record.content.composing import compose
from apps.record.errors import Refusal, TaskNotFound
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Message, Task, TaskState
from apps.record.runs import UsageTotals
from parley import db
from parley.db.sql import write_transaction
from parley.work import WorkList

log = logging.getLogger("parley.evaluations")
AT_ONCE = 2  # evaluations that one process works at
LONGEST_ANSWER = 10_000  # characters that are kept


def add_from_task(task: Task, person: User, comment: str = "") -> Example:
    """An example of a rated task's first message, once. The comment becomes what a model judges by.

    Raises errors.TaskNotFound if the message is gone.
    """
    first = Message.objects.filter(task=task, role=Message.Role.USER).order_by("index").first()
    text = checks.text_of(first.parts) if first else ""
    if not text:
        raise TaskNotFound
    judged_by = f"It does not have this fault, which a person saw in an earlier answer: {comment}" if comment else ""
    example, _ = Example.objects.get_or_create(
        agent=task.agent, source=task.pk, defaults={"text": text, "judged_by": judged_by, "created_by": person}
    )
    return example


def start(agent: Agent, person: User, version: uuid.UUID | None = None) -> Evaluation:
    """Begin to evaluate a version of the agent, by default the current one, as this person. One that is under way is
    not begun again.

    Raises NotNeeded if the agent has no active examples.
    """
    examples = list(Example.objects.filter(agent=agent, is_active=True))
    if not examples:
        raise NotNeeded(f"{agent} has no active examples. Add some first.")
    version = version or agent.current_version_id
    try:
        with write_transaction():
            made = Evaluation.objects.create(agent=agent, version_id=version, started_by=person)
            Result.objects.bulk_create(Result(evaluation=made, example=example) for example in examples)
    except IntegrityError:
        return Evaluation.objects.get(agent=agent, version=version, finished_at=None)
    return made


async def go_on(key: int) -> None:
    """Takes an evaluation of an agent as far as it gets now."""
    await asyncio.to_thread(db.with_database, _go_on, key)  # a judge takes too long for a thread that others need


def _go_on(key: int) -> None:
    for evaluation in Evaluation.objects.select_related("agent", "version", "started_by").filter(pk=key).claim(LEASE):
        for result in evaluation.results.filter(state=Result.State.WAITING).select_related("example"):
            if not evaluation.extend(LEASE):
                break
            try:
                _take_further(evaluation, result)
            except Exception:
                log.exception("an example of evaluation %s could not be evaluated; it is tried again", evaluation.pk)
                if _is_late(evaluation):
                    _end(result, ["It could not be evaluated. The server's log says why."])
        is_finished = not evaluation.results.filter(state=Result.State.WAITING).exists()
        evaluation.release(**{"finished_at": timezone.now()} if is_finished else {})


def due_evaluations() -> QuerySet[Evaluation, int]:
    """Those that run, after beginning those of new versions."""
    start_for_new_versions()
    return Evaluation.objects.due().order_by("pk").values_list("pk", flat=True)


EVALUATIONS_TO_RUN = WorkList(
    "evaluations", "evaluations.evaluate", go_on, Evaluation, "started_at", due=due_evaluations, at_once=AT_ONCE
)


def _is_late(evaluation: Evaluation) -> bool:
    return timezone.now() - evaluation.started_at > LONGEST


def start_for_new_versions() -> None:
    """Evaluate versions that were made since their agent's last evaluation, as the person who started that."""
    for agent in Agent.objects.enabled().filter(examples__is_active=True, evaluations__isnull=False).distinct():
        last = agent.evaluations.select_related("started_by").first()
        if last is None or last.started_by is None or last.finished_at is None:
            continue
        current = agent.current_version_id
        if current and not agent.evaluations.filter(version=current).exists():
            start(agent, last.started_by)


def _take_further(evaluation: Evaluation, result: Result) -> None:
    if result.task is None:
        _send(evaluation, result)
        return
    task = Task.objects.select_related("context").filter(pk=result.task).first()
    if task is None:
        _end(result, ["Its session was deleted."])
    elif TaskState(task.state).is_settled:
        _check(result, task)
    elif _is_late(evaluation):
        _put_away(task)
        _end(result, ["It did not end in time."])


def _send(evaluation: Evaluation, result: Result) -> None:
    if evaluation.started_by is None or not evaluation.started_by.is_active:
        _end(result, ["The person who started the evaluation is gone."])
        return
    message = compose(
        [{"text": result.example.text}],
        key=f"evaluation-{evaluation.pk}-{result.example_id}",
        context=str(uuid.uuid5(uuid.NAMESPACE_OID, f"evaluation {evaluation.pk} {result.example_id}")),
    )
    try:
        is_chosen = evaluation.version is not None and run_side_by_side(evaluation.agent)
        version = evaluation.version if is_chosen else None
        receipt = accept_and_publish(evaluation.started_by.principal, evaluation.agent, message, version=version)
    except Refusal as refusal:
        _end(result, [f"It was refused. {refusal}"])
        return
    Result.objects.filter(pk=result.pk).update(task=receipt.task)


def _check(result: Result, task: Task) -> None:
    shown = wire.load_task(task)
    parts = checks.parts_of(shown)
    answer = checks.text_of(parts)
    state = TaskState(task.state)
    problems = [] if state == TaskState.COMPLETED else [f"The task is {state.label.lower()}. {answer[:500]}".strip()]
    if not problems:
        problems = checks.problems_of(result.example, parts)
    if not problems and result.example.judged_by.strip():
        problems = asyncio.run(checks.judge(result.example, result.example.text, answer))
    runs = list(Run.objects.filter(task=task).values_list("usage", flat=True))
    seconds = (task.status_at - task.created_at).total_seconds()
    cost = UsageTotals.of(runs).as_json.get("cost")
    _put_away(task)  # before: after a crash in between it is looked at again
    _end(result, problems, answer=answer[:LONGEST_ANSWER], seconds=seconds, cost=cost)


def _end(result: Result, problems: list[str], **values: object) -> None:
    state = Result.State.FAILED if problems else Result.State.PASSED
    waiting = Result.objects.filter(pk=result.pk, state=Result.State.WAITING)
    waiting.update(state=state, problems=problems, **values)


def _put_away(task: Task) -> None:
    """End what still runs or asks, and archive the session: nobody needs to see it in a list."""
    if not task.is_finished:
        with suppress(Refusal):
            cancel_task(task)
    with suppress(ObjectDoesNotExist), ledger.writing(task.context_id) as log_:
        if log_.context.archived_at is None:
            log_.add(EventType.SESSION_ARCHIVED, {})


def comparison(evaluation: Evaluation) -> list[tuple[Example, Result, Result | None]]:
    """Each example with its result, and its result in the evaluation before."""
    previous = evaluation.previous
    before = {one.example_id: one for one in previous.results.all()} if previous else {}
    results = evaluation.results.select_related("example")
    return [(one.example, one, before.get(one.example_id)) for one in results]


EVALUATE = Act[Agent](
    name="evaluate",
    label="Evaluate",
    do=lambda agent, operator: start(agent, person_of(operator)),
    summary="Evaluate an agent",
    effect="It gets its active examples as messages from you. That may cost what its language models cost.",
    said=lambda evaluation: f"{evaluation.agent} is being evaluated.",
    icon="fact_check",
    operator_permission="evaluations.add_evaluation",
)


@dataclass(frozen=True, slots=True)
class Compared:
    """The newest evaluations of versions, side by side.

    Attributes:
        evaluations: of each version, with totals; None if it has none.
        cases: the examples that do not have the same result in all of them, each with its results.
    """

    versions: list[AgentVersion]
    evaluations: list[Evaluation | None]
    cases: list[tuple[Example, list[Result | None]]]

    @property
    def is_under_way(self) -> bool:
        return any(one is not None and one.finished_at is None for one in self.evaluations)


def compare(versions: list[AgentVersion]) -> Compared:
    """Two queries for each version."""
    newest = [Evaluation.objects.with_totals().filter(version=one).order_by("-pk").first() for one in versions]
    found: dict[int, list[Result | None]] = {}
    examples: dict[int, Example] = {}
    for place, one in enumerate(newest):
        for result in one.results.select_related("example", "evaluation__version") if one else ():
            examples[result.example_id] = result.example
            found.setdefault(result.example_id, [None] * len(newest))[place] = result
    cases = [(examples[key], row) for key, row in found.items() if len({one and one.state for one in row}) > 1]
    return Compared(versions, newest, cases)


def _evaluate_both(rollout: Rollout, principal: Principal) -> Rollout:
    person, agent = person_of(principal), rollout.agent
    for version in (agent.current_version_id, rollout.candidate_id):
        start(agent, person, version)
    return rollout


EVALUATE_BOTH = Act[Rollout](
    name="evaluate",
    label="Evaluate both versions",
    do=_evaluate_both,
    summary="Evaluate the candidate of a rollout and the current version",
    effect="Both get the agent's active examples as messages from you. That may cost what their language models cost.",
    said=lambda rollout: f"{rollout.candidate} and the current version are being evaluated.",
    check=lambda rollout, principal: check_release(rollout.agent, principal),
    permission=Permission.BUILD,
    starts_work=True,
    is_offered=lambda rollout: rollout.is_under_way,
    icon="fact_check",
    operator_permission="evaluations.add_evaluation",
)


EXAMPLES = Resource(
    "examples",
    "example",
    Example,
    acts=(through(EVALUATE, "agent", summary="Evaluate the agent of an example"),),
    related=("agent",),
)
EVALUATIONS = Resource(
    "evaluations",
    "evaluation",
    Evaluation,
    acts=(through(EVALUATE, "agent", label="Evaluate again", summary="Repeat an evaluation", icon="replay"),),
    related=("agent", "version", "started_by"),
    order=("-id",),
)
