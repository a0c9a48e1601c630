"""An answer that is edited: the showcase's agents go on from what they had asked, or ask anew, and never break."""

import uuid

import pytest

import bridge
from apps.agents.registration import register_hosted
from apps.conversations import canceling, lineage
from apps.conversations.models import Context, Task
from apps.runtime import branching
from apps.runtime.sending import send
from tests.runtime.delegating import ended, words

pytestmark = pytest.mark.django_db(transaction=True)

CSV = {"text": "city,people\nRome,3\nBonn,1\n", "filename": "cities.csv", "mediaType": "text/csv"}


@pytest.fixture
def talk(ada, said, worker):
    """Says these things to an agent, one after the other, each as the answer to what it asks; gives the last task."""

    async def talk(path, *texts, **fields):
        agent = await bridge.run(register_hosted, "agent", f"apps.showcase.{path}", access="public")
        sent = await send(ada.principal, agent, said(texts[0], contextId="talk", **fields))
        task = await ended(sent)
        for text in texts[1:]:
            assert task.state == "input-required"
            task = await ended(await send(ada.principal, agent, said(text, taskId=str(task.pk))))
        return agent, task

    return talk


async def edited(ada, task, old, new):
    """The task that another answer leads to."""

    def find():
        rows = lineage.messages(Context.objects.get(pk=task.context_id)).order_by("index")
        return next(row.pk for row in rows if any(part.get("text") == old for part in row.parts))

    message = await bridge.run(find)
    sent = await branching.edit(
        ada.principal, task.context_id, message, [{"text": new}], key=uuid.uuid4().hex, running="cancel"
    )
    return await ended(sent)


async def names_of(task):
    return await bridge.run(lambda: sorted(task.artifacts.values_list("name", flat=True)))


async def test_a_report_that_is_done_is_made_in_the_other_format(ada, talk):
    _, task = await talk("report.agent:Report", "A report", "HTML", parts=[{"text": "A report"}, CSV])
    assert (task.state, "report.html" in await names_of(task)) == ("completed", True)
    other = await edited(ada, task, "HTML", "Markdown")
    assert (other.state, "report.md" in await names_of(other)) == ("completed", True)


async def test_a_report_that_still_asks_remembers_the_file(ada, talk):
    _, task = await talk("report.agent:Report", "A report", "a nice one", parts=[{"text": "A report"}, CSV])
    assert task.state == "input-required"
    other = await edited(ada, task, "a nice one", "Markdown, please")
    assert (other.state, "report.md" in await names_of(other)) == ("completed", True)


async def test_a_trip_that_is_still_planned_goes_on_from_what_was_known(ada, talk):
    _, task = await talk("agents.travel.agent:Travel", "I want to go away", "Lisbon", "3 May")
    assert "How many" in words(task)
    other = await edited(ada, task, "3 May", "4 May")
    assert other.state == "input-required"
    assert "How many" in words(other), "Lisbon and the date are known"


async def test_a_trip_that_was_given_up_is_begun_anew(ada, talk):
    agent, task = await talk("agents.travel.agent:Travel", "I want to go away", "Lisbon")
    await bridge.run(canceling.cancel, ada.principal, agent, str(task.pk))
    other = await edited(ada, task, "Lisbon", "To Rome on 3 May")
    assert other.state == "input-required"


async def test_a_translation_that_is_done_is_made_into_the_other_language(ada, talk):
    _, task = await talk("agents.translator.agent:Translator", "Translate: Good morning, the house.", "German")
    assert task.state == "completed"
    other = await edited(ada, task, "German", "In French")
    assert other.state == "completed"
    assert "French" in words(other)
    assert await bridge.run(Task.objects.filter(context=task.context_id).count) == 1


async def test_a_translation_that_still_asks_remembers_the_text(ada, talk):
    _, task = await talk("agents.translator.agent:Translator", "Translate: Good morning, the house.", "Elvish")
    assert task.state == "input-required"
    other = await edited(ada, task, "Elvish", "French")
    assert other.state == "completed"
    assert "French" in words(other)
