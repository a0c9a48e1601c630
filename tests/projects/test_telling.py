"""Agents are told the project of a session: which of them, what, and what the record keeps of it."""

import pytest
from django.conf import settings as django_settings
from django.core.files.storage import default_storage

from agentkit import Completed, UnreadableContent
from apps.agents.registration import register_hosted
from apps.automation import reruns
from apps.conversations.forks.forking import fork
from apps.conversations.sessions import commands
from apps.engine import accept, send
from apps.optional.projects import files
from apps.optional.projects.projects import SHARE, save
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record.content import blobs
from apps.record.execution import Run
from apps.record.models import Context
from apps.record.projection import differences
from apps.remote.execution import snapshots
from parley import db
from tests.remote.conftest import outward  # noqa: F401 fixture
from tests.remote.conversing import Talk, remote_agent
from tests.remote.scripted import serving
from tests.working import begin, end, worked_on

pytestmark = pytest.mark.django_db


@pytest.fixture
def near(outward, worker):  # noqa: F811
    with serving() as scripted:
        yield scripted


def begun(principal, agent, project):
    return commands.create_session(principal, agent, project=project.pk).context


def ask(principal, agent, context, said):
    """The turn of a message in the session."""
    return begin(accept.accept(principal, agent, said(contextId=context.name_for(principal))).run)


def test_run_keeps_what_its_agent_was_told(ada, echo, trip, budget, said):
    context = begun(ada.principal, echo, trip)
    turn = ask(ada.principal, echo, context, said)
    assert (turn.project.name, turn.project.instructions) == ("Trip", "Prices are in euros.")
    assert turn.project.file("budget.txt").read() == b"At most 900 euros."
    end(turn, Completed("done"))
    before = Run.objects.get(pk=turn.lease.run_id)
    trip.instructions = "Prices are in yen."
    save(ada.principal, trip)
    after = Run.objects.get(pk=turn.lease.run_id)
    assert after.input["project"]["instructions"] == "Prices are in euros."
    assert (after.input, after.input_hash) == (before.input, before.input_hash)
    assert ask(ada.principal, echo, context, said).project.instructions == "Prices are in yen."


def test_removed_file_says_so(ada, echo, trip, budget, said, settings, django_capture_on_commit_callbacks):
    settings.UNUSED_FILE_SECONDS = -1
    turn = ask(ada.principal, echo, begun(ada.principal, echo, trip), said)
    with django_capture_on_commit_callbacks(execute=True):
        files.remove(budget, ada.principal)
    assert not default_storage.exists(blobs.path_of(budget.sha256))
    with pytest.raises(UnreadableContent, match="removed"):
        turn.project.file("budget.txt").read()


def test_log_says_where_the_session_is(ada, echo, trip, said):
    context = begun(ada.principal, echo, trip)
    assert (context.project, differences(context.pk)) == (trip.pk, [])
    commands.move_session(ada.principal, context.pk, None)
    assert Context.objects.get(pk=context.pk).project is None
    commands.move_session(ada.principal, context.pk, trip.pk)
    assert (Context.objects.get(pk=context.pk).project, differences(context.pk)) == (trip.pk, [])


def test_fork_stays_in_the_project(ada, echo, trip, said):
    context = begun(ada.principal, echo, trip)
    end(ask(ada.principal, echo, context, said), Completed("done"))
    made = fork(ada.principal, context.pk, Context.objects.get(pk=context.pk).last_event, reason="fork")
    assert (made.project, differences(made.pk)) == (trip.pk, [])


def test_session_run_again_stays_in_the_project(ada, echo, trip, said):
    context = begun(ada.principal, echo, trip)
    end(ask(ada.principal, echo, context, said), Completed("done"))
    made, _ = reruns.start(ada.principal, context.pk)
    assert made.project == trip.pk


