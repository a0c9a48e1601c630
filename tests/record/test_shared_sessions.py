"""Sessions that their owners share with the workspace: who sees them, who writes in them, and who said what."""

import uuid

import pytest

from agentkit import Completed, InputRequired
from apps.a2a.requests import ListTasksRequest
from apps.a2a.tasks import list_tasks
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.models import Membership
from apps.accounts.permissions import Role
from apps.engine import accept, cancel
from apps.features.forks import branches, editing
from apps.features.forks.forking import fork
from apps.features.queue import messages as queue
from apps.features.queue.models import QueuedMessage
from apps.features.sessions import commands, deletion
from apps.features.sharing import shares
from apps.record import lineage, lookup, task_json
from apps.record.content.composing import compose
from apps.record.errors import ContextNotFound, TaskNotFound, UnsupportedOperation
from apps.record.execution import Run
from apps.record.lookup import NotYourSession, NotYourTask, ReadOnlySession
from apps.record.models import Context, Message, Task
from apps.record.projection import differences
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


def test_its_members_see_what_is_shared_and_nobody_else(talk, ada, bob, colleague):
    assert set(seen(colleague, talk).values()) == {True}
    elsewhere = bob.principal_in(bob.personal_workspace.pk)
    assert set(seen(elsewhere, talk).values()) == {False}, "in his own workspace"
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    assert set(seen(colleague, talk).values()) == {False}
    assert set(seen(ada.principal, talk).values()) == {True}


def test_lists_of_ones_own_have_nothing_of_others(talk, colleague):
    assert not Context.objects.of(colleague).exists()
    assert Context.objects.shared_with(colleague).get() == talk


def test_a_message_says_who_wrote_it_and_its_task_is_theirs(talk, ada, bob, colleague, echo, said):
    sent = write(colleague, echo, talk, said("his"))
    authors = {one.parts[0]["text"]: one.author for one in Message.objects.filter(context=talk, role="user")}
    assert authors == {"hers": ada, "his": bob}
    assert Task.objects.get(pk=sent.task).owner == bob, "so it runs with his credentials and at his cost"
    assert Task.objects.get(pk=sent.task).references == [str(Task.objects.earliest("created_at").pk)]
    assert [task.task_id for task in begin(sent.run).references] == Task.objects.get(pk=sent.task).references
    assert differences(talk.pk) == []


def test_each_sender_has_message_ids_of_their_own(talk, ada, colleague, echo, said):
    message = said("same")
    his, hers = (write(who, echo, talk, message) for who in (colleague, ada.principal))
    assert his.task != hers.task
    assert write(colleague, echo, talk, message).repeated


def test_only_who_began_a_task_can_go_on_with_it(talk, ada, colleague, echo, said):
    sent = write(ada.principal, echo, talk, said("again"))
    end(begin(sent.run), InputRequired("Which?"))
    before = log_of(talk.pk)
    with pytest.raises(NotYourTask):
        accept.accept(colleague, echo, said("this", taskId=str(sent.task)))
    with pytest.raises(NotYourTask):
        cancel.cancel_by_id(colleague, echo, str(sent.task))
    assert log_of(talk.pk) == before
    assert not lookup.waiting_tasks(colleague).exists()


def test_the_owner_may_stop_what_others_began(talk, ada, colleague, echo, said):
    sent = write(colleague, echo, talk, said("his"))
    cancel.cancel_by_id(ada.principal, echo, str(sent.task))
    assert Task.objects.get(pk=sent.task).state == "canceled"


def test_what_a_session_is_called_and_who_sees_it_is_its_owners(talk, colleague, echo, countdown):
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


def test_everybody_may_rate(talk, colleague, echo):
    commands.give_feedback(colleague, echo, str(Task.objects.get().pk), commands.parse_feedback("5", ""))
    assert log_of(talk.pk)[-1][1] == "feedback"


