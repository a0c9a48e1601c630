"""A task asks for a credential by link and continues once; only its agent sees it."""

import asyncio
import datetime
import re

import pytest
from django.utils import timezone

import db as database
from agentkit import AuthRequired, Completed
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.principals import ANONYMOUS
from apps.agents.registration import register_hosted
from apps.engine import accept, cancel
from apps.engine.management import terminal
from apps.engine.send import send
from apps.features.credentials import lending, requests
from apps.features.credentials.models import Credential, CredentialRequest
from apps.features.credentials.requests import (
    GivenCredential,
    LinkClosed,
    RequestStatus,
    decline,
    give,
    may_answer,
    renew,
    request_status,
)
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.errors import CredentialRequired
from apps.record.execution import Run
from apps.record.models import Event, Task
from apps.record.runs import LeaseLost
from tests.engine.agents import Calendar
from tests.engine.delegating import done, until, words
from tests.working import begin, carry_out, end, let_the_lease_run_out, state_of

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "k-5f1d2a90-secret"
LINK = re.compile(r"http://\S+/credentials/(\S{43})\b")


@pytest.fixture
async def calendar(agent):
    return await agent("Calendar", access="public")


@pytest.fixture(autouse=True)
def published(monkeypatch):
    runs = []
    monkeypatch.setattr(requests, "publish", runs.append)
    return runs


async def ask(principal, agent, said, text="open", **more):
    sent = await send(principal, agent, said(text, **more))
    await carry_out(await Run.objects.values_list("pk", flat=True).aget(task=sent.task, turn=1))
    task = await Task.objects.select_related("context").aget(pk=sent.task)
    assert task.state == "auth-required"
    return task


def token_of(task):
    return LINK.search(task.status_message["parts"][-1]["text"])[1]


def request_of(task):
    return requests.find_request(token_of(task))


async def test_the_status_says_what_is_wanted_and_where_it_is_given_for_people_and_for_programs(ada, calendar, said):
    task = await ask(ada.principal, calendar, said)
    message = task.status_message
    assert message["parts"][0] == {"text": "I need your key."}
    assert message["metadata"]["url"].endswith(f"/credentials/{token_of(task)}")
    assert message["metadata"]["url"] in message["parts"][1]["text"]
    assert message["metadata"] | {"url": "", "expires": ""} == {
        "service": "calendar", "auth_type": "api_key", "url": "", "expires": "", "agent": "calendar",
    }  # fmt: skip
    ends = datetime.datetime.fromisoformat(message["metadata"]["expires"]) - timezone.now()
    assert datetime.timedelta(minutes=59) < ends < datetime.timedelta(minutes=60)
    assert task.slot == {"name": "credential", "service": "calendar"}
    row = await CredentialRequest.objects.values().aget()
    assert token_of(task) not in str(row), "of the token only the digest is kept"
    assert await database.run(requests.find_request, token_of(task))
    assert await database.run(requests.find_request, row["digest"]) is None
    assert await database.run(projection.differences, task.context_id) == []


