"""Why a task waits, or what happens to it now, computed from the record."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType

from apps.agents.models import Agent
from apps.credentials.models import CredentialRequest
from apps.engine import activity
from apps.engine.claim import allowed_attempts, attempts_after_loss
from apps.housekeeping.models import SEEN_WITHIN, ServerProcess
from apps.installation.models import Activity, Operation
from apps.operators import columns
from apps.plans.models import PlanRun, Step
from apps.plans.progress import Progress, waiting_reasons
from apps.record.content.rendering import summarize_parts
from apps.record.execution import Dependency, Run, Suspension
from apps.record.models import Task, TaskState
from apps.remote.models import Breaker, Checkup, OpenWork
from parley.db import sql
from parley.faces import cells
from parley.faces.cells import Tone

MOST_CHILDREN, MOST_REASONS = 10, 10  # shown
MOST_COUNTED = 10_000  # runs before this one
SOON = datetime.timedelta(seconds=10)  # within which a worker usually claims a run

Lines = list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Cause:
    """A sentence, and facts under it."""

    tone: Tone
    sentence: str
    lines: Lines = field(default_factory=list)

    @property
    def sign(self) -> Any:
        return cells.state(self.sentence, self.tone)


def causes_of(task: Task) -> list[Cause]:
    """For an unfinished task why it waits, for others why it ended so. The task's agent and owner should be loaded."""
    if task.is_finished:
        return list(_ends(task))
    now = sql.database_time()
    run = task.runs.unfinished().select_related("agent").first()
    found: list[Cause] = []
    if TaskState(task.state).is_interrupted:
        found.append(_question(task, now))
    elif run is None:
        found += _without_run(task)
    elif run.state == Run.State.QUEUED:
        run.task = task
        found.append(_queued(run, now))
    else:
        run.task = task
        found.append(_running(run, now))
    found += _children(task)
    if (run.agent if run and run.agent else task.agent).kind == Agent.Kind.REMOTE:
        found.append(_remote(task, run.agent if run and run.agent else task.agent))
    return found


def _queued(run: Run, now: datetime.datetime) -> Cause:
    agent = run.agent or run.task.agent
    before = Run.objects.unfinished().filter(state=Run.State.QUEUED, queued_at__lt=run.queued_at)
    ahead = before[:MOST_COUNTED].count()
    lines: Lines = [
        ("agent", cells.link(agent.name, cells.page_url(Agent, agent.pk))),
        ("queued", cells.relative_time(run.queued_at)),
        ("runs before it", f"{ahead:,}" + (" or more" if ahead == MOST_COUNTED else "")),
        ("sent again by the sweep", cells.relative_time(run.published_at)),
        ("next sweep", f"every {settings.SWEEP_SECONDS:g} s"),
    ]
    if run.attempt:
        lines.append(("attempts so far", _attempts(run)))
    tone, sentence = _reason_in_queue(run, agent, now)
    return Cause(tone, sentence, lines)


def _reason_in_queue(run: Run, agent: Agent, now: datetime.datetime) -> tuple[Tone, str]:
    if agent.activity == Activity.PAUSED:
        return Tone.WAITING, f"{agent.name} is paused. The run starts when an operator resumes the agent."
    if not activity.may_start(agent, Operation.objects.first()):
        return Tone.WAITING, "All agents are paused. The run starts when an operator resumes them."
    if now - run.queued_at < SOON:
        return Tone.QUEUED, "It was just queued. A worker claims it in a moment."
    workers = list(ServerProcess.objects.seen().filter(kind=ServerProcess.Kind.WORKER))
    if not workers:
        seconds = int(SEEN_WITHIN.total_seconds())
        return Tone.FAILED, f"No worker was seen in the last {seconds} s. Start a worker, or look at its log."
    if all(worker.busy >= worker.capacity for worker in workers):
        busy = sum(worker.busy for worker in workers)
        return (
            Tone.WAITING,
            f"All workers are full: {busy:,} runs in {len(workers)} process{'es' * (len(workers) > 1)}.",
        )
    return Tone.WAITING, "Workers are running, but none has claimed it. The sweep sends it to them again."


