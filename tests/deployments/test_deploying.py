"""A folder becomes an agent that answers, and its newest version."""

import asyncio
import io
import os
import zipfile

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from agentkit.command.packing import pack_folder
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import revert
from apps.agents.rollouts.models import Rollout
from apps.agents.rollouts.releasing import ROLLOUTS
from apps.deployments import processes, registering
from apps.deployments.models import AgentSecret, Deployment
from apps.remote.models import RemoteAgent
from apps.remote.probes import inspect_agent
from parley import db
from tests import members
from tests.deployments import folder
from tests.remote.conversing import Talk, words

pytestmark = pytest.mark.django_db(transaction=True)


def deploy(at, slug="loud-bird", **more):
    return done(registering.begin(slug, pack_folder(at), **more))


def done(begun):
    asyncio.run(registering.deploy(begun.pk))
    begun.refresh_from_db()
    return begun


def add(at, *words_):
    return call_command("agents", "add", str(at), *words_)


async def answer(person, said):
    agent = await db.run(lambda: Agent.objects.select_related("current_version").get(slug="loud-bird"))
    return words(await Talk(person, agent).ask(said))


def test_folder_becomes_an_agent_with_its_description(tmp_path, capsys):
    add(folder.write(tmp_path / "loud_bird", more="access: public\nmcp_tools: agent\n"))
    agent = Agent.objects.get(slug="loud-bird")
    assert (agent.name, agent.access) == ("Loud bird", Agent.Access.PUBLIC)
    assert agent.mcp_tools == Agent.McpTools.AGENT
    assert agent.skills[0]["examples"] == ["Say hello"]
    assert "/a2a/loud-bird" in capsys.readouterr().out


@pytest.mark.usefixtures("worker")
async def test_agent_of_folder_answers_as_its_newest_version(ada, tmp_path):
    await db.run(deploy, folder.write(tmp_path / "one"))
    assert await answer(ada, "hello") == "HELLO!"
    await db.run(deploy, folder.write(tmp_path / "one", mark="?"))
    assert await answer(ada, "hello") == "HELLO?"
    await db.run(lambda: revert(Agent.objects.get(slug="loud-bird").versions.get(number=1), None))
    assert await answer(ada, "hello") == "HELLO!"


@pytest.mark.usefixtures("worker")
async def test_candidate_of_folder_runs_beside_current_version(ada, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "MOST_PLACES", 1)

    def roll_out():
        operator = members.operator("eve@example.org", "change_agent", "view_agentversion")
        candidate = AgentVersion.objects.select_related("agent").get(number=2)
        ROLLOUTS.store(operator.principal, Rollout(candidate=candidate, percent=100))

    first = await db.run(lambda: registering.begin("loud-bird", pack_folder(folder.write(tmp_path / "one"))))
    other = pack_folder(folder.write(tmp_path / "one", mark="?"))
    second = await db.run(lambda: registering.begin("loud-bird", other, as_candidate=True))
    agent = await db.run(lambda: done(first).agent)
    before = Talk(ada, await db.run(lambda: Agent.objects.select_related("current_version").get(pk=agent.pk)))
    assert words(await before.ask("hello")) == "HELLO!"
    await db.run(done, second)
    await db.run(roll_out)
    assert await answer(ada, "hello") == "HELLO?"
    assert words(await before.ask("hello")) == "HELLO!"
    assert all(
        processes.Place("loud-bird", one.digest).home.exists() for one in await db.run(list, Deployment.objects.all())
    )


@pytest.mark.usefixtures("worker")
async def test_process_has_its_named_secrets_alone(ada, tmp_path):
    agent = await db.run(lambda: deploy(folder.write(tmp_path / "one")).agent)
    assert await answer(ada, "secret") == "none"
    await db.run(AgentSecret.objects.create, agent=agent, name="OPENAI_API_KEY", value="canary")
    assert await answer(ada, "secret") == "canary"


async def test_healthy_is_what_starts(tmp_path):
    agent = await db.run(lambda: deploy(folder.write(tmp_path / "one")).agent)
    remote = await db.run(lambda: RemoteAgent.objects.select_related("agent__current_version").get(agent=agent))
    assert [one.error for one in await inspect_agent(remote, "")] == [""]


def test_process_that_does_not_start_registers_nothing(tmp_path):
    at = folder.write(tmp_path / "one")
    (at / "agent.py").write_text("raise ValueError('no model')")
    with pytest.raises(CommandError, match="no model"):
        add(at)
    assert not Agent.objects.filter(slug="one").exists()
    assert Deployment.objects.get().state == Deployment.State.FAILED


def test_slug_of_another_kind_stays(tmp_path, echo):
    with pytest.raises(CommandError, match="another kind"):
        add(folder.write(tmp_path / "one"), "--slug", echo.slug)


def test_operator_uploads_a_folder(admin_client, tmp_path):
    at, file = folder.write(tmp_path / "one"), io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for one in at.iterdir():
            made.write(one, one.name)
    file.name, _ = "one.zip", file.seek(0)
    page = admin_client.post(reverse("admin:deployments_deployment_add"), {"slug": "loud-bird", "file": file})
    assert page.status_code == 302
    begun = Deployment.objects.get()
    asyncio.run(registering.deploy(begun.pk))
    shown = admin_client.get(reverse("admin:deployments_deployment_change", args=[begun.pk])).content.decode()
    assert "Loud bird" in shown


def test_oldest_environments_go(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    made = [processes.Place(slug, f"{number:012x}") for slug in ("bird", "bird-two") for number in range(6)]
    for number, place in enumerate(made):
        place.home.mkdir(parents=True)
        os.utime(place.home, (number, number))
    processes.prune("bird", {made[0].digest})
    assert all(place.home.exists() for place in made)
    processes.prune("bird")
    assert [place for place in made if not place.home.exists()] == made[:1]


def test_operator_gives_a_secret_unseen(admin_client, echo):
    secret = {"agent": echo.pk, "name": "OPENAI_API_KEY", "secret": "canary"}
    assert admin_client.post(reverse("admin:deployments_agentsecret_add"), secret).status_code == 302
    given = AgentSecret.objects.get()
    assert given.value == "canary"
    assert b"canary" not in admin_client.get(reverse("admin:deployments_agentsecret_change", args=[given.pk])).content


def test_projects_above_the_data_folder_do_not_matter(settings, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\nrequired-version = '<0'\n")
    settings.DATA_DIR = tmp_path / "var"
    at = folder.write(tmp_path / "one")
    assert deploy(at).state == Deployment.State.DONE, Deployment.objects.get().problem
