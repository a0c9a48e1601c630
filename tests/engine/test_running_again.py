"""A task runs again: with which version, for whom, and how the old and the new one name each other."""

import uuid

import pytest
from django.urls import reverse

from agentkit import Completed, InputRequired
from apps.accounts.models import person_of
from apps.accounts.permissions import Role
from apps.agents.models import Agent, AgentVersion
from apps.automation import reruns
from apps.conversations.queue.messages import claim_next, send_due
from apps.engine import accept
from apps.engine.send import chosen_version, repetitions, run_again
from apps.record import projection
from apps.record.errors import InvalidFields
from apps.record.models import Context, Task
from parley import db
from tests.agents.definitions import clerk
from tests.members import member, operator
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def twice(ada):
    """An agent of Ada's workspace with two versions."""
    clerk(instructions="Answer in one word.")
    made = clerk(instructions="Answer in two words.")
    Agent.objects.filter(pk=made.pk).update(workspace=ada.personal_workspace, access="workspace")
    return Agent.objects.get(pk=made.pk)


@pytest.fixture
def old(ada, twice, said):
    receipt = accept.accept(ada.principal, twice, said("Which color?"))
    end(begin(receipt.run), Completed("Blue."))
    return Task.objects.get(pk=receipt.task)


def version(agent, number):
    return AgentVersion.objects.get(agent=agent, number=number)


def test_chosen_version_takes_all_turns(ada, twice, old, said):
    made = run_again(old, version=version(twice, 1))
    first = begin(made.run)
    assert first.agent.current_version.number == 1
    end(first, InputRequired("Light or dark?"))
    answered = accept.accept(ada.principal, twice, said("light", taskId=str(made.task)))
    assert begin(answered.run).agent.current_version.number == 1
    assert projection.differences(old.context_id) == []
    assert begin(run_again(old).run).agent.current_version.number == 2


def test_options_of_the_session_stay(ada, twice, old):
    Context.objects.filter(pk=old.context_id).update(options={"model": "small"})
    assert begin(run_again(old, version=version(twice, 1)).run).options == {"model": "small"}


def test_old_and_new_task_name_each_other(old, twice, bob):
    new = Task.objects.get(pk=run_again(old, version=version(twice, 1)).task)
    assert new.metadata == {"repeats": str(old.pk), "agentVersion": 1}
    assert (repetitions(Task.objects.all(), old), repetitions(Task.objects.all(), new)) == ((None, [new]), (old, []))
    assert repetitions(Task.objects.visible_to(bob.principal), new) == (None, [])


def test_builders_and_operators_choose_versions(ada, bob, twice, echo):
    assert chosen_version(ada.principal, twice, 1) == version(twice, 1)
    for principal, allowed in (
        (bob.principal, False),
        (member(bob, ada, Role.VIEWER), False),
        (member(bob, ada, Role.MANAGER), True),
        (operator("sees@example.com", "view_agentversion").principal, True),
        (operator("other@example.com", "view_task").principal, False),
    ):
        if allowed:
            assert chosen_version(principal, twice, 1) == version(twice, 1), person_of(principal)
        else:
            with pytest.raises(InvalidFields):
                chosen_version(principal, twice, 1)
    for agent, number in ((twice, 3), (echo, 1)):
        with pytest.raises(InvalidFields):
            chosen_version(ada.principal, agent, number)


@pytest.mark.django_db(transaction=True)
def test_task_page_offers_versions_and_shows_both(ada_browser, old, twice):
    address = f"/tasks/{old.pk}"
    assert [one.number for one in ada_browser.get(address).context["versions"]] == [2, 1]
    for chosen, status in (("1", 201), ("3", 422), ("x", 422)):
        said = {"message": str(uuid.uuid4()), "task": str(old.pk), "version": chosen}
        assert ada_browser.post(f"/sessions/{old.context_id}/again", said).status_code == status, chosen
    new = Task.objects.exclude(pk=old.pk).get()
    assert begin(new.runs.get().pk).agent.current_version.number == 1
    assert f'href="/tasks/{new.pk}"' in ada_browser.get(address).text
    assert f'href="{address}"' in ada_browser.get(f"/tasks/{new.pk}").text


def test_admin_runs_versions_and_shows_both(admin_client, old, twice):
    def page_of(task, ending="change"):
        return reverse(f"admin:record_task_{ending}", args=[task.pk])

    press = page_of(old, "run_version")
    assert "Version 1" in admin_client.get(press).text
    admin_client.post(press, {"_form_submitted": "True", "version": "1"})
    new = Task.objects.exclude(pk=old.pk).get()
    assert (new.metadata["agentVersion"], new.owner) == (1, old.owner)
    for one, other in ((old, new), (new, old)):
        assert page_of(other) in admin_client.get(page_of(one)).text
    Agent.objects.filter(pk=twice.pk).update(kind="hosted", handler="examples.agents.echo:Echo")
    assert press not in admin_client.get(page_of(old)).text, "a handler is what it is"


@pytest.mark.django_db(transaction=True)
async def test_api_runs_a_task_again_once(ada_calls, bob_calls, old):
    address, key = f"/tasks/{old.pk}/rerun", "k"
    made = await ada_calls.post(address, {"version": 1}, Idempotency_Key=key)
    assert (made.status, made.body["references"]) == (201, [str(old.pk)])
    new = await db.run(Task.objects.get, pk=made.body["id"])
    assert new.metadata["agentVersion"] == 1
    again = await ada_calls.post(address, {"version": 1}, Idempotency_Key=key)
    assert (again.status, again.body["id"]) == (200, made.body["id"])
    assert (await ada_calls.post(address, {"version": 7})).status == 422
    assert (await bob_calls.post(address, {})).status == 404


@pytest.mark.django_db(transaction=True)
async def test_session_runs_again_with_a_version(ada, old, twice):
    made, _ = await db.run(reruns.start, ada.principal, old.context_id, version=await db.run(version, twice, 1))
    await send_due(made.pk)
    task = await db.run(Task.objects.get, context=made)
    assert task.metadata["agentVersion"] == 1
    assert await db.run(claim_next, made.pk) is None
