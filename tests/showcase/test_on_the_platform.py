"""The showcase's agents over the platform, with a real worker: what they do is in the record, and can be stopped."""

import asyncio
import re

import pytest

import bridge
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations import canceling, replay
from apps.conversations.lifecycle import TaskState
from apps.conversations.models import Artifact, Context, Event, Task
from apps.runtime import credential_requests
from apps.runtime.credential_requests import Given
from tests.llm.endpoint import Endpoint, hangs
from tests.runtime.delegating import done, ended, sent, until, words
from tests.showcase.saying import AGENTS, NOTE
from tests.working import state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

LINK = re.compile(r"/credentials/(\S{43})\b")


@pytest.fixture
def cast(db) -> dict[str, Agent]:
    return {slug: register_hosted(slug, path) for slug, path in AGENTS.items()}


@pytest.fixture
def ask(ada, cast, said):
    """Sends a message to an agent, in a context or to a task, and gives the task once it has ended or asks."""

    async def asked(slug, text, **fields):
        return await done(ada.principal, cast[slug], said(text, **fields))

    return asked


def progress_of(task):
    """What the task told on its way, in order."""
    events = Event.objects.filter(task=task.pk, type="agent_status", payload__state="working").order_by("index")
    said = [event.payload.get("message") or {} for event in events]
    return [part["text"] for one in said for part in one.get("parts", [])]


def delivered(task):
    """The names of the artifacts and their texts."""
    artifacts = Artifact.objects.delivered().filter(task=task.pk)
    return {artifact.name: "".join(part.get("text", "") for part in artifact.parts) for artifact in artifacts}


async def the_record_holds():
    for context in await bridge.run(list, Context.objects.all()):
        assert await bridge.run(replay.differences, context.pk) == []


async def test_the_steps_of_a_chain_are_in_the_record(ask):
    task = await ask("writer", "Write about bees")
    assert task.state == "completed"
    assert await bridge.run(progress_of, task) == ["Outlining…", "Drafting 3 sections…", "Polishing…"]
    assert NOTE in words(task)
    assert task.status_message["metadata"]["models"] == ["scripted:writer"]
    await the_record_holds()


async def test_a_refined_text_is_a_new_task_with_the_same_name_and_a_new_id(ask):
    first = await ask("writer", "Write about bees")
    second = await ask("writer", "Make it shorter", contextId=first.context.context_id)
    assert second.references == [str(first.pk)]
    one, other = [await bridge.run(delivered, task) for task in (first, second)]
    assert one.keys() == other.keys() == {"text.md"}
    assert len(other["text.md"]) < len(one["text.md"])
    ids = await bridge.run(lambda: set(Artifact.objects.values_list("artifact_id", flat=True)))
    assert len(ids) == 2
    await the_record_holds()


async def test_three_reviews_are_told_as_they_come(ask):
    task = await ask("reviewer", "The the report is finished!!!")
    begun, *told = await bridge.run(progress_of, task)
    assert begun.startswith("Reading 5 words")
    assert sorted(line.split(":")[0] for line in told) == ["Clarity", "Correctness", "Tone"]
    assert (await bridge.run(delivered, task)).keys() == {"review.md", "review.json"}
    await the_record_holds()


async def test_the_rounds_of_a_loop_are_told_with_their_scores(ask):
    task = await ask("translator", "Translate to German: the cats sleep")
    told = [line for line in await bridge.run(progress_of, task) if "quality" in line]
    assert [line[:24] for line in told] == ["Round 1: quality 0.67, 0", "Round 2: quality 1.00, 0"]
    await the_record_holds()


async def test_a_project_is_built_by_tasks_of_another_agent(ask):
    task = await ask("builder", "A website about bees")
    assert task.state == "completed"
    told = await bridge.run(progress_of, task)
    assert [line[:11] for line in told if line.startswith("File")] == ["File 1 of 3", "File 2 of 3", "File 3 of 3"]
    assert (await bridge.run(delivered, task)).keys() == {"index.html", "about.html", "style.css"}
    children = await bridge.run(lambda: list(Task.objects.filter(parent=task.pk).values_list("agent__slug", "state")))
    assert children == [("builder-worker", "completed")] * 4
    await the_record_holds()


async def test_a_question_of_a_worker_reaches_the_person_and_no_file_is_written_twice(ask):
    answers = {
        "Which e-mail address shall the contact page show?": "bee@example.org",
        "Whose name shall stand in the license?": "Ada",
    }
    task = await ask("builder", "A website about bees, with a contact page and a license")
    while answers:
        assert task.state == TaskState.INPUT_REQUIRED, words(task)
        task = await ask("builder", answers.pop(words(task)), taskId=str(task.pk))
    assert task.state == "completed", words(task)
    files = await bridge.run(delivered, task)
    assert list(files) == ["index.html", "about.html", "style.css", "contact.html", "LICENSE.txt"]
    assert "bee@example.org" in files["contact.html"]
    assert "Copyright Ada." in files["LICENSE.txt"]
    assert await bridge.run(Task.objects.filter(parent=task.pk).count) == 6, "a plan and five files"
    await the_record_holds()


