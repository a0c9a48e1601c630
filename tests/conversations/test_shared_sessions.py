"""Sessions that their owners share with the workspace: who sees them, who writes in them, and who said what."""

import uuid
from itertools import product

import pytest
from django.utils import timezone

from agentkit import Completed, InputRequired
from apps.a2a.requests import ListTasksRequest
from apps.a2a.tasks import list_tasks
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import Membership
from apps.accounts.permissions import Role
from apps.accounts.principals import ANONYMOUS, Principal
from apps.conversations.forks import branches, editing
from apps.conversations.forks.forking import fork
from apps.conversations.public_links import shares
from apps.conversations.queue import messages as queue
from apps.conversations.queue.models import QueuedMessage
from apps.conversations.sessions import commands, deletion
from apps.engine import accept, cancel
from apps.record import lineage
from apps.record.content.composing import compose
from apps.record.errors import ContextNotFound, TaskNotFound, UnsupportedOperation
from apps.record.execution import Run
from apps.record.models import Context, Message, Task
from apps.record.projection import differences
from apps.record.reading import lookup, task_json
from apps.record.reading.lookup import NotYourSession, NotYourTask, ReadOnlySession
from tests.members import member, signed_in
from tests.working import begin, end, log_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("one query reads two conditions")]


PRIVATE, WORKSPACE = Context.Sharing


@pytest.fixture
def colleague(ada, bob):
    """Bob, as a member of Ada's workspace who works in it."""
    return member(bob, ada)


@pytest.fixture
def talk(ada, echo, said):
    """Ada's shared session, with one finished task."""
    sent = accept.accept(ada.principal, echo, said("hers"))
    end(begin(sent.run), Completed("to hers"))
    return commands.share_session(ada.principal, sent.context, WORKSPACE)


def write(principal, agent, context, message):
    sent = accept.accept(principal, agent, {**message, "contextId": context.name_for(principal)})
    assert sent.context == context.pk
    return sent


def seen(principal, context):
    """What a caller sees of a session, by each way of reading."""
    task = Task.objects.filter(context=context).earliest("created_at")
    return {
        "session": Context.objects.visible_to(principal).filter(pk=context.pk).exists(),
        "by contextId": lookup.context_of(principal, str(context.pk)) is not None,
        "task": Task.objects.visible_to(principal).filter(pk=task.pk).exists(),
        "row": lookup.TASK.one(task.pk).is_seen_by(principal),
        "JSON": task_json.find(task.pk).is_seen_by(principal),
        "front door": str(task.pk) in list_tasks(principal, None, ListTasksRequest()),
    }


def test_members_see_what_is_shared_alone(talk, ada, bob, colleague):
    assert set(seen(colleague, talk).values()) == {True}
    assert not Context.objects.of(colleague).exists()
    assert Context.objects.shared_with(colleague).get() == talk
    elsewhere = bob.principal_in(bob.personal_workspace.pk)
    assert set(seen(elsewhere, talk).values()) == {False}, "in his own workspace"
    commands.share_session(ada.principal, talk.pk, WORKSPACE)  # once again changes nothing
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    assert set(seen(colleague, talk).values()) == {False}
    assert set(seen(ada.principal, talk).values()) == {True}
    entries = AuditEntry.objects.filter(action=AuditAction.SESSION_SHARED).order_by("pk")
    assert [one.details["sharing"] for one in entries] == [WORKSPACE, PRIVATE]
    commands.share_session(ada.principal, talk.pk, WORKSPACE)
    Membership.objects.filter(user=bob, workspace=ada.personal_workspace).delete()
    for gone in (signed_in(bob).principal, bob.principal_in(ada.personal_workspace.pk)):
        assert set(seen(gone, talk).values()) == {False}, "who is no member any more"


def test_each_member_writes_in_their_own_name(talk, ada, bob, colleague, echo, said):
    message = said("his")
    sent = write(colleague, echo, talk, message)
    authors = {one.parts[0]["text"]: one.author for one in Message.objects.filter(context=talk, role="user")}
    assert authors == {"hers": ada, "his": bob}
    assert write(colleague, echo, talk, message).repeated
    assert write(ada.principal, echo, talk, message).task != sent.task, "message ids are each sender's own"
    task = Task.objects.get(pk=sent.task)
    assert task.owner == bob, "so it runs with his credentials and at his cost"
    assert task.references == [str(Task.objects.earliest("created_at").pk)]
    held = begin(sent.run)
    assert (held.task.owner, [one.task_id for one in held.references]) == (bob, task.references)
    assert Run.objects.get(pk=sent.run).message.author == bob
    commands.give_feedback(colleague, echo, task.references[0], commands.parse_feedback("5", ""))
    assert differences(talk.pk) == []
    cancel.cancel_by_id(ada.principal, echo, str(sent.task))
    assert Task.objects.get(pk=sent.task).state == "canceled", "the owner may stop what others began"
    named = accept.accept(ada.principal, echo, said(contextId="main"))
    commands.share_session(ada.principal, named.context, WORKSPACE)
    his = accept.accept(colleague, echo, said(contextId="main"))
    assert his.context != named.context, "a name for a context is its owner's alone"


def test_only_who_began_a_task_continues_it(talk, ada, colleague, echo, said):
    sent = write(ada.principal, echo, talk, said("again"))
    end(begin(sent.run), InputRequired("Which?"))
    before = log_of(talk.pk)
    for act in (
        lambda: accept.accept(colleague, echo, said("this", taskId=str(sent.task))),
        lambda: cancel.cancel_by_id(colleague, echo, str(sent.task)),
        lambda: cancel.CANCEL.perform(colleague, Task.objects.get(pk=sent.task)),
    ):
        with pytest.raises(NotYourTask):
            act()
    assert log_of(talk.pk) == before
    assert not lookup.waiting_tasks(colleague).exists()