def _running(run: Run, now: datetime.datetime) -> Cause:
    agent, lease = run.agent or run.task.agent, datetime.timedelta(seconds=settings.RUN_LEASE_SECONDS)
    limit = agent.time_limit
    until = run.lease_until or now
    started = run.started_at or run.queued_at
    lines: Lines = [
        ("worker", cells.identifier(run.worker)),
        ("its process was seen", cells.relative_time(_seen_at(run.worker))),
        ("started", cells.relative_time(run.started_at)),
        ("last heartbeat", cells.relative_time(until - lease)),
        ("lease ends", cells.relative_time(until)),
        ("attempt", _attempts(run)),
        ("executed", "alone, in a process of its own" if run.alone else "beside others"),
        ("fence", run.fence),
        ("time limit", cells.relative_time(started + datetime.timedelta(seconds=limit)) if limit else "none"),
        ("run", cells.row_link(Run, run.pk)),
    ]
    if until < now and not activity.may_start(agent, Operation.objects.first()):
        paused = agent.name if agent.activity == Activity.PAUSED else "all agents"
        lost = "Its worker has lost the lease. Another one continues when an operator resumes"
        return Cause(Tone.WAITING, f"{lost} {paused}.", lines)
    if until < now:
        more = "gives it to another worker" if attempts_after_loss(run) < allowed_attempts(run) else "fails it"
        lines.append(("next sweep", f"within {settings.SWEEP_SECONDS:g} s, which {more}"))
        return Cause(Tone.FAILED, "Its worker has lost the lease: it died, hangs, or cannot reach the database.", lines)
    if run.interrupted:
        return Cause(Tone.WORKING, "A newer message asks the turn to stop.", lines)
    return Cause(Tone.WORKING, f"{agent.name} works on turn {run.turn}.", lines)


def _seen_at(worker: str) -> datetime.datetime | None:
    """The last heartbeat of the process in a worker's name, such as `host:4711:…`."""
    host, _, rest = worker.partition(":")
    pid = rest.partition(":")[0]
    if not pid.isdecimal():
        return None
    rows = ServerProcess.objects.filter(kind=ServerProcess.Kind.WORKER, host=host, pid=int(pid))
    return rows.values_list("seen_at", flat=True).first()


def _attempts(run: Run) -> str:
    allowed = allowed_attempts(run)
    return f"{run.attempt} of {'any number' if allowed == math.inf else int(allowed)}"


def _question(task: Task, now: datetime.datetime) -> Cause:
    asked = summarize_parts((task.status_message or {}).get("parts", [])) or "–"
    lines: Lines = [("since", cells.relative_time(task.status_at)), ("who may answer", _answerers(task))]
    if (waits := Suspension.objects.filter(task=task).first()) and waits.child_id:
        lines.append(("asked by task", cells.row_link(Task, waits.child_id)))
    if task.state == TaskState.AUTH_REQUIRED:
        request = CredentialRequest.objects.filter(task=task, answer="").order_by("-created_at").first()
        if request is not None:
            expired = " (expired; the owner can ask for a new link)" if request.is_expired(now) else ""
            lines += [("service", request.service), ("link expires", cells.relative_time(request.expires_at))]
            lines += [("state of the link", f"open{expired}")]
        return Cause(Tone.WAITING, f"It waits for a credential: {columns.gist(asked, 200)}", lines)
    return Cause(Tone.WAITING, f"It waits for an answer: {columns.gist(asked, 200)}", lines)


def _answerers(task: Task) -> Any:
    if task.owner is None:
        return "whoever has the task's id, and operators"
    return cells.link(f"{task.owner}, and operators", cells.page_url(type(task.owner), task.owner_id))


