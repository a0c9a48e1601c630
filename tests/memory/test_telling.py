"""Who is told what of a person's memory, and what the record keeps of it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentkit import Completed, InputRequired
from apps.accounts.models import ApiKey
from apps.agents.models import TAKES_MEMORY
from apps.conversations.forks.forking import fork
from apps.conversations.queue import messages
from apps.conversations.sessions import commands
from apps.optional.memory import rights, telling
from apps.optional.memory.models import AgentMemory, MemoryEntry, PersonalInstructions
from apps.optional.memory.remembering import DELETE, Source, forget, save, save_instructions
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save as save_project
from apps.record.briefings import Asked
from apps.record.execution import Run
from apps.record.models import Context
from tests.members import member
from tests.memory.conftest import texts_of
from tests.working import end

pytestmark = pytest.mark.django_db
Uses = AgentMemory.Uses


def test_agent_is_told_of_who_asks(ada, bob, session, known, asked):
    known("Ada likes short answers.")
    known("Bob likes long ones.", bob.principal)
    save_instructions(ada.principal, PersonalInstructions(text="Answer in French."))
    turn = asked(session)
    assert texts_of(turn) == ["Ada likes short answers."]
    assert turn.told["user_memory"]["instructions"] == "Answer in French."


def test_run_keeps_digests_not_texts(ada, session, known, asked):
    entry = known("Her address is a secret.")
    turn = asked(session)
    assert turn.input["user_memory"]["entries"] == [{"id": str(entry.pk), "digest": entry.texts.get().digest}]
    assert "secret" not in str(Run.objects.get(pk=turn.lease.run_id).input)
    DELETE.perform(ada.principal, entry)
    assert telling.read(turn.input["user_memory"]) == {"entries": [], "writable": True}


def test_later_attempt_is_told_the_same(ada, session, known, asked):
    entry = known("Lives in Rome.")
    noted = asked(session).input["user_memory"]
    entry.text = "Lives in Oslo."
    save(ada.principal, entry)
    assert [one["text"] for one in telling.read(noted)["entries"]] == ["Lives in Rome."]


def test_newest_entries_are_told_within_the_bound(session, known, asked, monkeypatch):
    monkeypatch.setattr(telling, "MOST_CHARACTERS", 10)
    known("first")
    known("second")
    known("new")
    assert texts_of(asked(session)) == ["new", "second"]


def test_what_is_off_is_not_told(ada, session, known, asked):
    MemoryEntry.objects.filter(pk=known("Off.").pk).update(is_on=False)
    save_instructions(ada.principal, PersonalInstructions(text="Be brief.", is_on=False))
    assert asked(session).told["user_memory"] == {"entries": [], "writable": True}
    save_instructions(ada.principal, PersonalInstructions(text="Be brief.", has_memory=False))
    assert "user_memory" not in asked(session).told


def test_shared_session_tells_of_nobody(ada, bob, session, known, asked):
    colleague = member(bob, ada)
    known("Of Ada.")
    known("Of Bob.", colleague)
    shared = commands.share_session(ada.principal, session.pk, Context.Sharing.WORKSPACE)
    assert "user_memory" not in asked(shared, colleague).told
    assert texts_of(asked(shared)) == ["Of Ada."]


def test_key_for_some_agents_is_told_nothing(ada, session, known, asked):
    known("Likes tea.")
    key = ApiKey.issue(ada, "for one", agents=["helper"])[0]
    assert "user_memory" not in asked(session, key.principal).told
    assert texts_of(asked(session, ApiKey.issue(ada, "for all")[0].principal)) == ["Likes tea."]


def test_task_continued_by_such_key_is_told_nothing(ada, session, known, asked):
    known("Likes tea.")
    key = ApiKey.issue(ada, "for one", agents=["helper"])[0]
    turn = asked(session)
    assert texts_of(turn) == ["Likes tea."]
    end(turn, InputRequired("How many?"))
    assert "user_memory" not in asked(session, key.principal, task=turn.task.pk).told


def test_queued_message_keeps_its_keys_reach(ada, session, said):
    key = ApiKey.issue(ada, "for one", agents=["helper"])[0]
    messages.enqueue(key.principal, session, said())
    assert messages.claim_next(session.pk).principal.agents == {"helper"}


def test_entry_of_a_project_stays_in_it(ada, helper, session, known, asked):
    trip = save_project(ada.principal, Project(name="Trip"))
    known("The budget is 900 euros.", project=trip.pk)
    inside = commands.create_session(ada.principal, helper, project=trip.pk).context
    assert texts_of(asked(inside)) == ["The budget is 900 euros."]
    assert texts_of(asked(session)) == []


def test_temporary_session_neither_uses_nor_leaves_memory(ada, helper, known, asked):
    known("Likes tea.")
    context = commands.create_session(ada.principal, helper, temporary=True).context
    turn = asked(context)
    assert "user_memory" not in turn.told
    end(turn, Completed("done"))
    made = fork(ada.principal, context.pk, Context.objects.get(pk=context.pk).last_event, reason="fork")
    assert made.is_temporary


@pytest.mark.parametrize(
    ("of_all", "own", "uses"),
    [
        (None, None, Uses.NONE),
        (Uses.READ, None, Uses.READ),
        (Uses.READ, Uses.NONE, Uses.NONE),
        (None, Uses.READ, Uses.READ),
    ],
)
def test_person_decides_before_operators(ada, echo, of_all, own, uses):
    for owner, said in ((None, of_all), (ada, own)):
        if said:
            AgentMemory.objects.create(agent=echo, owner=owner, uses=said)
    echo.capabilities[TAKES_MEMORY] = True
    assert rights.uses_of(echo, ada.pk) == uses


def test_agent_without_right_is_told_nothing(ada, echo, known, asked):
    known("Likes tea.")
    context = commands.create_session(ada.principal, echo).context
    rights.choose(ada.principal, echo, Uses.READ)
    assert "user_memory" not in asked(context, agent=echo).told, "it does not take it"
    rights.choose(ada.principal, echo, Uses.NONE)
    echo.capabilities[TAKES_MEMORY] = True
    echo.save(update_fields=["capabilities"])
    assert "user_memory" not in asked(context, agent=echo).told
    rights.choose(ada.principal, echo, Uses.READ)
    assert texts_of(asked(context, agent=echo)) == ["Likes tea."]


def test_fork_knows_what_was_known_then(ada, helper, session, known, asked):
    entry, gone = known("Lives in Rome."), known("Has a cat.")
    end(asked(session), Completed("done"))
    then = Context.objects.get(pk=session.pk).last_event
    entry.text = "Lives in Oslo."
    save(ada.principal, entry)
    known("Has a dog.")
    end(asked(session), Completed("done"))
    made = fork(ada.principal, session.pk, then, reason="fork")
    known("Said in the fork.", source=Source(helper, made.pk, None))
    forget(ada.principal, gone, Source(helper, session.pk, None))
    assert texts_of(asked(made)) == ["Said in the fork.", "Lives in Rome."]
    assert texts_of(asked(session)) == ["Said in the fork.", "Has a dog.", "Lives in Oslo."]


def test_forks_of_forks_take_no_more_queries(ada, helper, session, asked):
    chain, counts = [session], list[int]()
    for _ in range(3):
        end(asked(chain[-1]), Completed("done"))
        newest = Context.objects.get(pk=chain[-1].pk).last_event
        chain.append(fork(ada.principal, chain[-1].pk, newest, reason="fork"))
    for made in chain[1:]:
        who = Asked(ada.pk, session.workspace_id, made, helper, ada.pk, lambda: ada.principal)
        with CaptureQueriesContext(connection) as queries:
            telling.note(who)
        counts.append(len(queries))
    assert counts == [counts[0]] * 3


def test_fork_of_newest_event_knows_what_was_corrected(ada, session, known, asked):
    entry = known("Lives in Rome.")
    end(asked(session), Completed("done"))
    entry.text = "Lives in Oslo."
    save(ada.principal, entry)
    newest = Context.objects.get(pk=session.pk).last_event
    made = [fork(ada.principal, session.pk, newest, reason="fork", key=key) for key in "ab"]
    entry.text = "Lives in Bergen."
    save(ada.principal, entry)
    assert [texts_of(asked(one)) for one in made] == [["Lives in Oslo."]] * 2
