"""What goes to an agent: stopped, hidden, or asked about first."""

import asyncio
import datetime

import pytest
from django.utils import timezone

from agentkit import Completed, InputRequired, ResponseType, SkillHandler, TaskContext
from apps.engine import accept, send
from apps.engine.turns.guards import NOT_READ
from apps.optional.guardrails.models import Guardrail, RailDecision
from apps.record import projection
from apps.record.content.strict_json import digest_of
from apps.record.execution import Accepted, Run
from apps.record.models import Event, Message, Task
from apps.record.runs import Lease
from parley import db
from tests.working import carry_out, let_the_lease_run_out, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("published")]
MAIL = "Write to joe@example.org today"
HIDDEN = "Write to [e-mail address] today"


class Hearing(SkillHandler):
    """Notes all that it is told."""

    heard: list[str] = []
    retry_safe = True

    async def on_request(self, task: TaskContext):
        self.heard += [one.text for one in task.history if one.role == "user"]
        self.heard.append(task.message.text)
        return Completed("done")


class Asking(SkillHandler):
    async def on_request(self, task: TaskContext):
        return InputRequired("To whom?", slot="whom")

    async def on_input_received(self, task: TaskContext):
        return Completed(f"heard {task.message.text}")


class HearingAll(SkillHandler):
    """Notes metadata, and what agents said."""

    heard: list[str] = []

    async def on_request(self, task: TaskContext):
        self.heard.append(str([one.text for one in task.history]))
        self.heard.append(str(task.message.metadata))
        return Completed(MAIL)


class Reading(SkillHandler):
    """Answers with what it reads at its step."""

    steerable = True
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def on_request(self, task: TaskContext):
        self.begun.set()
        await self.go_on.wait()
        return Completed("; ".join(one.text for one in await task.inbox.unread()) or "nothing")


