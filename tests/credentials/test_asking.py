"""A task asks for a credential by link and continues once; only its agent sees it, and renewed tokens stay its own."""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import re

import pytest
from django.utils import timezone

from agentkit import Chunk, Completed
from agentkit import Credential as Lent
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.principals import ANONYMOUS
from apps.agents.registration import register_hosted
from apps.conversations.sessions import deletion
from apps.credentials import lending, requests
from apps.credentials.models import Credential, CredentialRequest
from apps.credentials.requests import (
    GivenCredential,
    LinkClosed,
    RequestStatus,
    decline,
    give,
    may_answer,
    request_status,
)
from apps.engine import accept, cancel
from apps.engine.send import send
from apps.engine.turns.handlers import MAX_LINE_LENGTH, TurnOutput
from apps.engine.turns.output import REDACTED, Redaction
from apps.record.errors import CredentialRequired
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Message, Task
from apps.record.runs import LeaseLost
from parley import db
from tests.engine.agents import Calendar
from tests.engine.delegating import carried_on, done, take_turn, task_of, the_record_holds, until, words
from tests.working import begin, end, let_the_lease_run_out

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "k-5f1d2a90-secret"
LINK = re.compile(r"http://\S+/credentials/(\S{43})\b")


@pytest.fixture
async def calendar(agent):
    return await agent("Calendar", access="public", retry_safe=True)


async def ask(principal, agent, said, text="open", **more):
    task = await take_turn(principal, agent, said(text, **more))
    assert task.state == "auth-required"
    return task


def token_of(task):
    return LINK.search(task.status_message["parts"][-1]["text"])[1]


async def request_of(task):
    return await db.run(requests.find_request, token_of(task))


async def given(task, person, *secret):
    """Give the task's agent a credential."""
    await db.run(give, await request_of(task), GivenCredential(*secret or [SECRET]), person)


async def status(task):
    return await db.run(request_status, await request_of(task))


async def test_status_says_what_is_wanted_and_where(ada, calendar, said):
    task = await ask(ada.principal, calendar, said)
    message = task.status_message
    assert message["parts"][0] == {"text": "I need your key."}
    assert message["metadata"]["url"].endswith(f"/credentials/{token_of(task)}")
    assert message["metadata"]["url"] in message["parts"][1]["text"]
    ends = datetime.datetime.fromisoformat(message["metadata"].pop("expires")) - timezone.now()
    assert datetime.timedelta(minutes=59) < ends < datetime.timedelta(minutes=60)
    assert message["metadata"] | {"url": ""} == {
        "service": "calendar", "auth_type": "api_key", "url": "", "agent": "calendar",
    }  # fmt: skip
    assert task.slot == {"name": "credential", "service": "calendar"}
    row = await CredentialRequest.objects.values().aget()
    assert token_of(task) not in str(row), "of the token only the digest is kept"
    assert await request_of(task)
    assert await db.run(requests.find_request, row["digest"]) is None


async def test_given_credential_continues_its_task(ada, calendar, said, published, caplog):
    caplog.set_level("INFO", "parley.audit")
    task = await ask(ada.principal, calendar, said)
    await given(task, ada)
    assert (await carried_on(task.pk)).state == "completed"
    assert Calendar.lent.secret == SECRET
    kept, run = await Credential.objects.aget(), await Run.objects.aget(pk=published[-1])
    assert (kept.agent_id, kept.user_id, kept.task_id, kept.service) == (calendar.pk, ada.pk, None, "calendar")
    assert (kept.given_by_id, kept.auth_type, kept.last_used_at is None) == (ada.pk, "api_key", False)
    assert [note["note"] for note in run.notes] == [f"Was lent credential {kept.pk}, for calendar."]
    lines = [record.getMessage() for record in caplog.records if record.name == "parley.audit"]
    assert [line.partition(":")[0] for line in lines] == [
        f"credential request {(await CredentialRequest.objects.aget()).pk} given",
        f"credential {kept.pk} lent",
    ]
    assert str(run.pk) in lines[1]
    entries = [one async for one in AuditEntry.objects.filter(group="credential").order_by("number")]
    assert [(one.action, one.object_label, one.actor_name) for one in entries] == [
        (AuditAction.CREDENTIAL_STORED, "calendar", ada.email),
        (AuditAction.CREDENTIAL_LENT, "calendar", "Parley"),
    ]
    payloads = [event.payload async for event in Event.objects.filter(context=task.context_id)]
    assert SECRET not in f"{caplog.text}{[one.__dict__ for one in entries]}{payloads}"
    await the_record_holds()


async def test_credential_serves_later_tasks_of_its_owner(ada, bob, calendar, said, published):
    await given(await ask(ada.principal, calendar, said), ada)
    assert (await take_turn(ada.principal, calendar, said())).state == "completed"
    await ask(bob.principal, calendar, said)
    await ask(ada.principal, await db.run(register_hosted, "other", "tests.engine.agents:Calendar"), said)
    assert Calendar.lent is None


