"""Hand-written queries match the ORM on each database."""

import datetime
import uuid

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from model_bakery import baker

from apps.accounts.models import ApiKey, User, Workspace
from apps.accounts.sql import KEY_BY_PREFIX
from apps.agents.models import Agent
from apps.agents.sql import AGENT_BY_SLUG, KEY_AND_AGENT, USER_SESSION_AND_AGENT
from apps.engine.sql import LATER_MESSAGE, RUN, SUSPENSION_BY_CHILD
from apps.plans import sql as plans
from apps.plans.models import PlanRun, Step
from apps.record import sql
from apps.record.execution import Run, Suspension
from apps.record.models import Artifact, Event, Message, Task
from parley.db.sql import write_transaction
from tests.clients import telling

pytestmark = [pytest.mark.services("each database has SQL and a driver of its own"), pytest.mark.django_db]


def values(row):
    if isinstance(row, list | tuple):
        return [values(one) for one in row]
    return row and {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.fixture
def task(ada, echo):
    sent = telling.finished(ada, echo, {"one.txt": telling.text("1"), "two.txt": telling.text("2")})
    telling.finished(ada, echo, {"three.txt": telling.text("3")}, contextId=str(sent.context))
    return Task.objects.select_related("context", "agent", "owner").get(pk=sent.task)


def test_the_record_s_rows(task):
    context, other = task.context, Task.objects.exclude(pk=task.pk).get()
    events, messages = Event.objects.filter(context=context), Message.objects.filter(task=task).order_by("index")
    artifacts = Artifact.objects.filter(task=task).order_by("first_event")
    assert values(sql.CONTEXT.one(context.pk)) == values(context)
    assert sql.CONTEXT.one(uuid.uuid4()) is None
    found = sql.TASK.one(task.pk)
    assert values([found, found.context]) == values([task, context])
    assert {one.pk for one in sql.TASKS.all([task.pk, other.pk, uuid.uuid4()])} == {task.pk, other.pk}
    found = sql.TASK_OF_CONTEXT.one(task.pk, context.pk)
    assert values([found, found.agent]) == values([task, task.agent])
    assert sql.TASK_OF_CONTEXT.one(task.pk, uuid.uuid4()) is None
    assert values(sql.EVENTS.all(context.pk, 1, 3)) == values(list(events.filter(index__gt=1).order_by("index")[:3]))
    newest = messages.filter(index__lte=9).order_by("-index")[:1]
    assert values(sql.NEWEST_MESSAGES.all(task.pk, 9, 1)) == values(list(newest))
    assert values(sql.MESSAGES_OF_TASKS.all([task.pk])) == values(list(messages))
    assert sql.MESSAGES_OF_TASKS.all([]) == []
    assert values(sql.ARTIFACTS_OF_TASKS.all([task.pk])) == values(list(artifacts))
    assert values(sql.ARTIFACTS_IN_STATE.all(task.pk, "delivered")) == values(list(artifacts))
    assert sql.ARTIFACTS_IN_STATE.all(task.pk, "discarded") == []
    Run.objects.filter(task=task).update(state=Run.State.DONE)
    assert sql.UNFINISHED_RUN.one(task.pk) is None
    Run.objects.filter(task=task).update(state=Run.State.QUEUED)
    assert sql.UNFINISHED_RUN.one(task.pk).task_id == task.pk


def test_the_engine_s_rows(task):
    run = Run.objects.select_related("message").get(task=task)
    found, operation, now = RUN.one(run.pk)
    assert operation is None
    rows = [found, found.task, found.task.context, found.task.agent, found.task.owner, found.message]
    assert values(rows) == values([run, task, task.context, task.agent, task.owner, run.message])
    assert abs(now - timezone.now()) < datetime.timedelta(minutes=1)
    Task.objects.update(owner=None)
    assert RUN.one(run.pk)[0].task.owner is None
    said = Message.objects.filter(task=task, role="user").order_by("index")
    assert values(LATER_MESSAGE.one(task.pk, 0)) == values(said.first())
    assert LATER_MESSAGE.one(task.pk, said.last().index) is None
    child = Task.objects.exclude(pk=task.pk).get()
    assert SUSPENSION_BY_CHILD.one(child.pk) is None
    suspension = baker.make(Suspension, task=task, child=child)
    assert values(SUSPENSION_BY_CHILD.one(child.pk)) == values(suspension)


def test_callers_and_agents_are_found_together(ada, echo):
    key, _ = ApiKey.issue(ada, "a key", scopes=["tasks:read"])
    key = ApiKey.objects.get(pk=key.pk)
    ada = User.objects.get(pk=ada.pk)
    session = Session.objects.create(session_key="k", session_data="", expire_date=timezone.now())
    agent = Agent.objects.get(pk=echo.pk)
    found = KEY_BY_PREFIX.one(key.prefix)
    assert values([found, found.user]) == values([key, ada])
    assert values(AGENT_BY_SLUG.one("echo")) == values(agent)
    assert AGENT_BY_SLUG.one("none") is None
    for prefix, slug in ((key.prefix, "echo"), ("none", "echo"), (key.prefix, "none"), ("none", "none")):
        there = [key if prefix == key.prefix else None, agent if slug == "echo" else None]
        assert values(KEY_AND_AGENT.one(prefix, slug)) == values(there)
    found = USER_SESSION_AND_AGENT.one(ada.pk, "k", "echo")
    assert values(found) == values([ada, session, agent])
    assert values(found[0].personal_workspace) == values(Workspace.objects.get(personal_of=ada))
    assert USER_SESSION_AND_AGENT.one(0, "none", "none") == (None, None, None)


def test_the_rows_of_plans(task):
    other = Task.objects.exclude(pk=task.pk).get()
    run = PlanRun.objects.get(pk=baker.make(PlanRun, task=task, version__agent=task.agent).pk)
    steps = [
        baker.make(Step, run=run, key="a", item=number, state=state, task=child, consulted=consulted)
        for number, (state, child, consulted) in enumerate(
            [("ended", task, None), ("ended", None, other), ("waiting", None, None), ("waiting", None, None)]
        )
    ]
    steps = list(Step.objects.select_related("task", "consulted").filter(pk__in=[s.pk for s in steps]).order_by("item"))
    with write_transaction():
        found, now = plans.LOCKED_RUN.one(run.pk)
    rows = [found, found.task, found.task.owner, found.task.agent]
    assert values(rows) == values([run, Task.objects.get(pk=task.pk), task.owner, task.agent])
    assert abs(now - timezone.now()) < datetime.timedelta(minutes=1)
    ended = plans.ENDED_STEPS.all(run.pk)
    assert values([(one, one.task, one.consulted) for one in ended]) == values(
        [(one, one.task, one.consulted) for one in steps[:2]]
    )
    assert values(plans.WAITING_STEPS.all(run.pk, "a", 1)) == values([steps[2]])
    of_key = plans.STEPS_OF_KEY.all(run.pk, "a")
    assert values([(one, one.task) for one in of_key]) == values([(one, one.task) for one in steps])
    assert {one.pk for one in plans.STEPS_OF_TASK.all(other.pk, other.pk)} == {steps[1].pk}
    assert values(plans.RUNNING_PLAN.one(run.pk)) == values(run)
    PlanRun.objects.update(finished_at=timezone.now())
    assert plans.RUNNING_PLAN.one(run.pk) is None
