"""A run's credentials appear nowhere in its output."""

import base64
import logging

import pytest

import db
from agentkit import Chunk, Completed, Credential
from apps.engine.handlers import MAX_LINE_LENGTH, TurnOutput
from apps.engine.output import REDACTED, Redaction
from apps.engine.send import send
from apps.features.credentials.models import Credential as Kept
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Message, Task
from tests.engine.delegating import done
from tests.working import carry_out, state_of

SECRET = "k-5f1d2a90-secret"


@pytest.fixture
def redact():
    redaction = Redaction()
    redaction.learn(Credential("calendar", "api_key", SECRET))
    return redaction


def test_without_a_secret_everything_stays_as_it_is():
    value = {"text": [SECRET]}
    assert Redaction()(value) is value
    assert Redaction().held_back(SECRET) == 0


def test_it_is_replaced_in_every_text_of_a_value_an_outcome_and_an_emission(redact):
    said = {"a": [f"x{SECRET}y", 7, None, True], SECRET: {"b": SECRET}}
    assert redact(said) == {"a": [f"x{REDACTED}y", 7, None, True], REDACTED: {"b": REDACTED}}
    assert redact(Completed([{"text": SECRET}])) == Completed([{"text": REDACTED}], [])
    raw = base64.b64encode(f"key={SECRET}".encode()).decode()
    [part] = redact(Chunk("id", "name", "", [{"raw": raw}], False, True)).parts
    assert base64.b64decode(part["raw"]).decode() == f"key={REDACTED}"


def test_a_name_and_password_are_replaced_as_a_header_has_them(redact):
    basic = Credential("mail", "basic", "open sesame", "ali")
    redact.learn(basic)
    assert redact(["open sesame", basic.authorization, "ali"]) == [REDACTED, f"Basic {REDACTED}", "ali"]


def test_of_two_secrets_the_longer_one_is_replaced_whole_and_one_that_might_be_any_word_is_let_be(redact):
    redact.learn(Credential("mail", "bearer", f"{SECRET}-and-more"))
    assert redact(f"{SECRET}-and-more {SECRET}") == f"{REDACTED} {REDACTED}"
    redact.learn(Credential("door", "api_key", "open"))
    assert redact("open the door") == "open the door"


def test_what_may_be_the_beginning_of_a_secret_waits(redact):
    held = {"": 0, "nothing": 0, "see k": 1, f"see {SECRET[:-1]}": len(SECRET) - 1, SECRET: 0}
    assert {text: redact.held_back(text) for text in held} == held


async def calendar_of(ada, agent):
    calendar = await agent("Calendar", keep_thoughts=True)
    given = Kept(agent=calendar, user=ada, service="calendar", auth_type="api_key", secret=SECRET)
    await given.asave()
    return calendar


async def sent_to_a_calendar(ada, agent, said, text):
    calendar = await calendar_of(ada, agent)
    sent = await send(ada.principal, calendar, said(text))
    await carry_out(await Run.objects.values_list("pk", flat=True).aget(task=sent.task))
    return sent


def everything():
    return str([list(model.objects.values()) for model in (Event, Run, Artifact, Context, Task)])


async def assert_nobody_was_told(sent, caplog):
    kept = await db.run(everything)
    assert SECRET not in kept
    assert base64.b64encode(SECRET.encode()).decode() not in kept
    assert SECRET not in caplog.text
    assert SECRET[:6] not in kept, "nor in pieces"
    assert await db.run(projection.differences, sent.context) == []


@pytest.mark.django_db(transaction=True)
async def test_who_leaks_it_tells_nobody_and_what_surrounds_it_is_said_as_it_was(ada, agent, said, caplog):
    caplog.set_level(logging.DEBUG)
    sent = await sent_to_a_calendar(ada, agent, said, "leak")
    assert await db.run(state_of, sent.task) == "completed"
    texts = {row.name: row.parts[0] async for row in Artifact.objects.all()}
    assert texts["answer"]["text"] == f"tokens {REDACTED} and more"
    assert texts["log"]["text"] == f"opened with {REDACTED}"
    assert base64.b64decode(texts["file"]["raw"]).decode() == REDACTED
    assert texts["data"]["data"] == {"key": REDACTED}
    await assert_nobody_was_told(sent, caplog)


@pytest.mark.django_db(transaction=True)
async def test_what_it_remembers_asks_and_shows_is_without_it(ada, agent, said, caplog):
    caplog.set_level(logging.DEBUG)
    await assert_nobody_was_told(await sent_to_a_calendar(ada, agent, said, "ask"), caplog)
    run = await Run.objects.aget()
    assert run.memory == {"secret": {REDACTED: [REDACTED]}}
    assert (await Context.objects.aget()).memory == {"secret": REDACTED}
    await Kept.objects.all().adelete()
    await assert_nobody_was_told(await sent_to_a_calendar(ada, agent, said, "show"), caplog)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("text", ["raise", "fail"])
async def test_how_it_fails_is_without_it_and_operators_still_see_why(ada, agent, said, caplog, text):
    caplog.set_level(logging.DEBUG)
    await assert_nobody_was_told(await sent_to_a_calendar(ada, agent, said, text), caplog)
    error = (await Run.objects.aget()).error
    if text == "raise":
        assert error["message"] == f"RuntimeError: {REDACTED} is refused"
        assert "in on_request" in error["traceback"]
        assert any("in on_request" in getattr(record, "exception", "") for record in caplog.records)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker", "cast")
async def test_what_it_tells_another_agent_is_without_it(ada, agent, said):
    await done(ada.principal, await calendar_of(ada, agent), said("pass on"))
    child = await Message.objects.select_related("task").aget(role="user", task__parent__isnull=False)
    assert child.parts == [{"text": REDACTED}, {"data": {"key": REDACTED}}]
    assert SECRET not in await db.run(everything)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("worker")
async def test_what_it_prints_is_logged_without_it(ada, agent, said, caplog):
    caplog.set_level(logging.INFO)
    await done(ada.principal, await calendar_of(ada, agent), said("print"))
    assert f"printed: {REDACTED}" in [record.getMessage() for record in caplog.records]
    assert SECRET not in caplog.text


def test_a_secret_at_the_place_where_a_printed_line_is_cut_is_not_logged_in_part(redact, caplog):
    printed = TurnOutput(redact)
    with caplog.at_level("INFO", "parley.agents"):
        printed.write("x" * (MAX_LINE_LENGTH - 5) + SECRET)
        printed.write("\n")
    (line,) = [record.getMessage() for record in caplog.records]
    assert SECRET[:5] not in line