def _without_run(task: Task) -> Iterator[Cause]:
    run = PlanRun.objects.filter(pk=task.pk).select_related("task").first()
    depends = Dependency.objects.filter(task=task).select_related("on__agent")[:MOST_REASONS]
    if awaited := [
        (f"{one.on.agent.name}, {one.on.state}", cells.row_link(Task, one.on.pk)) for one in depends if one.on
    ]:
        yield Cause(Tone.WAITING, "It starts when these tasks are completed.", awaited)
    elif run is None:
        yield Cause(Tone.QUEUED, "It has no run. Its next message starts one.")
    if run is None:
        return
    for reason in waiting_reasons(Progress.of(run))[:MOST_REASONS]:
        lines: Lines = [("task of the step", cells.row_link(Task, reason.task.pk))] if reason.task else []
        yield Cause(Tone.WAITING, f"Step “{reason.title}”: {reason.sentence}", lines)
    working = Step.objects.filter(run=run, state=Step.State.RUNNING).select_related("task")[:MOST_REASONS]
    if lines := [(step.key, cells.row_link(Task, step.worked_at_by)) for step in working if step.worked_at_by]:
        yield Cause(Tone.WORKING, "Steps that run:", lines)


def _children(task: Task) -> Iterator[Cause]:
    if task.agent.kind == Agent.Kind.PLAN:
        return
    children = task.children.unfinished().select_related("agent").order_by("created_at")
    found = list(children[: MOST_CHILDREN + 1])
    if found:
        lines: Lines = [
            (f"{child.agent.name}, {child.state}", cells.row_link(Task, child.pk)) for child in found[:MOST_CHILDREN]
        ]
        more = " (the first of them)" if len(found) > MOST_CHILDREN else ""
        yield Cause(Tone.WAITING, f"It waits for tasks that it started{more}:", lines)


def _remote(task: Task, agent: Agent) -> Cause:
    checkup = Checkup.objects.filter(agent=agent).first()
    breaker = Breaker.objects.filter(agent=agent).first()
    work = OpenWork.objects.filter(task=task.pk).order_by("-began_at").first()
    state = breaker.state if breaker else Breaker.State.CLOSED
    lines: Lines = [
        ("remote task", cells.identifier(work.remote_task) if work else cells.NOTHING),
        ("sent", cells.relative_time(work.began_at if work else None)),
        ("last news", cells.relative_time(_last_news(task))),
        ("last check", cells.relative_time(checkup.checked_at if checkup else None)),
        ("circuit breaker", state.label),
        ("agent", cells.link(agent.name, cells.page_url(Agent, agent.pk))),
    ]
    if breaker and state != Breaker.State.CLOSED:
        lines += [("next try", cells.relative_time(breaker.retry_at)), ("last error", breaker.error)]
        return Cause(Tone.FAILED, f"Calls to the remote agent {agent.name} are held back after failures.", lines)
    if agent.health != Agent.Health.OK:
        return Cause(Tone.WAITING, f"The remote agent {agent.name} is {agent.health}. {agent.ailment}", lines)
    return Cause(Tone.WORKING, f"It follows the task at the remote agent {agent.name}.", lines)


def _last_news(task: Task) -> datetime.datetime | None:
    return task.events.order_by("-index").values_list("at", flat=True).first()


def _ends(task: Task) -> Iterator[Cause]:
    last = task.runs.order_by("-turn").first()
    error = (last.error or {}) if last else {}
    said = summarize_parts((task.status_message or {}).get("parts", []))
    when: Lines = [("ended", cells.relative_time(task.status_at))]
    if task.state in (TaskState.FAILED, TaskState.REJECTED):
        when += [("code", error["code"])] if error.get("code") else []
        when += [("error", str(error["message"]))] if error.get("message") else []
        when += [("run", cells.row_link(Run, last.pk)), ("attempts", last.attempt)] if last else []
        word = "It failed" if task.state == TaskState.FAILED else "The agent declined it"
        yield Cause(Tone.FAILED, f"{word}: {columns.gist(said, 200) or 'without a message'}", when)
    elif task.state == TaskState.CANCELED:
        kind = ContentType.objects.get_for_model(Task)
        acted = LogEntry.objects.filter(content_type=kind, object_id=str(task.pk), change_message__startswith="Cancel")
        by = acted.select_related("user").order_by("-action_time").first()
        who = f"the operator {by.user}" if by else "its owner, or the task that started it"
        yield Cause(Tone.STOPPED, f"It was canceled by {who}.", when)