async def test_small_talk_leaves_no_task_and_work_is_passed_on(ada, cast, said, ask):
    talk = await sent(ada.principal, cast["smart-router"], said("hello"))
    assert talk.task is None
    assert "I pass work on" in talk.answer["parts"][0]["text"]
    assert not await bridge.run(Task.objects.exists)
    task = await ask("smart-router", "Translate to German: the cat")
    assert await bridge.run(delivered, task) == {"translation.txt": "die Katze"}
    child = await bridge.run(lambda: Task.objects.select_related("agent").get(parent=task.pk))
    assert child.agent.slug == "translator"
    await the_record_holds()


async def test_a_question_is_passed_up_through_the_router_and_its_answer_down(ask):
    task = await ask("smart-router", "Translate: the cat")
    assert words(task) == "Into which language: German, French or Spanish?"
    task = await ask("smart-router", "French", taskId=str(task.pk))
    assert await bridge.run(delivered, task) == {"translation.txt": "le chat"}
    assert await bridge.run(Task.objects.filter(parent=task.pk).count) == 1
    await the_record_holds()


async def test_the_calls_of_tools_are_in_the_record(ask):
    task = await ask("assistant", "What is 6 * 7?")
    events = await bridge.run(lambda: {event.type: event.payload for event in Event.objects.filter(task=task.pk)})
    assert events["agent_tool_call"]["arguments"] == {"expression": "6 * 7"}
    assert events["agent_tool_result"]["result"] == "42"
    (answer,) = (await bridge.run(delivered, task)).values()
    assert answer == words(task) == f"calculate: 42\n\n{NOTE}"
    await the_record_holds()


async def test_an_agent_is_a_tool_of_another(ask):
    task = await ask("assistant", "Translate to French: Thank you")
    assert "Merci" in words(task)
    assert await bridge.run(Task.objects.filter(parent=task.pk).count) == 1


def link_of(task):
    return LINK.search(task.status_message["metadata"]["url"])[1]


async def test_a_trip_goes_from_question_to_question_to_a_key_to_the_plan(ada, ask):
    task = await ask("travel", "I want to go away")
    for answer in ("Lisbon", "tomorrow", "2"):
        assert task.state == TaskState.INPUT_REQUIRED
        task = await ask("travel", answer, taskId=str(task.pk))
    assert task.state == TaskState.AUTH_REQUIRED
    secret = "k-0123456789"
    await bridge.run(lambda: credential_requests.give(credential_requests.find(link_of(task)), Given(secret), ada))
    await until(lambda: state_of(task.pk) == "completed")
    page = (await bridge.run(delivered, task))["itinerary.md"]
    assert page.startswith("# Three days in Lisbon")
    log = await bridge.run(lambda: str(list(Event.objects.values_list("payload", flat=True))))
    assert secret not in log
    await the_record_holds()


async def test_who_declines_the_key_may_go_on_without_payment(ada, ask):
    task = await ask("travel", "Two of us to Lisbon tomorrow")
    await bridge.run(lambda: credential_requests.decline(credential_requests.find(link_of(task)), ada))
    await until(lambda: state_of(task.pk) == "failed")
    after = await ask("travel", "without payment", contextId=task.context.context_id)
    assert after.state == "completed"
    assert "You would pay when you travel." in words(after)
    await the_record_holds()


@pytest.mark.parametrize("slug", ["writer", "reviewer", "translator", "assistant"])
async def test_a_stop_in_the_middle_stops_the_work(ada, cast, said, endpoint: Endpoint, slug):
    endpoint.replies = [hangs("")] * 3
    receipt = await sent(ada.principal, cast[slug], said("Translate to German: the cat"))
    assert await asyncio.to_thread(endpoint.hanging.wait, 20)
    await bridge.run(canceling.cancel, ada.principal, cast[slug], str(receipt.task))
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)
    task = await ended(receipt)
    assert task.state == "canceled"
    assert await bridge.run(delivered, task) == {}
    await the_record_holds()


async def test_a_stop_of_the_builder_stops_its_workers(ada, cast, said, endpoint: Endpoint):
    endpoint.replies = [hangs("")]  # while the worker plans
    receipt = await sent(ada.principal, cast["builder"], said("A website about bees"))
    assert await asyncio.to_thread(endpoint.hanging.wait, 20)
    await bridge.run(canceling.cancel, ada.principal, cast["builder"], str(receipt.task))
    assert (await ended(receipt)).state == "canceled"
    await until(lambda: list(Task.objects.filter(parent=receipt.task).values_list("state", flat=True)) == ["canceled"])
    assert await asyncio.to_thread(endpoint.hung_up.wait, 10)


@pytest.mark.parametrize(
    "text", ["مرحبا بكم في المدينة", "🎉👩‍👩‍👧", "The reef grows. " * 6500], ids=["rtl", "emoji", "100 KB"]
)
@pytest.mark.parametrize("slug", AGENTS)
async def test_any_text_is_answered_and_recorded(ada, cast, said, slug, text):
    receipt = await sent(ada.principal, cast[slug], said(text))
    if receipt.task is not None:
        task = await ended(receipt)
        assert task.state in ("completed", "input-required"), words(task)
    await the_record_holds()
