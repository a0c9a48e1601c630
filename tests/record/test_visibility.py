"""Callers see their own objects; others' are not found."""

import uuid
from itertools import product

import pytest
from django.utils import timezone

from apps.accounts.permissions import Role
from apps.accounts.principals import ANONYMOUS, Principal
from apps.engine import accept, cancel
from apps.record import lookup, task_json
from apps.record.errors import TaskNotFound
from apps.record.models import Context, Message, Task
from tests.working import log_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said(contextId="talk"))


def test_contexts_and_tasks_are_shown_to_their_owner_alone(sent, ada, bob, echo, said):
    for model, key in ((Context, sent.context), (Task, sent.task)):
        assert model.objects.visible_to(ada.principal).get().pk == key
        assert not model.objects.visible_to(bob.principal).exists()
        assert not model.objects.visible_to(ANONYMOUS).exists()
    accept.accept(ANONYMOUS, echo, said())
    assert not Task.objects.visible_to(bob.principal).exists(), "what nobody owns is nobody's"
    assert not Context.objects.visible_to(bob.principal).exists()


def test_somebody_elses_task_is_not_found_by_any_door(sent, bob, echo, said):
    before = log_of(sent.context)
    for door in (
        lambda who: lookup.find_agent_task(who, echo, str(sent.task)),
        lambda who: cancel.cancel_by_id(who, echo, str(sent.task)),
        lambda who: accept.accept(who, echo, said(taskId=str(sent.task))),
    ):
        for stranger in (bob.principal, ANONYMOUS):
            with pytest.raises(TaskNotFound):
                door(stranger)
    assert log_of(sent.context) == before


def test_what_does_not_exist_is_refused_in_the_same_words(sent, ada, bob, echo, countdown):
    with pytest.raises(TaskNotFound) as foreign:
        lookup.find_agent_task(bob.principal, echo, str(sent.task))
    for agent, task_id in [(countdown, str(sent.task)), *((echo, one) for one in ("", "no", str(uuid.UUID(int=1))))]:
        with pytest.raises(TaskNotFound) as missing:
            lookup.find_agent_task(ada.principal, agent, task_id)
        assert str(missing.value) == str(foreign.value), task_id


def test_a_context_id_of_somebody_else_is_a_new_context_of_ones_own(sent, bob, echo, said):
    his = accept.accept(bob.principal, echo, said(contextId="talk"))
    assert his.context != sent.context
    assert Message.objects.filter(context=sent.context).count() == 1


def test_references_to_somebody_elses_tasks_are_left_out(sent, bob, echo, said):
    his = accept.accept(bob.principal, echo, said(referenceTaskIds=[str(sent.task)]))
    assert Task.objects.get(pk=his.task).references == []


@pytest.mark.services("SQL by hand")
def test_every_way_to_see_a_session_agrees(sent, ada, bob, echo, countdown):
    """Each caller sees the same sessions and tasks by queryset, by row, by hand-written SQL and by finder."""
    first = Task.objects.get(pk=sent.task)
    homes = [one.personal_workspace for one in (ada, bob)]
    kinds = product([ada, bob, None], homes, [False, True], [echo, countdown], [None, timezone.now()])
    rows = []
    for number, (owner, home, is_shared, agent, deleted) in enumerate(kinds):
        about = {"owner": owner, "workspace": home, "agent": agent}
        said = {"context_id": f"talk {number}", "is_shared": is_shared, "deleted_at": deleted}
        context = Context.objects.create(**about, **said, created_at=first.created_at, updated_at=first.created_at)
        dates = {"created_at": first.created_at, "status_at": first.created_at}
        task = Task.objects.create(**about, context=context, state="working", first_event=1, status_event=1, **dates)
        rows.append((context, task))
    reaches = [None, frozenset({echo.slug}), frozenset()]
    cast = [Principal(agents=agents) for agents in reaches]
    for person, home, role, agents in product([ada, bob], homes, [None, *Role], reaches):
        cast.append(Principal(person.pk, home.pk, role=role, agents=agents, is_staff=agents is None))
    made, counts = [context.pk for context, _ in rows], set()
    for who in cast:
        seen = {context for context, _ in rows if context.deleted_at is None and context.is_seen_by(who)}
        seen = {context for context in seen if who.may_use(context.agent.slug)}
        counts.add(len(seen))
        known = Context.objects.filter(pk__in=made)
        assert set(known.visible_to(who)) == seen, who
        assert set(known.of(who)) | set(known.shared_with(who)) == seen, who
        assert {context for context, _ in rows if Context.objects.find_or_none(who, str(context.pk))} == seen, who
        named = {lookup.context_of(who, context.name_for(who)) for context, _ in rows}
        reached = {one for one in named if one and who.may_use(one.agent.slug)}
        assert reached == (seen if who.is_known else set()), who
        tasks = {task for _, task in rows if who.may_use(task.agent.slug) and task.is_seen_by(who)}
        assert set(Task.objects.visible_to(who).exclude(pk=first.pk)) == tasks, who
        texts = {task for _, task in rows if who.may_use(task.agent.slug) and task_json.find(task.pk).is_seen_by(who)}
        assert texts == tasks, who
    assert len(counts) > 3
