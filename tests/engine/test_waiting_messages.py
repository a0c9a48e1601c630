"""An acknowledged message is never lost: during work it is the next turn."""

import pytest

from agentkit import AuthRequired, Completed, Failed, InputRequired, Rejected
from apps.engine import accept, cancel
from apps.engine.claim import claim
from apps.engine.worker import release_runs
from apps.features.sessions import commands
from apps.record import projection
from apps.record.errors import TaskBusy
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Message
from tests.members import member
from tests.working import begin, chunk, end, let_the_lease_run_out, say, state_of, types_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("the ledger writes each database's own SQL")]

OUTCOMES = [Completed("first"), Failed("first"), Rejected("first"), InputRequired("first"), AuthRequired("first")]


@pytest.fixture(autouse=True)
def published(monkeypatch):
    """Run ids sent to workers."""
    runs = []
    for module in ("claim", "worker"):
        monkeypatch.setattr(f"apps.engine.{module}.publish", runs.append)
    return runs


def write(sent, ada, agent, said, text="second"):
    return accept.accept(ada.principal, agent, said(text, taskId=str(sent.task)))


def next_of(sent):
    return Run.objects.select_related("message").get(task=sent.task, state=Run.State.QUEUED)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_it_is_the_next_turn_whatever_the_outcome(ada, echo, said, outcome):
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


@pytest.mark.parametrize("outcome", [Completed("first"), InputRequired("first")])
def test_an_agent_that_takes_none_while_it_works_says_so_and_nothing_is_stored(ada, echo, said, outcome):
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


def test_messages_become_turns_one_by_one_in_their_order(ada, echo, said):
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


def test_a_question_that_nobody_could_read_yet_is_still_what_the_waiting_message_answers(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    write(sent, ada, echo, said)
    following = end(held, InputRequired("Which?", slot="word", schema={"type": "string"}))
    assert begin(following).slot == {"name": "word", "schema": {"type": "string"}}


@pytest.mark.parametrize("retry_safe", [True, False])
def test_it_is_the_next_turn_when_the_worker_was_lost_for_good(
    ada, echo, said, retry_safe, published, django_capture_on_commit_callbacks
):
    echo.retry_safe, echo.attempts = retry_safe, 1  # a first loss costs no attempt
    echo.save()
    sent = accept.accept(ada.principal, echo, said("first"))
    write(sent, ada, echo, said)
    for _ in range(2 if retry_safe else 1):
        held = begin(sent.run)
        say(held, chunk(f"draft {held.attempt}", "half"))
        let_the_lease_run_out(held.lease)
    with django_capture_on_commit_callbacks(execute=True):
        assert claim(sent.run, "another") is None
    assert state_of(sent.task) == "working"
    assert Run.objects.get(pk=sent.run).state == Run.State.FAILED
    assert published == [next_of(sent).pk]
    end(begin(next_of(sent).pk), Completed("second"))
    assert state_of(sent.task) == "completed"
    assert not Artifact.objects.delivered().exists(), "what was cut off is not delivered"
    assert projection.differences(sent.context) == []


def test_it_is_the_next_turn_when_the_process_is_told_to_end(ada, echo, said, published):
    echo.retry_safe = False
    echo.save()
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    write(sent, ada, echo, said)
    release_runs([held])
    assert state_of(sent.task) == "working"
    assert published == [next_of(sent).pk]


@pytest.mark.parametrize("outcome", [Failed("no"), None])
def test_what_a_failed_or_interrupted_turn_had_begun_is_not_delivered_later(ada, echo, said, outcome):
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    say(held, chunk("half", "half", last=False))
    write(sent, ada, echo, said)
    held = begin(end(held, outcome))
    say(held, chunk("whole", "whole"))
    end(held, Completed("second"))
    states = dict(Artifact.objects.values_list("artifact_id", "state"))
    assert states == {"half": "discarded", "whole": "delivered"}
    assert projection.differences(sent.context) == []


def test_what_a_completed_turn_made_is_delivered_with_the_rest(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("first"))
    held = begin(sent.run)
    say(held, chunk("one", "one"))
    write(sent, ada, echo, said)
    held = begin(end(held, Completed("first")))
    say(held, chunk("two", "two"))
    end(held, Completed("second"))
    assert set(Artifact.objects.delivered().values_list("artifact_id", flat=True)) == {"one", "two"}


def test_a_cancel_is_the_one_end_that_leaves_messages_unread(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("first"))
    begin(sent.run)
    write(sent, ada, echo, said)
    cancel.cancel_by_id(ada.principal, echo, str(sent.task))
    assert state_of(sent.task) == "canceled"
    assert types_of(sent.task).count("user_message") == 2
    assert not Run.objects.unfinished().exists()


def test_a_message_that_names_no_task_answers_the_question_of_its_session(ada, echo, said):
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