async def test_what_is_given_is_kept_encrypted_and_the_task_goes_on_by_itself(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    await database.run(lambda: give(request_of(task), GivenCredential(SECRET), ada))
    [run] = published
    await carry_out(run)
    assert Calendar.lent.secret == SECRET
    assert await database.run(state_of, task.pk) == "completed"
    kept = await Credential.objects.aget()
    assert (kept.agent_id, kept.user_id, kept.task_id, kept.service) == (calendar.pk, ada.pk, None, "calendar")
    assert (kept.given_by_id, kept.auth_type) == (ada.pk, "api_key")
    assert await database.run(projection.differences, task.context_id) == []
    async for event in Event.objects.filter(context=task.context_id):
        assert SECRET not in str(event.payload)


async def test_a_sync_handler_is_lent_it_too(ada, agent, said, published):
    in_a_thread = await agent("CalendarInAThread")
    task = await ask(ada.principal, in_a_thread, said)
    assert task.status_message["metadata"]["auth_type"] == "basic"
    await database.run(lambda: give(request_of(task), GivenCredential(SECRET, "ada"), ada))
    await carry_out(published[0])
    assert (await Task.objects.aget(pk=task.pk)).status_message["parts"] == [{"text": "opened by ada"}]


async def test_its_use_is_noted_without_the_secret(ada, calendar, said, published, caplog):
    caplog.set_level("INFO", "parley.audit")
    task = await ask(ada.principal, calendar, said)
    await database.run(lambda: give(request_of(task), GivenCredential(SECRET), ada))
    await carry_out(published[0])
    run, kept = await Run.objects.aget(pk=published[0]), await Credential.objects.aget()
    assert kept.last_used_at is not None
    assert [note["note"] for note in run.notes] == [f"Was lent credential {kept.pk}, for calendar."]
    lines = [record.getMessage() for record in caplog.records if record.name == "parley.audit"]
    assert [line.partition(":")[0] for line in lines] == [
        f"credential request {(await CredentialRequest.objects.aget()).pk} given", f"credential {kept.pk} lent",
    ]  # fmt: skip
    assert str(run.pk) in lines[1]
    assert SECRET not in caplog.text
    entries = [one async for one in AuditEntry.objects.filter(group="credential").order_by("number")]
    assert [(one.action, one.object_label, one.actor_name) for one in entries] == [
        (AuditAction.CREDENTIAL_STORED, "calendar", ada.email), (AuditAction.CREDENTIAL_LENT, "calendar", "Parley"),
    ]  # fmt: skip
    assert not [one for one in entries if SECRET in str(one.__dict__)]


async def test_later_tasks_of_the_same_person_at_the_same_agent_need_not_ask_and_no_others(
    ada, bob, calendar, said, published
):
    task = await ask(ada.principal, calendar, said)
    await database.run(lambda: give(request_of(task), GivenCredential(SECRET), ada))
    sent = await send(ada.principal, calendar, said())
    await carry_out(await Run.objects.values_list("pk", flat=True).aget(task=sent.task))
    assert await database.run(state_of, sent.task) == "completed"
    await ask(bob.principal, calendar, said)
    await ask(ada.principal, await database.run(register_hosted, "other", "tests.engine.agents:Calendar"), said)
    assert Calendar.lent is None


@pytest.mark.services("the database decides who is first")
async def test_eight_people_at_one_link_give_one_turn(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    asked = await database.run(request_of, task)
    given = [database.run(give, asked, GivenCredential(f"{SECRET}-{n}"), ada) for n in range(8)]
    went = await asyncio.gather(*given, return_exceptions=True)
    assert [type(error) for error in went].count(LinkClosed) == 7
    assert len(published) == 1
    assert await Run.objects.filter(task=task.pk, turn=2).acount() == 1
    winner = next(number for number, error in enumerate(went) if error is None)
    assert (await Credential.objects.aget()).secret == f"{SECRET}-{winner}"
    assert await database.run(projection.differences, task.context_id) == []


async def test_a_task_that_went_on_without_a_credential_asks_again(ada, calendar, said, monkeypatch):
    """The state grants nothing: however the task continued, it needs the credential."""
    runs = []
    monkeypatch.setattr(accept, "publish", runs.append)
    task = await ask(ada.principal, calendar, said)
    assert await database.run(accept.resume, task.pk, because="somebody said so")
    await carry_out(runs[0])
    again = await Task.objects.aget(pk=task.pk)
    assert again.state == "auth-required"
    assert token_of(again) != token_of(task)
    assert await database.run(lambda: request_status(request_of(task))) is RequestStatus.VOID
    assert await database.run(lambda: request_status(request_of(again))) is RequestStatus.OPEN


async def test_one_that_was_declined_ends_the_task_with_a_reason(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    asked = await database.run(request_of, task)
    await database.run(decline, asked, ada)
    ended = await Task.objects.aget(pk=task.pk)
    assert (ended.state, ended.status_message["parts"]) == (
        "failed", [{"text": "The credential for calendar was declined."}],
    )  # fmt: skip
    assert await database.run(lambda: request_status(request_of(task))) is RequestStatus.DECLINED
    for answer in (lambda: decline(asked, ada), lambda: give(asked, GivenCredential(SECRET), ada)):
        with pytest.raises(LinkClosed):
            await database.run(answer)
    assert published == []
    assert not await Credential.objects.aexists()
    assert await database.run(projection.differences, task.context_id) == []


async def test_a_link_of_a_task_that_was_canceled_or_of_a_cleared_conversation_is_void(ada, calendar, said):
    task = await ask(ada.principal, calendar, said, contextId="talk")
    asked = await database.run(request_of, task)
    await database.run(cancel.cancel_by_id, ada.principal, calendar, str(task.pk))
    with pytest.raises(LinkClosed):
        await database.run(give, asked, GivenCredential(SECRET), ada)
    other = await ask(ada.principal, calendar, said, contextId="talk")
    asked = await database.run(request_of, other)
    await database.run(deletion.delete_context, ada.principal, calendar, "talk")
    assert await database.run(requests.find_request, token_of(other)) is None
    with pytest.raises(LinkClosed):
        await database.run(give, asked, GivenCredential(SECRET), ada)
    assert not await Credential.objects.aexists()


async def test_a_link_that_is_too_old_gives_nothing_but_a_new_one(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    asked = await database.run(request_of, task)
    with pytest.raises(LinkClosed):
        await database.run(renew, asked)
    await CredentialRequest.objects.aupdate(expires_at=timezone.now())
    with pytest.raises(LinkClosed):
        await database.run(give, asked, GivenCredential(SECRET), ada)
    new = await database.run(requests.find_request, await database.run(renew, asked))
    newest = await database.run(requests.find_request, await database.run(renew, asked))
    assert [await database.run(request_status, one) for one in (asked, new, newest)] == [
        RequestStatus.EXPIRED, RequestStatus.EXPIRED, RequestStatus.OPEN,
    ]  # fmt: skip
    with pytest.raises(LinkClosed):
        await database.run(give, new, GivenCredential(SECRET), ada)
    await database.run(give, newest, GivenCredential(SECRET), ada)
    assert len(published) == 1
    with pytest.raises(LinkClosed):
        await database.run(renew, asked)


async def test_a_message_is_no_way_to_send_one(ada, calendar, said):
    task = await ask(ada.principal, calendar, said)
    before = await Event.objects.filter(context=task.context_id).acount()
    with pytest.raises(CredentialRequired, match=token_of(task)):
        await send(ada.principal, calendar, said(f"it is {SECRET}", taskId=str(task.pk)))
    assert await Event.objects.filter(context=task.context_id).acount() == before


async def test_an_agent_that_asks_by_itself_takes_messages(ada, agent, said):
    elsewhere = await agent("Elsewhere")
    task = await ask(ada.principal, elsewhere, said)
    assert task.status_message["parts"] == [{"text": "Sign in at calendar.invalid, then write to me."}]
    assert not await CredentialRequest.objects.aexists()
    await send(ada.principal, elsewhere, said("done", taskId=str(task.pk)))
    await carry_out(await Run.objects.values_list("pk", flat=True).aget(task=task.pk, turn=2))
    assert await database.run(state_of, task.pk) == "completed"


async def test_who_may_answer_is_the_owner_or_an_operator_and_what_is_given_is_the_owners(
    ada, bob, calendar, said, published, django_user_model
):
    task = await ask(ada.principal, calendar, said)
    asked = await database.run(request_of, task)
    operator = await database.run(lambda: django_user_model.objects.create_superuser("root@example.org", "hush hush"))
    idle = await database.run(lambda: django_user_model.objects.create_user("idle@example.org", is_staff=True))
    answers = [await database.run(may_answer, asked, person) for person in (ada, operator, bob, idle, None)]
    assert answers == [True, True, False, False, False]
    await database.run(give, asked, GivenCredential(SECRET), operator)
    kept = await Credential.objects.aget()
    assert (kept.user_id, kept.given_by_id) == (ada.pk, operator.pk)


async def test_what_a_task_of_nobodys_was_given_is_its_own_and_goes_with_its_end(calendar, said, published):
    task = await ask(ANONYMOUS, calendar, said)
    assert await database.run(lambda: may_answer(request_of(task), None))
    await database.run(lambda: give(request_of(task), GivenCredential(SECRET), None))
    await ask(ANONYMOUS, calendar, said)
    assert Calendar.lent is None, "what one was given is not another's"
    await database.run(requests.erase_task_credentials)
    assert await Credential.objects.acount() == 1
    await carry_out(published[0])
    assert Calendar.lent.secret == SECRET
    assert await database.run(state_of, task.pk) == "completed"
    await database.run(requests.erase_task_credentials)
    assert not await Credential.objects.aexists()


def test_a_run_that_is_no_longer_held_is_lent_nothing(ada, said, db):
    calendar = register_hosted("calendar", "tests.engine.agents:Calendar", retry_safe=True)
    sent = accept.accept(ada.principal, calendar, said())
    Credential.objects.create(agent=calendar, user=ada, service="calendar", auth_type="bearer", secret=SECRET)
    held = begin(sent.run)
    assert lending._find(held, "calendar").secret == SECRET
    assert lending._find(held, "mail") is None
    let_the_lease_run_out(held.lease)
    with pytest.raises(LeaseLost):
        lending._find(held, "calendar")
    newer = begin(sent.run, "another")
    with pytest.raises(LeaseLost):
        lending._find(held, "calendar")
    end(newer, Completed("done"))
    with pytest.raises(LeaseLost):
        lending._find(newer, "calendar")


async def test_what_was_revoked_is_erased_and_asked_for_anew(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    await database.run(lambda: give(request_of(task), GivenCredential(SECRET), ada))
    await database.run(lambda: Credential.objects.get().revoke())
    revoked = await Credential.objects.aget()
    assert (revoked.secret, revoked.username) == ("", "")
    await carry_out(published[0])
    again = await Task.objects.aget(pk=task.pk)
    assert again.state == "auth-required"
    await database.run(lambda: give(request_of(again), GivenCredential("another-secret"), ada))
    assert await Credential.objects.usable().acount() == 1


async def test_a_question_that_cannot_be_asked_fails_the_task_and_tells_operators_why(ada, calendar, said, monkeypatch):
    for unfit in ({"auth_type": "oauth"}, {"service": "two\nlines"}, {"service": "x" * 101}):

        async def on_request(self, task, unfit=unfit):
            return AuthRequired("Your key?", **{"service": "calendar", **unfit})

        monkeypatch.setattr(Calendar, "on_request", on_request)
        sent = await send(ada.principal, calendar, said())
        await carry_out(await Run.objects.values_list("pk", flat=True).aget(task=sent.task))
        assert await database.run(state_of, sent.task) == "failed"
        assert (await Run.objects.aget(task=sent.task)).error["message"].startswith("ValueError: ")


@pytest.mark.usefixtures("worker")
async def test_a_child_that_asks_makes_its_parent_ask_by_the_same_link(ada, cast, calendar, said, monkeypatch):
    monkeypatch.undo()
    parent = await done(ada.principal, cast["caller"], said("calendar: open"))
    child = await Task.objects.aget(parent=parent.pk)
    assert (parent.state, child.state) == ("auth-required", "auth-required")
    assert parent.status_message["metadata"] == child.status_message["metadata"] | {"agent": "caller"}
    assert parent.slot["service"] == "calendar"
    assert token_of(parent) == token_of(child)
    with pytest.raises(CredentialRequired, match=token_of(child)):
        await send(ada.principal, cast["caller"], said(SECRET, taskId=str(parent.pk)))
    assert await CredentialRequest.objects.acount() == 1
    await database.run(lambda: give(request_of(parent), GivenCredential(SECRET), ada))
    await until(lambda: state_of(parent.pk) == "completed")
    assert words(await Task.objects.aget(pk=parent.pk)).startswith("The calendar is open.")
    assert (await Credential.objects.aget()).agent_id == calendar.pk
    for task in (parent, child):
        assert await database.run(projection.differences, task.context_id) == []


@pytest.mark.usefixtures("worker")
async def test_who_asks_from_a_terminal_is_shown_the_link_and_then_the_answer(ada, calendar, said, monkeypatch):
    monkeypatch.undo()
    giving = []

    def show(event):
        if event["payload"].get("state") == "auth-required":
            token = LINK.search(str(event["payload"]["message"]["parts"]))[1]
            give_it = lambda: give(requests.find_request(token), GivenCredential(SECRET), ada)  # noqa: E731
            giving.append(asyncio.ensure_future(database.run(give_it)))

    async with asyncio.timeout(20):
        _, task = await terminal.ask(ada.principal, calendar, said(), show)
    assert task.state == "completed"
    assert len(giving) == 1