def test_sharing_is_in_the_audit_once_for_each_change(talk, ada):
    commands.share_session(ada.principal, talk.pk, WORKSPACE)
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    entries = AuditEntry.objects.filter(action=AuditAction.SESSION_SHARED).order_by("pk")
    assert [one.details["sharing"] for one in entries] == [WORKSPACE, PRIVATE]


def test_a_name_for_a_context_is_its_owners_alone(ada, colleague, echo, said):
    hers = accept.accept(ada.principal, echo, said(contextId="main"))
    commands.share_session(ada.principal, hers.context, WORKSPACE)
    his = accept.accept(colleague, echo, said(contextId="main"))
    assert his.context != hers.context


def test_a_fork_belongs_to_who_made_it_and_is_private(talk, ada, bob, colleague, echo, said):
    made = fork(colleague, talk.pk, talk.last_event, reason="fork", key="one")
    assert (made.owner, made.is_shared) == (bob, False)
    assert fork(colleague, talk.pk, talk.last_event, reason="fork", key="one") == made
    assert fork(ada.principal, talk.pk, talk.last_event, reason="fork", key="one") != made
    end(begin(write(colleague, echo, made, said("his")).run), Completed("to his"))
    write(ada.principal, echo, talk, said("more"))
    assert branches.branch_points(ada.principal, talk) == []
    assert made not in [node.context for node in branches.tree(ada.principal, talk.pk).nodes]
    assert made in [node.context for node in branches.tree(colleague, talk.pk).nodes]
    deletion.delete_session(ada.principal, talk.pk)
    authors = [one.author for one in lineage.messages(made).filter(role="user").order_by("index")]
    assert authors == [ada, bob], "though the beginning now belongs to the fork"
    assert differences(made.pk) == []


def test_a_fork_of_what_is_private_again_stays(talk, ada, colleague, echo, said):
    made = fork(colleague, talk.pk, talk.last_event, reason="fork")
    commands.share_session(ada.principal, talk.pk, PRIVATE)
    assert [node.context for node in branches.tree(colleague, made.pk).nodes] == [made]
    assert lineage.messages(made).count() == 2


def test_one_edits_ones_own_messages(talk, ada, colleague, echo, said):
    hers = Message.objects.get(context=talk, role="user")
    his = Message.objects.get(task=write(colleague, echo, talk, said("his")).task)
    for who, other in ((colleague, hers), (ada.principal, his)):
        with pytest.raises(UnsupportedOperation):
            editing.save(who, talk.pk, other.pk, [{"text": "x"}], key=str(uuid.uuid4()))
    before = log_of(talk.pk)
    saved = editing.save(colleague, talk.pk, his.pk, [{"text": "x"}], key=str(uuid.uuid4()))
    assert saved.message.author == saved.message.context.owner == his.author
    assert log_of(talk.pk) == before, "the fork is his secret, and cancels nothing here"


def test_a_run_has_the_credentials_of_its_sender(talk, bob, colleague, echo, said):
    sent = write(colleague, echo, talk, said("his"))
    assert begin(sent.run).task.owner == bob
    assert Run.objects.get(pk=sent.run).message.author == bob


def test_who_is_no_member_any_more_sees_nothing(talk, ada, bob, colleague, echo, said):
    write(colleague, echo, talk, said("his"))
    Membership.objects.filter(user=bob, workspace=ada.personal_workspace).delete()
    for gone in (signed_in(bob).principal, bob.principal_in(ada.personal_workspace.pk)):
        assert set(seen(gone, talk).values()) == {False}


def test_a_viewer_reads_and_writes_nothing(talk, ada, bob, colleague, echo, said):
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


def test_a_queued_message_is_its_writers(talk, ada, bob, colleague):
    key = str(uuid.uuid4())
    queue.enqueue(colleague, talk, compose([{"text": "his"}], key=key))
    row = QueuedMessage.objects.get()
    with pytest.raises(queue.QueuedNotFound):
        queue.remove(ada.principal, talk, row.pk)
    claimed = queue.claim_next(talk.pk)
    assert (claimed.principal.user_id, claimed.message["contextId"]) == (bob.pk, str(talk.pk))
