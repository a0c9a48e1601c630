"""Agents remember, change and forget by tools, and models are told what is remembered."""

import pytest

from apps.accounts.audit_models import AuditEntry
from apps.conversations.sessions import commands
from apps.optional.memory import remembering
from apps.optional.memory.models import AgentMemory, MemoryEntry
from apps.optional.memory.remembering import UNDO
from apps.record.models import Event
from parley import db
from tests.engine.delegating import done, words
from tests.model_agents.conftest import endpoint  # noqa: F401 fixture
from tests.model_agents.endpoint import calls, says

pytestmark = pytest.mark.django_db(transaction=True)


def entries():
    return list(MemoryEntry.objects.order_by("created_at").values_list("text", flat=True))


@pytest.fixture
def ask(ada, helper, session, said, worker):
    async def until_settled():
        return await done(ada.principal, helper, said(contextId=session.context_id))

    return until_settled


async def test_what_an_agent_remembers_other_sessions_know(endpoint, ada, helper, session, said, ask):  # noqa: F811
    endpoint.replies = [calls(("remember", {"text": "Likes tea."})), says("Noted."), says("Tea?")]
    task = await ask()
    entry = await db.run(MemoryEntry.objects.select_related("agent").get)
    question = await db.run(lambda: Event.objects.get(task=task, type="user_message").index)
    assert (entry.agent, entry.session, entry.message_index) == (helper, session.pk, question)
    audited = await db.run(lambda: AuditEntry.objects.get(action="memory.added"))
    assert audited.details == {"agent": "helper", "session": str(session.pk), "message": question}
    other = await db.run(lambda: commands.create_session(ada.principal, helper).context)
    await done(ada.principal, helper, said(contextId=other.context_id))
    assert "Likes tea." in str(endpoint.requests[-1]["messages"])
    assert "Likes tea." not in str(endpoint.requests[0]["messages"])


async def test_agent_changes_and_forgets(endpoint, ada, known, ask):  # noqa: F811
    home, cat = await db.run(known, "Lives in Rome."), await db.run(known, "Has a cat.")
    endpoint.replies = [
        calls(("change_memory", {"entry": str(home.pk)[:8], "text": "Lives in Oslo."})),
        calls(("forget", {"entry": str(cat.pk)[:8]})),
        says("Done."),
    ]
    await ask()
    texts = lambda: [one.text for one in remembering.live_entries(ada.principal)]  # noqa: E731
    assert await db.run(texts) == ["Lives in Oslo."]
    for entry in (home, cat):
        await db.run(lambda: UNDO.perform(ada.principal, MemoryEntry.objects.get(pk=entry.pk)))  # noqa: B023
    assert sorted(await db.run(texts)) == ["Has a cat.", "Lives in Rome."]


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("remember", {"text": " "}, "Write what to remember."),
        ("remember", {"text": "a" * 501}, "at most 500"),
        ("remember", {"text": "a", "only_in_project": True}, "no project"),
        ("forget", {"entry": "1"}, "no such entry"),
    ],
)
async def test_model_is_told_why_nothing_changed(endpoint, ask, name, given, why):  # noqa: F811
    endpoint.replies = [calls((name, given)), says("Sorry.")]
    assert words(await ask()) == "Sorry."
    assert why in str(endpoint.requests[-1]["messages"])
    assert await db.run(entries) == []


async def test_reader_has_no_tool_to_change_memory(endpoint, ada, helper, ask):  # noqa: F811
    await db.run(lambda: AgentMemory.objects.create(agent=helper, uses="read"))
    endpoint.replies = [says("Hello.")]
    await ask()
    assert "remember" not in str(endpoint.requests[-1].get("tools"))


def test_memory_is_bounded(ada, known, monkeypatch):
    monkeypatch.setattr(remembering, "MOST_ENTRIES", 1)
    known("one")
    with pytest.raises(remembering.MemoryFull):
        known("two")
