"""A message that comes during work is the next turn; a waiting task continues once, also without a message."""

import asyncio
import uuid

import pytest

from agentkit import AuthRequired, Completed, Failed, InputRequired, Rejected
from apps.conversations.sessions import commands, deletion
from apps.engine import accept, cancel
from apps.engine.accept import resume
from apps.engine.claim import claim
from apps.engine.worker import release_runs
from apps.record import projection
from apps.record.errors import TaskBusy
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Message, Task
from apps.record.reading import notifications
from parley import db
from tests.members import member
from tests.working import begin, chunk, end, let_the_lease_run_out, say, state_of, types_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("published"),
    pytest.mark.services("the ledger writes each database's own SQL, and those at once race in the database"),
]

OUTCOMES = [Completed("first"), Failed("first"), Rejected("first"), InputRequired("first")]
QUESTIONS = [InputRequired("May I?", slot="leave", schema={"type": "string"}), AuthRequired("Your key?", slot="leave")]


def write(sent, ada, agent, said, text="second"):
    return accept.accept(ada.principal, agent, said(text, taskId=str(sent.task)))


def next_of(sent):
    return Run.objects.select_related("message").get(task=sent.task, state=Run.State.QUEUED)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_message_is_next_turn_whatever_the_outcome(ada, echo, said, outcome):
    echo.on_busy = "interrupt" if isinstance(outcome, Failed | InputRequired) else "enqueue"
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    receipt = write(sent, ada, echo, said)
    assert receipt.run is None, "the turn that goes on comes first"
    following = end(held, outcome, memory={"kept": True})
    assert state_of(sent.task) == "working"
    waiting = next_of(sent)
    assert waiting.pk == following
    assert (waiting.turn, waiting.message.parts, waiting.memory) == (2, [{"text": "second"}], {"kept": True})
    end(begin(following), Completed("second"))
    assert state_of(sent.task) == "completed"
    words = Message.objects.filter(task=sent.task).values_list("role", "parts__0__text")
    assert list(words) == [("user", "first"), ("user", "second"), ("agent", "first"), ("agent", "second")]
    assert projection.differences(sent.context) == []


def test_interrupted_turn_is_stopped_at_once(ada, echo, said, monkeypatch):
    told = []
    monkeypatch.setattr(notifications, "stop", told.append)
    echo.on_busy = "interrupt"
    sent = accept.accept(ada.principal, echo, said("first"))
    begin(sent.run)
    write(sent, ada, echo, said)
    assert told == [sent.run]


@pytest.mark.parametrize("outcome", [Completed("first"), InputRequired("first")])
def test_refused_message_to_busy_agent_is_not_stored(ada, echo, said, outcome):
    echo.on_busy = "reject"
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    before = Context.objects.get(pk=sent.context).last_event
    with pytest.raises(TaskBusy):
        write(sent, ada, echo, said)
    assert Context.objects.get(pk=sent.context).last_event == before
    assert end(held, outcome) is None
    if state_of(sent.task).endswith("required"):
        assert write(sent, ada, echo, said).run is not None


def test_messages_become_turns_in_their_order(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("0"))
    for text in "123":
        write(sent, ada, echo, said, text)
    run, taken = sent.run, []
    while run is not None:
        held = begin(run)
        taken.append(held.message.parts[0]["text"])
        run = end(held, Completed("done"))
    assert taken == ["0", "1", "2", "3"]
    assert state_of(sent.task) == "completed"


@pytest.mark.parametrize("how", ["repeatable", "unrepeatable", "released"])
def test_message_is_next_turn_after_lost_worker(ada, echo, said, how, published):
    echo.retry_safe, echo.attempts = how == "repeatable", 1  # a first loss costs no attempt
    echo.save()
    sent = accept.accept(ada.principal, echo, said("first"))
    write(sent, ada, echo, said)
    for _ in range(2 if echo.retry_safe else 1):
        held = begin(sent.run)
        say(held, chunk(f"draft {held.attempt}", "half"))
        if how == "released":
            release_runs([held])
        else:
            let_the_lease_run_out(held.lease)
    assert claim(sent.run, "another") is None
    assert (state_of(sent.task), Run.objects.get(pk=sent.run).state) == ("working", Run.State.FAILED)
    assert published == [next_of(sent).pk]
    end(begin(next_of(sent).pk), Completed("second"))
    assert state_of(sent.task) == "completed"
    assert not Artifact.objects.delivered().exists(), "what was cut off is not delivered"
    assert projection.differences(sent.context) == []


@pytest.mark.parametrize(
    ("outcome", "delivered"), [(Completed("first"), {"one", "two"}), (Failed("no"), {"two"}), (None, {"two"})]
)
def test_artifacts_of_completed_turns_are_delivered(ada, echo, said, outcome, delivered):
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    say(held, chunk("one", "one", last=outcome is not None))
    write(sent, ada, echo, said)
    held = begin(end(held, outcome))
    say(held, chunk("two", "two"))
    end(held, Completed("second"))
    assert set(Artifact.objects.delivered().values_list("artifact_id", flat=True)) == delivered
    assert projection.differences(sent.context) == []