def test_only_who_sees_a_project_has_agents_told(ada, echo, trip, colleague, said):
    context = commands.share_session(ada.principal, begun(ada.principal, echo, trip).pk, Context.Sharing.WORKSPACE)
    assert ask(colleague, echo, context, said).project is None, "Bob could ask what it says"
    assert ask(ada.principal, echo, context, said).project.name == "Trip"
    SHARE.perform(ada.principal, trip)
    assert ask(colleague, echo, context, said).project.name == "Trip"


def test_who_left_the_workspace_has_no_agent_told(ada, bob, echo, trip, colleague, said):
    SHARE.perform(ada.principal, trip)
    context = begun(colleague, echo, trip)
    sent = accept.accept(colleague, echo, said(contextId=context.context_id))
    bob.memberships.filter(workspace=trip.workspace).delete()
    assert begin(sent.run).project is None


@pytest.mark.django_db(transaction=True)
async def test_called_agents_and_steps_are_told(ada, trip, budget, teller, worker, said):
    asker = await db.run(register_hosted, "asker", "tests.projects.agents:Asker")
    about = {"name": "Plan", "description": "A plan.", "steps": {"one": {"agent": "teller", "message": "hello"}}}
    plan = await db.run(register_plan, "plan", PlanDefinition.read(about))
    for agent in (asker, plan):
        context = await db.run(begun, ada.principal, agent, trip)
        task = await worked_on(ada.principal, agent, said(contextId=context.context_id))
        words = await db.run(lambda: [one.status_message for one in task.children.all()])  # noqa: B023
        assert "Trip Prices are in euros. At most 900 euros." in str(words)


@pytest.mark.django_db(transaction=True)
async def test_answers_without_task_are_told(ada, trip, budget, said):
    agent = await db.run(register_hosted, "answerer", "tests.projects.agents:Answerer")
    context = await db.run(begun, ada.principal, agent, trip)
    sent = await send.send(ada.principal, agent, said(contextId=context.context_id))
    assert sent.answer["parts"][0]["text"] == "Trip Prices are in euros. At most 900 euros."


@pytest.mark.django_db(transaction=True)
async def test_remote_agents_are_told_if_their_card_asks(ada, trip, budget, near):
    near.tells("COMPLETED", "Green it is.")
    uri = "https://other.example/ext/project/v1"
    asks = await db.run(lambda: remote_agent(near.card(extensions=[{"uri": uri}])))
    silent = await db.run(remote_agent, near.card(), "silent")
    for agent in (silent, asks):
        context = await db.run(begun, ada.principal, agent, trip)
        await Talk(ada, agent, context.context_id).ask("hello")
    untold, told = near.sends
    assert "euros" not in str(untold)
    file = {"filename": "budget.txt", "mediaType": "text/plain", "text": "At most 900 euros."}
    about = {"id": str(trip.pk), "name": "Trip", "instructions": "Prices are in euros.", "files": [file]}
    assert (told["metadata"], told["extensions"]) == ({uri: about}, [uri])


@pytest.mark.django_db(transaction=True)
async def test_large_files_are_links_that_end_with_the_file(ada, trip, near, client, monkeypatch):
    monkeypatch.setattr(snapshots, "LARGEST_PROJECT_FILE", 5)
    file = await db.run(files.add, ada.principal, trip, {"text": "At most 900 euros.", "filename": "budget.txt"})
    near.tells("COMPLETED", "Green it is.")
    agent = await db.run(lambda: remote_agent(near.card(extensions=[{"uri": "https://a.example/ext/project/v1"}])))
    context = await db.run(begun, ada.principal, agent, trip)
    await Talk(ada, agent, context.context_id).ask("hello")
    [link] = near.sends[0]["metadata"]["https://a.example/ext/project/v1"]["files"]
    address = link["url"].removeprefix(django_settings.PUBLIC_BASE_URL)
    assert (await db.run(client.get, address)).content == b"At most 900 euros."
    default_storage.delete(blobs.path_of(file.sha256))
    assert (await db.run(client.get, address)).status_code == 404
