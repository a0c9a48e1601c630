"""What an agent says: nothing that is stopped or hidden is in the log, not even for a moment."""

import asyncio
import json

import pytest

from agentkit import (
    Artifact,
    Chunk,
    Completed,
    InputRequired,
    Progress,
    ResponseType,
    SkillHandler,
    TaskContext,
    ToolCall,
)
from apps.engine import accept, cancel, send
from apps.engine.turns.guards import ManagersDecide
from apps.optional.guardrails.models import RailDecision
from apps.record import projection
from apps.record.execution import Run, Withheld
from apps.record.models import Artifact as Delivered
from apps.record.models import Event, Task
from parley import db
from tests.members import member
from tests.working import carry_out, state_of, types_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("published")]
SECRET = "joe@example.org"
HIDDEN = "[e-mail address]"


class Whole(SkillHandler):
    """Answers with a text, and another artifact."""

    runs = 0

    async def on_request(self, task: TaskContext):
        Whole.runs += 1
        task.memory["seen"] = Whole.runs
        await task.progress(f"asking {SECRET}")
        text = f"Ask {SECRET} or 10.0.0.1."
        return Completed(text, [Artifact.text("answer", text), Artifact.json("who", {"mail": [SECRET]})])


class Telling(SkillHandler):
    """Streams its answer in pieces, and an artifact in two chunks."""

    pieces = ("Ask jo", "e@exam", "ple.org", " today. ", "Thank", " you")

    async def on_request(self, task: TaskContext):
        async with task.artifact("notes.txt") as notes:
            await notes.append("Mail joe@")
            await notes.append("example.org, now")
        for piece in self.pieces:
            await task.token(piece)
            await asyncio.sleep(0.05)
        return Completed()


class Asking(SkillHandler):
    async def on_request(self, task: TaskContext):
        return InputRequired(f"Is it {SECRET}?", slot="which")

    async def on_input_received(self, task: TaskContext):
        return Completed("fine")


class Saying(SkillHandler):
    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext):
        return Completed(f"It is {SECRET}", metadata={"by": SECRET})


async def done_by(ada, agent, message):
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    return receipt


def log_of(context):
    return json.dumps(list(Event.objects.filter(context=context).values_list("payload", flat=True)))


def words_of(task):
    return Task.objects.get(pk=task).status_message["parts"][0]["text"]


def delivered(task):
    return {one.name: one.parts for one in Delivered.objects.filter(task=task, state="delivered")}


def outcome_of(receipt):
    assert projection.differences(receipt.context) == []
    return state_of(receipt.task), SECRET in log_of(receipt.context)


def decisions(context):
    return [one.payload for one in Event.objects.filter(context=context, type="guardrail").order_by("index")]


async def test_answer_is_hidden_everywhere(ada, agent, rail, said):
    whole = await agent(Whole)
    await rail(action="redact")
    receipt = await done_by(ada, whole, said())
    assert await db.run(outcome_of, receipt) == ("completed", False)
    assert await db.run(words_of, receipt.task) == "Ask [e-mail address] or 10.0.0.1."
    assert (await db.run(delivered, receipt.task))["who"] == [{"data": {"mail": ["[e-mail address]"]}}]
    [told] = await db.run(decisions, receipt.context)
    assert (told["direction"], told["action"]) == ("out", "redact")
    assert await RailDecision.objects.filter(context=receipt.context).acount() == 1


async def test_hidden_text_spans_pieces(ada, agent, rail, said):
    telling = await agent(Telling)
    await rail(action="redact")
    receipt = await done_by(ada, telling, said())
    assert await db.run(outcome_of, receipt) == ("completed", False)
    log = await db.run(log_of, receipt.context)
    assert "joe" not in log
    made = await db.run(delivered, receipt.task)
    assert "".join(part["text"] for part in made["answer"]) == "Ask [e-mail address] today. Thank you"
    assert "".join(part["text"] for part in made["notes.txt"]) == "Mail [e-mail address], now"
    assert (await db.run(types_of, receipt.task)).count("agent_token") > 1  # it came in pieces
    [told] = await db.run(decisions, receipt.context)
    assert told["counts"] == {"email": 2}


@pytest.mark.parametrize("speaker", [Whole, Telling, Asking])
async def test_blocked_answer_is_nowhere(ada, agent, rail, said, speaker):
    made = await agent(speaker)
    await rail(action="block", direction="out", name="No addresses")
    receipt = await done_by(ada, made, said())
    assert await db.run(outcome_of, receipt) == ("failed", False)
    assert "No addresses" in await db.run(words_of, receipt.task)
    assert await db.run(delivered, receipt.task) == {}
    assert "agent_token" not in await db.run(types_of, receipt.task)


async def test_checked_answer_comes_whole(ada, agent, rail, said):
    telling = await agent(Telling)
    await rail(action="block", direction="out", categories=["iban"])
    receipt = await done_by(ada, telling, said())
    made = await db.run(delivered, receipt.task)
    assert "".join(part["text"] for part in made["answer"]) == "".join(Telling.pieces)
    assert "".join(part["text"] for part in made["notes.txt"]) == "Mail joe@example.org, now"
    assert await db.run(decisions, receipt.context) == []