def test_only_cancel_leaves_messages_unread(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("first"))
    begin(sent.run)
    write(sent, ada, echo, said)
    cancel.cancel_by_id(ada.principal, echo, str(sent.task))
    assert state_of(sent.task) == "canceled"
    assert types_of(sent.task).count("user_message") == 2
    assert not Run.objects.unfinished().exists()


def test_message_answers_the_question_of_its_session(ada, echo, said):
    first, answer = said("first", contextId="talk"), said("second", contextId="talk")
    asked = accept.accept(ada.principal, echo, first, finds_question=True)
    assert accept.accept(ada.principal, echo, first, finds_question=True).repeated, "working: no question yet"
    end(begin(asked.run), InputRequired("Which?"))
    assert accept.accept(ada.principal, echo, first, finds_question=True).index == asked.index, "asked, but no answer"
    answered = accept.accept(ada.principal, echo, answer, finds_question=True)
    assert (answered.task, state_of(asked.task)) == (asked.task, "working")
    end(begin(answered.run), Completed("done"))
    assert accept.accept(ada.principal, echo, answer, finds_question=True).index == answered.index
    assert accept.accept(ada.principal, echo, said(contextId="talk"), finds_question=True).task != asked.task
    assert projection.differences(asked.context) == []


def test_only_who_was_asked_answers(ada, bob, echo, said):
    asked = accept.accept(ada.principal, echo, said())
    end(begin(asked.run), InputRequired("Which?"))
    talk = commands.share_session(ada.principal, asked.context, Context.Sharing.WORKSPACE)
    colleague = member(bob, ada)
    theirs = accept.accept(colleague, echo, said(contextId=talk.name_for(colleague)), finds_question=True)
    assert (theirs.context, theirs.task == asked.task) == (asked.context, False)
    assert state_of(asked.task) == "input-required"
    hers = said(contextId=talk.context_id)
    assert accept.accept(ada.principal, echo, hers, finds_question=True).task == asked.task


# Without a message


def waiting(ada, agent, said, question=QUESTIONS[1], **kept):
    sent = accept.accept(ada.principal, agent, said("first", contextId="talk"))
    end(begin(sent.run), question, **kept)
    return sent


@pytest.mark.parametrize("question", QUESTIONS, ids=["input", "credential"])
def test_resumed_turn_repeats_message_and_question(ada, echo, said, published, question):
    sent = waiting(ada, echo, said, question, memory={"kept": True})
    asked = Task.objects.get(pk=sent.task).slot
    assert resume(sent.task, because="the key was given")
    assert state_of(sent.task) == "working"
    run = Run.objects.select_related("message").get(pk=published[0])
    assert (run.turn, run.state, run.message.parts) == (2, Run.State.QUEUED, [{"text": "first"}])
    assert (run.slot, run.memory) == (asked, {"kept": True})
    assert Event.objects.filter(task=sent.task).last().payload == {"state": "working", "because": "the key was given"}
    held = begin(run.pk)
    assert held.resumed
    assert not end(held, Completed("done"))
    assert state_of(sent.task) == "completed"
    assert Message.objects.filter(task=sent.task, role=Message.Role.USER).count() == 1
    assert projection.differences(sent.context) == []


async def test_message_and_resuming_at_once_lose_nothing(ada, echo, said, published):
    for _ in range(2):
        sent = await db.run(waiting, ada, echo, said)
        answer = said("yes", taskId=str(sent.task))
        went_on, receipt = await asyncio.gather(
            db.run(resume, sent.task, because="it was given"),
            db.run(accept.accept, ada.principal, echo, answer),
        )
        run = published.pop() if went_on else receipt.run
        assert (receipt.run is None) == went_on, "the one that came second found a task that works"
        following = await db.run(lambda run=run: end(begin(run), Completed("done")))
        assert bool(following) == went_on, "a message that came second is a turn of its own"
        if following:
            await db.run(lambda run=following: end(begin(run), Completed("done")))
        assert await db.run(state_of, sent.task) == "completed"
        assert await db.run(projection.differences, sent.context) == []


def test_only_waiting_tasks_are_resumed(ada, echo, said, published):
    done = accept.accept(ada.principal, echo, said())
    held = begin(done.run)
    assert not resume(done.task, because="no reason")
    end(held, Completed("done"))
    assert not resume(done.task, because="no reason")
    canceled = waiting(ada, echo, said)
    cancel.cancel_by_id(ada.principal, echo, str(canceled.task))
    assert not resume(canceled.task, because="no reason")
    assert not resume(uuid.uuid4(), because="no reason")
    cleared = waiting(ada, echo, said)
    deletion.delete_context(ada.principal, echo, "talk")
    assert not resume(cleared.task, because="no reason")
    assert published == []