def test_owner_alone_manages_the_session(talk, colleague, echo, countdown):
    before = log_of(talk.pk)
    for act in (
        lambda: commands.rename_session(colleague, talk.pk, "mine"),
        lambda: commands.archive_session(colleague, talk.pk),
        lambda: commands.switch_agent(colleague, talk.pk, countdown),
        lambda: commands.share_session(colleague, talk.pk, PRIVATE),
        lambda: deletion.delete_session(colleague, talk.pk),
        lambda: shares.list_shares(colleague, talk.pk),
    ):
        with pytest.raises(NotYourSession):
            act()
    with pytest.raises(ContextNotFound):
        deletion.delete_context(colleague, echo, str(talk.pk))
    task = Task.objects.get()
    with pytest.raises(TaskNotFound):  # so webhooks are its sender's
        lookup.find_agent_task(colleague, echo, str(task.pk))
    assert log_of(talk.pk) == before


def test_fork_is_its_makers_and_private(talk, ada, bob, colleague, echo, said):
    made = fork(colleague, talk.pk, talk.last_event, reason="fork", key="one")
    assert (made.owner, made.is_shared) == (bob, False)
    assert fork(colleague, talk.pk, talk.last_event, reason="fork", key="one") == made
    assert fork(ada.principal, talk.pk, talk.last_event, reason="fork", key="one") != made
    end(begin(write(colleague, echo, made, said("his")).run), Completed("to his"))
    write(ada.principal, echo, talk, said("more"))
    assert branches.branch_points(ada.principal, talk) == []
    assert made not in [node.context for node in branches.tree(ada.principal, talk.pk).nodes]
    assert made in [node.context for node in branches.tree(colleague, talk.pk).nodes]
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    assert [node.context for node in branches.tree(colleague, made.pk).nodes] == [made], "it stays his"
    deletion.delete_session(ada.principal, talk.pk)
    authors = [one.author for one in lineage.messages(made).filter(role="user").order_by("index")]
    assert authors == [ada, bob], "though the beginning now belongs to the fork"
    assert differences(made.pk) == []


def test_members_edit_their_own_messages(talk, ada, colleague, echo, said):
    hers = Message.objects.get(context=talk, role="user")
    his = Message.objects.get(task=write(colleague, echo, talk, said("his")).task)
    for who, other in ((colleague, hers), (ada.principal, his)):
        with pytest.raises(UnsupportedOperation):
            editing.save(who, talk.pk, other.pk, [{"text": "x"}], key=str(uuid.uuid4()))
    before = log_of(talk.pk)
    saved = editing.save(colleague, talk.pk, his.pk, [{"text": "x"}], key=str(uuid.uuid4()))
    assert saved.message.author == saved.message.context.owner == his.author
    assert log_of(talk.pk) == before, "the fork is his secret, and cancels nothing here"


def test_viewers_read_and_write_nothing(talk, ada, bob, colleague, echo, said):
    sent = write(colleague, echo, talk, said("his"))
    end(begin(sent.run), InputRequired("Which?"))
    viewer, before = member(bob, ada, Role.VIEWER), log_of(talk.pk)
    assert set(seen(viewer, talk).values()) == {True}
    for act in (
        lambda: accept.accept(viewer, echo, said(contextId=str(talk.pk))),
        lambda: accept.accept(viewer, echo, said(taskId=str(sent.task))),
        lambda: commands.give_feedback(viewer, echo, str(sent.task), commands.parse_feedback("5", "")),
        lambda: fork(viewer, talk.pk, talk.last_event, reason="fork"),
        lambda: queue.enqueue(viewer, talk, compose([{"text": "x"}])),
    ):
        with pytest.raises(ReadOnlySession):
            act()
    assert log_of(talk.pk) == before


def test_queued_message_is_its_writers(talk, ada, bob, colleague):
    key = str(uuid.uuid4())
    queue.enqueue(colleague, talk, compose([{"text": "his"}], key=key))
    row = QueuedMessage.objects.get()
    with pytest.raises(queue.QueuedNotFound):
        queue.remove(ada.principal, talk, row.pk)
    claimed = queue.claim_next(talk.pk)
    assert (claimed.principal.user_id, claimed.message["contextId"]) == (bob.pk, str(talk.pk))


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said(contextId="talk"))


def test_foreign_task_is_not_found_by_any_door(sent, bob, echo, said):
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


@pytest.mark.services("SQL by hand")
def test_ways_to_see_a_session_agree(sent, ada, bob, echo, countdown):
    """Each caller sees the same sessions and tasks by queryset, by row, by hand-written SQL and by finder."""
    first = Task.objects.get(pk=sent.task)
    homes = [one.personal_workspace for one in (ada, bob)]
    kinds = [*product([ada, bob, None], homes, [False, True], [echo, countdown], [None])]
    kinds += [(*kinds[0][:4], timezone.now())]
    rows = []
    for number, (owner, home, is_shared, agent, deleted) in enumerate(kinds):
        about = {"owner": owner, "workspace": home, "agent": agent}
        said = {"context_id": f"talk {number}", "is_shared": is_shared, "deleted_at": deleted}
        context = Context.objects.create(**about, **said, created_at=first.created_at, updated_at=first.created_at)
        dates = {"created_at": first.created_at, "status_at": first.created_at}
        task = Task.objects.create(**about, context=context, state="working", first_event=1, status_event=1, **dates)
        rows.append((context, task))
    reaches = [None, frozenset({echo.slug})]
    cast = [Principal(agents=agents) for agents in (*reaches, frozenset())]
    for person, home, role, agents in product([ada, bob], homes, [None, Role.VIEWER, Role.OWNER], reaches):
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
