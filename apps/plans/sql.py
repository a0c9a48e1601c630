"""The hand-written queries of plans."""

from __future__ import annotations

import datetime

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.plans.models import PlanRun, Step
from apps.record.models import Task
from parley.db.sql import Query


def _locked_run(
    run: PlanRun, task: Task, owner: User | None, agent: Agent, now: datetime.datetime
) -> tuple[PlanRun, datetime.datetime]:
    task.owner, task.agent = owner, agent
    run.task = task
    return run, now


def _step_with_tasks(step: Step, task: Task | None, consulted: Task | None) -> Step:
    step.task, step.consulted = task, consulted
    return step


def _step_with_task(step: Step, task: Task | None) -> Step:
    step.task = task
    return step


LOCKED_RUN = Query(
    "SELECT {run}, {task}, {owner}, {agent}, {now} FROM {run.table} JOIN {task.table} ON task.id = run.task_id "
    "LEFT JOIN {owner.table} ON owner.id = task.owner_id JOIN {agent.table} ON agent.id = task.agent_id "
    "WHERE run.task_id = %s {lock run}",
    _locked_run,
    run=PlanRun,
    task=Task,
    owner=User,
    agent=Agent,
)
"""A run that this transaction then holds, with its task, and the database's time."""

RUNNING_PLAN = Query[PlanRun](
    "SELECT {run} FROM {run.table} WHERE run.task_id = %s AND run.finished_at IS NULL", run=PlanRun
)

ENDED_STEPS = Query(
    "SELECT {step}, {task}, {consulted} FROM {step.table} LEFT JOIN {task.table} ON task.id = step.task_id "
    "LEFT JOIN {consulted.table} ON consulted.id = step.consulted_id "
    "WHERE step.run_id = %s AND step.state = 'ended' ORDER BY step.item, step.round",
    _step_with_tasks,
    step=Step,
    task=Task,
    consulted=Task,
)

WAITING_STEPS = Query[Step](
    "SELECT {step} FROM {step.table} WHERE step.run_id = %s AND step.key = %s AND step.state = 'waiting' "
    "ORDER BY step.item, step.round LIMIT %s",
    step=Step,
)

STEPS_OF_KEY = Query(
    "SELECT {step}, {task} FROM {step.table} LEFT JOIN {task.table} ON task.id = step.task_id "
    "WHERE step.run_id = %s AND step.key = %s ORDER BY step.item, step.round",
    _step_with_task,
    step=Step,
    task=Task,
)

STEPS_OF_TASK = Query[Step](
    "SELECT {step} FROM {step.table} WHERE step.task_id = %s OR step.consulted_id = %s", step=Step
)