@pytest.mark.services("the database decides who is first")
async def test_eight_givers_of_one_link_make_one_turn(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    asked = await request_of(task)
    attempts = [db.run(give, asked, GivenCredential(f"{SECRET}-{n}"), ada) for n in range(8)]
    went = await asyncio.gather(*attempts, return_exceptions=True)
    assert [type(error) for error in went].count(LinkClosed) == 7
    assert await Run.objects.filter(task=task.pk, turn=2).acount() == len(published) == 1
    winner = next(number for number, error in enumerate(went) if error is None)
    assert (await Credential.objects.aget()).secret == f"{SECRET}-{winner}"
    await the_record_holds()


async def test_task_resumed_without_credential_asks_again(ada, calendar, said, published):
    """The state grants nothing: however the task continued, it needs the credential."""
    task = await ask(ada.principal, calendar, said)
    assert await db.run(accept.resume, task.pk, because="somebody said so")
    again = await carried_on(task.pk)
    assert (again.state, token_of(again) != token_of(task)) == ("auth-required", True)
    assert [await status(one) for one in (task, again)] == [RequestStatus.VOID, RequestStatus.OPEN]


async def test_declined_request_fails_its_task(ada, calendar, said, published):
    task = await ask(ada.principal, calendar, said)
    asked = await request_of(task)
    await db.run(decline, asked, ada)
    ended = await task_of(task.pk)
    assert (ended.state, words(ended)) == ("failed", "The credential for calendar was declined.")
    assert await status(task) is RequestStatus.DECLINED
    for answer in (lambda: decline(asked, ada), lambda: give(asked, GivenCredential(SECRET), ada)):
        with pytest.raises(LinkClosed):
            await db.run(answer)
    assert (published, await Credential.objects.acount()) == ([], 0)
    await the_record_holds()


@pytest.mark.parametrize("how", ["canceled", "cleared"])
async def test_link_of_an_ended_task_is_void(ada, calendar, said, how):
    task = await ask(ada.principal, calendar, said, contextId="talk")
    asked = await request_of(task)
    if how == "canceled":
        await db.run(cancel.cancel_by_id, ada.principal, calendar, str(task.pk))
    else:
        await db.run(deletion.delete_context, ada.principal, calendar, "talk")
        assert await request_of(task) is None
    with pytest.raises(LinkClosed):
        await db.run(give, asked, GivenCredential(SECRET), ada)
    assert not await Credential.objects.aexists()


async def test_message_is_no_credential(ada, calendar, said):
    task = await ask(ada.principal, calendar, said)
    before = await Event.objects.acount()
    with pytest.raises(CredentialRequired, match=token_of(task)):
        await send(ada.principal, calendar, said(f"it is {SECRET}", taskId=str(task.pk)))
    assert await Event.objects.acount() == before


async def test_owner_or_operator_gives_for_the_owner(ada, bob, calendar, said, published, django_user_model):
    task = await ask(ada.principal, calendar, said)
    asked = await request_of(task)
    make = django_user_model.objects
    operator = await db.run(lambda: make.create_superuser("root@example.org", "hush hush"))
    idle = await db.run(lambda: make.create_user("idle@example.org", is_staff=True))
    answers = [await db.run(may_answer, asked, person) for person in (ada, operator, bob, idle, None)]
    assert answers == [True, True, False, False, False]
    await given(task, operator)
    kept = await Credential.objects.aget()
    assert (kept.user_id, kept.given_by_id) == (ada.pk, operator.pk)


async def test_anonymous_credential_is_its_tasks_alone(calendar, said, published):
    task = await ask(ANONYMOUS, calendar, said)
    assert await db.run(may_answer, await request_of(task), None)
    await given(task, None)
    await ask(ANONYMOUS, calendar, said)
    assert Calendar.lent is None, "what one was given is not another's"
    await db.run(requests.erase_task_credentials)
    assert await Credential.objects.acount() == 1
    assert (await carried_on(task.pk)).state == "completed"
    assert Calendar.lent.secret == SECRET
    await db.run(requests.erase_task_credentials)
    assert not await Credential.objects.aexists()


def test_lost_run_is_lent_nothing(ada, said, db):
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


async def test_parent_asks_by_the_childs_link(ada, worker, cast, calendar, said):
    parent = await done(ada.principal, cast["caller"], said("calendar: open"))
    child = await Task.objects.aget(parent=parent.pk)
    assert (parent.state, child.state) == ("auth-required", "auth-required")
    assert parent.status_message["metadata"] == child.status_message["metadata"] | {"agent": "caller"}
    assert (parent.slot["service"], token_of(parent)) == ("calendar", token_of(child))
    with pytest.raises(CredentialRequired, match=token_of(child)):
        await send(ada.principal, cast["caller"], said(SECRET, taskId=str(parent.pk)))
    assert await CredentialRequest.objects.acount() == 1
    await given(parent, ada)
    await until(lambda: Task.objects.get(pk=parent.pk).state == "completed")
    assert words(await task_of(parent.pk)).startswith("The calendar is open.")
    assert (await Credential.objects.aget()).agent_id == calendar.pk
    await the_record_holds()


# What an agent says is redacted


@pytest.fixture
def redact():
    redaction = Redaction()
    redaction.learn(Lent("calendar", "api_key", SECRET))
    return redaction


def test_secret_is_replaced_in_every_kind_of_output(redact):
    said = {"a": [f"x{SECRET}y", 7, None, True], SECRET: {"b": SECRET}}
    assert redact(said) == {"a": [f"x{REDACTED}y", 7, None, True], REDACTED: {"b": REDACTED}}
    assert redact(Completed([{"text": SECRET}])) == Completed([{"text": REDACTED}], [])
    raw = base64.b64encode(f"key={SECRET}".encode()).decode()
    [part] = redact(Chunk("id", "name", "", [{"raw": raw}], False, True)).parts
    assert base64.b64decode(part["raw"]).decode() == f"key={REDACTED}"
    assert Redaction()(said) is said, "without a secret nothing changes"


def test_several_secrets_are_replaced_whole(redact):
    basic = Lent("mail", "basic", "open sesame", "ali")
    for one in (basic, Lent("mail", "bearer", f"{SECRET}-and-more"), Lent("door", "api_key", "open")):
        redact.learn(one)
    assert redact(["open sesame", basic.authorization, "ali"]) == [REDACTED, f"Basic {REDACTED}", "ali"]
    assert redact(f"{SECRET}-and-more {SECRET}") == f"{REDACTED} {REDACTED}"
    assert redact("open the door") == "open the door", "it might be any word"


@pytest.fixture
async def leaking(ada, agent):
    leaking = await agent("Calendar", keep_thoughts=True)
    await Credential.objects.acreate(agent=leaking, user=ada, service="calendar", auth_type="api_key", secret=SECRET)
    return leaking


@pytest.fixture
def leaked(ada, leaking, said, caplog):
    """A task whose agent leaks the secret in this way, of which nothing is recorded or logged."""

    async def leak(how):
        caplog.set_level(logging.DEBUG)
        task = await take_turn(ada.principal, leaking, said(how))
        kept = await db.run(everything)
        for secret in (SECRET, base64.b64encode(SECRET.encode()).decode(), SECRET[:6]):
            assert secret not in kept
        assert SECRET not in caplog.text
        return task

    return leak


def everything():
    return str([list(model.objects.values()) for model in (Event, Run, Artifact, Context, Task)])


async def test_leaked_secret_is_told_nobody(leaked):
    assert (await leaked("leak")).state == "completed"
    texts = {row.name: row.parts[0] async for row in Artifact.objects.all()}
    assert texts["answer"]["text"] == f"tokens {REDACTED} and more"
    assert texts["log"]["text"] == f"opened with {REDACTED}"
    assert base64.b64decode(texts["file"]["raw"]).decode() == REDACTED
    assert texts["data"]["data"] == {"key": REDACTED}


async def test_memory_and_questions_are_redacted(leaked):
    await leaked("ask")
    assert (await Run.objects.aget()).memory == {"secret": {REDACTED: [REDACTED]}}
    assert (await Context.objects.aget()).memory == {"secret": REDACTED}
    await leaked("show")


@pytest.mark.parametrize("how", ["raise", "fail"])
async def test_failures_are_redacted_but_explained(leaked, caplog, how):
    await leaked(how)
    error = (await Run.objects.aget()).error
    if how == "raise":
        assert error["message"] == f"RuntimeError: {REDACTED} is refused"
        assert "in on_request" in error["traceback"]
        assert any("in on_request" in getattr(record, "exception", "") for record in caplog.records)


async def test_calls_of_other_agents_are_redacted(ada, worker, cast, leaking, said):
    await done(ada.principal, leaking, said("pass on"))
    child = await Message.objects.aget(role="user", task__parent__isnull=False)
    assert child.parts == [{"text": REDACTED}, {"data": {"key": REDACTED}}]
    assert SECRET not in await db.run(everything)


def test_cut_line_logs_no_part_of_secret(redact, caplog):
    printed = TurnOutput(redact)
    with caplog.at_level("INFO", "parley.agents"):
        printed.write("x" * (MAX_LINE_LENGTH - 5) + SECRET)
        printed.write("\n")
    (line,) = [record.getMessage() for record in caplog.records]
    assert SECRET[:5] not in line