class Saying(SkillHandler):
    """Answers with a message."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext):
        return Completed(f"heard {task.message.text}")


@pytest.fixture
async def hearing(agent):
    Hearing.heard = []
    return await agent(Hearing)


async def sent_to(ada, agent, message):
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    return receipt


async def answered(ada, agent, said, receipt, answer):
    message = said(answer, taskId=str(receipt.task))
    again = await db.run(accept.accept, ada.principal, agent, message)
    if again.run:
        await carry_out(again.run)


def words_of(task):
    return Task.objects.get(pk=task).status_message["parts"][0]["text"]


def decisions(context):
    return [one.payload for one in Event.objects.filter(context=context, type="guardrail").order_by("index")]


def is_replayed(context):
    return projection.differences(context) == []


async def test_blocked_message_reaches_no_agent(ada, hearing, rail, said):
    made = await rail(action="block", name="No addresses")
    receipt = await sent_to(ada, hearing, said(MAIL))
    assert Hearing.heard == []
    assert await db.run(state_of, receipt.task) == "failed"
    assert "No addresses" in await db.run(words_of, receipt.task)
    [told] = await db.run(decisions, receipt.context)
    assert (told["rail"], told["action"], told["counts"]) == (str(made.pk), "block", {"email": 1})
    assert "joe@" not in str(told)
    assert await db.run(is_replayed, receipt.context)
    row = await RailDecision.objects.aget(rail=made)
    assert (row.task, row.context, row.done, row.count) == (receipt.task, receipt.context, "block", 1)


async def test_agent_is_told_hidden_text(ada, hearing, rail, said):
    await rail(action="redact")
    receipt = await sent_to(ada, hearing, said(MAIL))
    assert Hearing.heard == [HIDDEN]
    own = await Message.objects.aget(task=receipt.task, role="user")
    assert own.parts == [{"text": MAIL}]
    run = await Run.objects.aget(task=receipt.task)
    assert run.input["guarded"]["told"][own.message_id] == [{"text": HIDDEN}]


async def test_earlier_messages_are_told_hidden(ada, hearing, rail, said):
    first = await sent_to(ada, hearing, said(MAIL))
    await rail(action="redact")
    context = str(first.context)
    await sent_to(ada, hearing, said("and now?", contextId=context))
    assert Hearing.heard == [MAIL, HIDDEN, "and now?"]


async def test_blocked_message_is_not_told_later(ada, hearing, rail, said):
    made = await rail(action="block", direction="in")
    first = await sent_to(ada, hearing, said(MAIL))
    await Guardrail.objects.filter(pk=made.pk).aupdate(categories=["ip"])
    await rail(action="redact", categories=["ip"])
    await sent_to(ada, hearing, said("and now?", contextId=str(first.context)))
    assert not any("joe@" in one for one in Hearing.heard)


@pytest.mark.parametrize("action", ["block", "ask"])
async def test_later_rail_withholds_earlier_messages(ada, hearing, rail, said, action):
    first = await sent_to(ada, hearing, said(MAIL))
    Hearing.heard.clear()
    await rail(action=action, direction="in")
    await sent_to(ada, hearing, said("and now?", contextId=str(first.context)))
    assert Hearing.heard == [NOT_READ, "and now?"]


async def test_message_that_somebody_sent_is_told_later(ada, hearing, rail, said):
    await rail(action="ask", direction="in")
    first = await sent_to(ada, hearing, said(MAIL))
    await answered(ada, hearing, said, first, "send")
    await sent_to(ada, hearing, said("and now?", contextId=str(first.context)))
    assert Hearing.heard.count(MAIL) == 2


async def test_metadata_and_answers_of_agents_are_hidden(ada, agent, rail, said):
    HearingAll.heard = []
    hearing = await agent(HearingAll)
    await rail(action="redact", direction="in")
    first = await sent_to(ada, hearing, said("hello", metadata={"instructions": [MAIL]}))
    await sent_to(ada, hearing, said("and now?", contextId=str(first.context)))
    assert HearingAll.heard[1] == str({"instructions": [HIDDEN]})
    assert HearingAll.heard[2] == str(["hello", HIDDEN])


@pytest.mark.parametrize(
    ("answer", "heard", "state"),
    [("send", [MAIL], "completed"), ("redact", [HIDDEN], "completed"), ("Not at all", [], "rejected")],
)
async def test_sender_decides_what_is_sent(ada, hearing, rail, said, answer, heard, state):
    await rail(action="ask", direction="in")
    receipt = await sent_to(ada, hearing, said(MAIL))
    assert (Hearing.heard, await db.run(state_of, receipt.task)) == ([], "input-required")
    await answered(ada, hearing, said, receipt, answer)
    assert (Hearing.heard, await db.run(state_of, receipt.task)) == (heard, state)
    assert await db.run(is_replayed, receipt.context)


async def test_other_words_are_asked_again(ada, hearing, rail, said):
    await rail(action="ask", direction="in")
    receipt = await sent_to(ada, hearing, said(MAIL))
    await answered(ada, hearing, said, receipt, "what?")
    assert (Hearing.heard, await db.run(state_of, receipt.task)) == ([], "input-required")
    await answered(ada, hearing, said, receipt, "send")
    assert Hearing.heard == [MAIL]


async def test_answer_to_agent_is_checked(ada, agent, rail, said):
    asking = await agent(Asking)
    await rail(action="redact", direction="in")
    receipt = await sent_to(ada, asking, said("hello"))
    await answered(ada, asking, said, receipt, "joe@example.org")
    assert await db.run(words_of, receipt.task) == "heard [e-mail address]"


async def test_watched_message_passes_as_it_is(ada, hearing, rail, said):
    await rail(action="block", only_watch=True)
    receipt = await sent_to(ada, hearing, said(MAIL))
    assert Hearing.heard == [MAIL]
    [told] = await db.run(decisions, receipt.context)
    assert told["watched"]


async def test_message_answer_is_checked(ada, agent, rail, said):
    saying = await agent(Saying)
    await rail(action="redact", direction="in")
    sent = await send.send(ada.principal, saying, said(MAIL))
    assert sent.answer["parts"][0]["text"] == f"heard {HIDDEN}"
    [told] = await db.run(decisions, sent.context)
    assert told["counts"] == {"email": 1}
    assert await RailDecision.objects.filter(context=sent.context, task=None).acount() == 1


async def test_repeated_message_is_checked_again(ada, agent, rail, said):
    saying = await agent(Saying)
    await rail(action="redact", direction="in")
    message = said(MAIL)
    whose = {"sender": ada.principal.sender, "agent": saying, "message_id": message["messageId"]}
    overdue = timezone.now() - datetime.timedelta(minutes=1)  # the process that was to answer died
    await Accepted.objects.acreate(**whose, body_hash=digest_of(message), claimed_until=overdue)
    sent = await send.send(ada.principal, saying, message, finds_question=True)
    assert sent.answer["parts"][0]["text"] == f"heard {HIDDEN}"


async def test_blocked_message_is_a_failed_task(ada, agent, rail, said):
    saying = await agent(Saying)
    await rail(action="block", direction="in")
    sent = await send.send(ada.principal, saying, said(MAIL))
    run = await Run.objects.aget(task=sent.task)
    await carry_out(run.pk)
    assert await db.run(state_of, sent.task) == "failed"


@pytest.mark.parametrize(
    ("action", "answer"), [("redact", HIDDEN), ("block", "[This message was withheld by a guardrail.]")]
)
async def test_steered_message_is_checked(ada, agent, rail, said, action, answer):
    Reading.begun, Reading.go_on = asyncio.Event(), asyncio.Event()
    reading = await agent(Reading)
    await rail(action=action, direction="in")
    receipt = await db.run(accept.accept, ada.principal, reading, said("first"))
    work = asyncio.create_task(carry_out(receipt.run))
    await asyncio.wait_for(Reading.begun.wait(), 10)
    await db.run(accept.accept, ada.principal, reading, said(MAIL, taskId=str(receipt.task)))
    Reading.go_on.set()
    await asyncio.wait_for(work, 10)
    assert await db.run(words_of, receipt.task) == answer
    assert len(await db.run(decisions, receipt.context)) == 1


async def test_steered_question_waits_for_its_turn(ada, agent, rail, said):
    Reading.begun, Reading.go_on = asyncio.Event(), asyncio.Event()
    reading = await agent(Reading)
    await rail(action="ask", direction="in")
    receipt = await db.run(accept.accept, ada.principal, reading, said("first"))
    work = asyncio.create_task(carry_out(receipt.run))
    await asyncio.wait_for(Reading.begun.wait(), 10)
    await db.run(accept.accept, ada.principal, reading, said(MAIL, taskId=str(receipt.task)))
    Reading.go_on.set()
    await asyncio.wait_for(work, 10)
    waiting = await Run.objects.aget(task=receipt.task, state="queued")
    await carry_out(waiting.pk)
    assert await db.run(state_of, receipt.task) == "input-required"


class Dying(SkillHandler):
    """Its worker dies with it, the first time."""

    retry_safe = True
    heard: list[str] = []
    begun = asyncio.Event()

    async def on_request(self, task: TaskContext):
        self.heard.append(task.message.text)
        self.begun.set()
        if len(self.heard) == 1:
            await asyncio.Event().wait()
        return Completed("done")


async def test_retry_tells_the_same(ada, agent, rail, said):
    Dying.heard, Dying.begun = [], asyncio.Event()
    dying = await agent(Dying)
    made = await rail(action="redact")
    receipt = await db.run(accept.accept, ada.principal, dying, said(MAIL))
    work = asyncio.create_task(carry_out(receipt.run))
    await asyncio.wait_for(Dying.begun.wait(), 10)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await made.adelete()
    await db.run(give_up, receipt.run)
    await carry_out(receipt.run)
    assert Dying.heard == [HIDDEN, HIDDEN]
    assert len(await db.run(decisions, receipt.context)) == 1


def give_up(run):
    row = Run.objects.get(pk=run)
    let_the_lease_run_out(Lease(row.pk, row.fence, row.worker))


async def test_rails_of_others_do_not_hold(ada, bob, hearing, rail, said):
    await rail(action="block", workspace_id=bob.principal.workspace_id)
    await rail(action="block", agents=["another"])
    await rail(action="block", is_on=False)
    await rail(action="block", direction="out")
    await sent_to(ada, hearing, said(MAIL))
    assert Hearing.heard == [MAIL]


async def test_installation_and_agent_rails_hold(ada, hearing, rail, said):
    await rail(action="redact", workspace_id=None, agents=[hearing.slug])
    await sent_to(ada, hearing, said(MAIL))
    assert Hearing.heard == [HIDDEN]