@pytest.mark.parametrize(
    ("answer", "words", "state", "is_in_log"),
    [
        ("show", "Ask joe@example.org or 10.0.0.1.", "completed", True),
        ("redact", "Ask [e-mail address] or 10.0.0.1.", "completed", False),
        ("stop", "The answer was not shown.", "rejected", False),
    ],
)
async def test_sender_decides_what_is_shown(ada, agent, rail, said, answer, words, state, is_in_log):
    whole = await agent(Whole)
    Whole.runs = 0
    await rail(action="ask", direction="out")
    receipt = await done_by(ada, whole, said())
    assert await db.run(outcome_of, receipt) == ("input-required", False)
    assert SECRET not in await db.run(stored_secrets, receipt.task)
    again = await db.run(accept.accept, ada.principal, whole, said(answer, taskId=str(receipt.task)))
    await carry_out(again.run)
    assert await db.run(outcome_of, receipt) == (state, is_in_log)
    assert (await db.run(words_of, receipt.task), Whole.runs) == (words, 1)
    assert (await Withheld.objects.aget(task=receipt.task)).content == ""


async def test_cancel_empties_what_is_withheld(ada, agent, rail, said):
    whole = await agent(Whole)
    await rail(action="ask", direction="out")
    receipt = await done_by(ada, whole, said())
    task = await Task.objects.aget(pk=receipt.task)
    assert (await Withheld.objects.aget(task=task)).content
    await db.run(cancel.cancel_task, task)
    assert not (await Withheld.objects.aget(task=task)).content


def stored_secrets(task):
    """All that the task's rows have, but for what is encrypted."""
    runs = list(Run.objects.filter(task=task).values())
    return json.dumps([runs, list(Task.objects.filter(pk=task).values())], default=str)


async def test_only_managers_decide_if_so(ada, bob, agent, rail, said):
    whole = await agent(Whole)
    await rail(action="ask", direction="out", decided_by="managers")
    there = await db.run(member, bob, ada)
    receipt = await db.run(accept.accept, there, whole, said())
    await carry_out(receipt.run)
    with pytest.raises(ManagersDecide):
        await db.run(accept.accept, there, whole, said("show", taskId=str(receipt.task)))
    assert await db.run(state_of, receipt.task) == "input-required"


async def test_message_answer_is_hidden(ada, agent, rail, said):
    saying = await agent(Saying)
    await rail(action="redact", direction="out")
    sent = await send.send(ada.principal, saying, said())
    assert sent.answer["parts"][0]["text"] == "It is [e-mail address]"
    assert SECRET not in await db.run(log_of, sent.context)


async def test_changed_rail_counts_from_next_turn(ada, agent, rail, said):
    """A turn has the rails that held when it began."""
    made = await rail(action="redact")

    class Changing(SkillHandler):
        async def on_request(self, task: TaskContext):
            await made.adelete()
            return Completed(f"It is {SECRET}", metadata={"by": SECRET})

    changing = await agent(Changing)
    receipt = await done_by(ada, changing, said())
    assert await db.run(words_of, receipt.task) == "It is [e-mail address]"
    assert await RailDecision.objects.acount() == 1  # of a rail that is gone


class Leaking(SkillHandler):
    """Says the secret beside its words: in names, metadata, data and a replaced artifact."""

    async def on_request(self, task: TaskContext):
        about = {"metadata": {"by": SECRET}, "append": False, "last": False}
        await task.emit(Chunk("a", SECRET, f"of {SECRET}", [{"text": "Ask joe@exam", "filename": SECRET}], **about))
        await task.emit(Chunk("a", "all", "", [{"data": {SECRET: SECRET}}], **about))
        await task.emit(Chunk("a", "all", "", [{"text": "ple.org"}], append=True, last=True))
        await task.emit(Progress("at work", metadata={"by": SECRET}))
        await task.emit(ToolCall("1", f"ask {SECRET}", {}))
        made = Artifact.text(f"of {SECRET}", "fine", description=SECRET)
        return Completed("done", [made], {"by": SECRET})


class AskingForm(SkillHandler):
    async def on_request(self, task: TaskContext):
        schema = {"type": "object", "properties": {"who": {"type": "string", "default": SECRET}}}
        return InputRequired("Who?", slot="who", schema=schema)


async def test_nothing_beside_words_passes(ada, agent, rail, said):
    leaking = await agent(Leaking)
    await rail(action="redact", direction="out")
    receipt = await done_by(ada, leaking, said())
    assert await db.run(outcome_of, receipt) == ("completed", False)
    made = await db.run(delivered, receipt.task)
    assert [one for one in made["all"] if one != {"text": ""}] == [{"data": {HIDDEN: HIDDEN}}, {"text": "ple.org"}]
    assert f"of {HIDDEN}" in made


async def test_form_with_hidden_text_is_stopped(ada, agent, rail, said):
    asking = await agent(AskingForm)
    await rail(action="redact", direction="out")
    receipt = await done_by(ada, asking, said())
    assert await db.run(outcome_of, receipt) == ("failed", False)
