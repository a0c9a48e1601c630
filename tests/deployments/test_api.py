"""Operators deploy by the client API: what they send is checked, followed, and given its secrets."""

import asyncio
import datetime
import io
import tarfile
import uuid

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from agentkit import as_handler
from agentkit.command.packing import pack_folder
from agentkit.serving.protocol import card_of
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import ApiKey
from apps.accounts.principals import AGENTS, WRITE
from apps.agents import versions
from apps.agents.models import Agent
from apps.agents.rollouts.models import Rollout
from apps.conversations.sessions.commands import create_session
from apps.deployments import processes, registering
from apps.deployments.models import AgentSecret, Deployment, Folder
from apps.remote import registration
from apps.remote.agent_cards import cards
from apps.remote.agent_cards.card_verification import CardSignature
from apps.remote.agent_cards.cards import FetchedCard
from apps.remote.models import SignatureStatus
from parley import db
from tests.clients.of_the_api import Caller
from tests.deployments import folder

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(transactional_db, ada, data):
    """May deploy and nothing else."""
    ada.is_staff = True
    ada.save()
    names = ("add_deployment", "view_deployment", "add_agentsecret", "view_agentsecret", "delete_agentsecret")
    ada.user_permissions.set(Permission.objects.filter(content_type__app_label="deployments", codename__in=names))
    return Caller(ApiKey.issue(ada, "ci", scopes=[WRITE, AGENTS])[1])


async def upload(caller, content):
    sent = await caller.post("/uploads?filename=a.zip", content, content_type="application/octet-stream")
    return sent.body["id"]


async def send(caller, at, **more):
    content = at if isinstance(at, bytes) else pack_folder(at).archive
    return await caller.post("/deployments", {"slug": "loud-bird", "uploadId": await upload(caller, content), **more})


async def sent_and_done(caller, at, **more):
    begun = await send(caller, at, **more)
    await registering.deploy(begun.body["id"])
    return (await caller.get(f"/deployments/{begun.body['id']}")).body


def registered(slug, digest="a" * 64):
    """An agent that has a folder, without its process."""
    card = cards.read_card(card_of(as_handler(lambda text: text), f"http://{slug}.agent.invalid/", needs_token=False))[
        0
    ]
    deployed = registering.Deployed(FetchedCard(card, card, ()), CardSignature(SignatureStatus.UNSIGNED), digest)
    return registration.save(slug, deployed, update=True)


async def test_folder_becomes_an_agent(operator, tmp_path):
    at = folder.write(tmp_path / "one")
    begun = await send(operator, at, access="public")
    assert (begun.status, begun.body["state"], begun.body["url"]) == (202, "waiting", None)
    await registering.deploy(begun.body["id"])
    done = (await operator.get(f"/deployments/{begun.body['id']}")).body
    assert (done["state"], done["version"], done["digest"]) == ("done", 1, pack_folder(at).digest)
    assert done["url"].endswith("/a2a/loud-bird")
    assert (await db.run(Agent.objects.get, slug="loud-bird")).access == "public"
    assert (await sent_and_done(operator, at))["version"] == 1, "The same folder makes no other version."


async def test_repeated_request_is_one_deployment(operator, tmp_path):
    at = folder.write(tmp_path / "one")
    assert len({(await send(operator, at)).body["id"] for _ in range(2)}) == 1


async def test_failed_deployment_has_its_log(operator, tmp_path):
    at = folder.write(tmp_path / "one")
    (at / "agent.py").write_text("print('before')\nraise ValueError('no model')\n")
    failed = await sent_and_done(operator, at)
    assert failed["state"] == "failed"
    assert "no model" in failed["problem"]
    assert "before" in failed["log"]
    assert not await db.run(Agent.objects.filter(slug="loud-bird").exists)


async def test_agent_starts_with_its_secrets(operator, tmp_path):
    at = folder.write(tmp_path / "one")
    (at / "agent.py").write_text(f"import os\nos.environ['OPENAI_API_KEY']\n{folder.AGENT}")
    done = await sent_and_done(operator, at, secrets={"OPENAI_API_KEY": "canary"})
    assert done["state"] == "done", done
    assert (await db.run(AgentSecret.objects.get)).value == "canary"
    assert (await db.run(Deployment.objects.get)).secrets is None


async def test_secrets_are_set_and_never_read(operator):
    await db.run(registered, "loud-bird")
    secrets = "/agents/loud-bird/secrets"
    given = await operator.put(f"{secrets}/OPENAI_API_KEY", {"value": "canary"})
    listed = await operator.get(secrets)
    assert [one["name"] for one in listed.body["items"]] == ["OPENAI_API_KEY"]
    assert "canary" not in f"{given.body}{listed.body}"
    assert (await operator.delete(f"{secrets}/OPENAI_API_KEY")).status == 204
    assert (await operator.get(secrets)).body["items"] == []
    noted = await db.run(lambda: [one.action for one in AuditEntry.objects.filter(group="agent_secret")])
    assert sorted(noted) == ["agent_secret.removed", "agent_secret.set"]


async def test_unnamed_secret_is_refused(operator, tmp_path):
    refused = await send(operator, folder.write(tmp_path / "one"), secrets={"OTHER": "x"})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "secrets")


async def test_members_and_narrow_keys_deploy_nothing(operator, bob_calls, reads, tmp_path):
    at = folder.write(tmp_path / "one")
    for caller in (bob_calls, reads):
        assert (await caller.post("/deployments", {"slug": "a", "uploadId": str(uuid.uuid4())})).status == 403
        assert (await caller.get("/deployments")).status == 403
        assert (await caller.put("/agents/echo/secrets/A", {"value": "x"})).status == 403
        assert (await caller.post("/agents/echo/versions/1/revert")).status in (403, 404)
    assert (await send(operator, at)).status == 202


async def test_operator_returns_to_a_version(operator, ada):
    for digest in ("a" * 64, "b" * 64):
        await db.run(registered, "loud-bird", digest)
    assert (await operator.post("/agents/loud-bird/versions/1/revert")).status == 404
    rights = Permission.objects.filter(codename__in=("change_agent", "view_agentversion"))
    await db.run(lambda: ada.user_permissions.add(*rights))
    assert (await operator.post("/agents/loud-bird/versions/1/revert")).body["currentVersion"] == 3
    versions = (await operator.get("/agents/loud-bird/versions")).body["items"]
    assert [(one["number"], one["standing"]) for one in versions] == [
        (3, "current"),
        (2, "withdrawn"),
        (1, "earlier"),
    ]
    assert versions[0]["folder"] == versions[2]["folder"] != versions[1]["folder"]
    assert (await operator.post("/agents/loud-bird/versions/3/revert")).body["currentVersion"] == 3


def tar(*members, mode="w:gz"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as made:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(content), kind, "/etc/passwd"
            made.addfile(info, io.BytesIO(content))
    return file.getvalue()


YAML = ("a/agent.yaml", b"serve: ./x\n", tarfile.REGTYPE)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
async def test_tar_file_is_a_folder(operator, mode):
    begun = await send(operator, tar(YAML, ("a/x", b"#!/bin/sh", tarfile.REGTYPE), mode=mode))
    assert (begun.status, begun.body["files"]) == (202, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"no archive at all",
        b"PK\x03\x04 and no more",
        b"\x1f\x8b\x08 and no more",
        tar(YAML)[:-40],
        tar(YAML, ("a/passwords", b"", tarfile.SYMTYPE)),
        tar(YAML, ("a/device", b"", tarfile.CHRTYPE)),
        tar(YAML, ("../../out", b"x", tarfile.REGTYPE)),
        tar(YAML, ("/etc/out", b"x", tarfile.REGTYPE)),
        tar(YAML, YAML),
        tar(YAML, ("a/b", b"x", tarfile.REGTYPE), ("a/b/c", b"x", tarfile.REGTYPE)),
        tar(YAML, ("a/zeros", bytes(40 * 1024**2), tarfile.REGTYPE)),
        tar(("a/agent.yaml", b"serve: [", tarfile.REGTYPE)),
        tar(("a/agent.py", b"x", tarfile.REGTYPE)),
    ],
    ids=[
        "text", "broken zip", "broken gzip", "cut off", "link", "device", "parent folder", "absolute path", "same name",
        "file and folder", "too large", "broken yaml", "no agent.yaml",
    ],
)  # fmt: skip
async def test_hostile_archive_is_refused(operator, content):
    refused = await send(operator, content)
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "uploadId"), refused.body
    assert not await db.run(Deployment.objects.exists)


async def test_lease_lasts_as_long_as_the_setup(operator, tmp_path, monkeypatch):
    """Another process would claim it otherwise."""
    begun = await send(operator, folder.write(tmp_path / "one"))
    row = Deployment.objects.filter(pk=begun.body["id"])
    monkeypatch.setattr(registering, "EXTEND_SECONDS", 0.01)
    over = timezone.now() - datetime.timedelta(hours=1)

    async def slow(place, say):
        await db.run(row.update, lease_until=over)
        while (await db.run(row.get)).lease_until == over:  # noqa: ASYNC110 it is the database's
            await asyncio.sleep(0.01)
        raise registering.RemoteError("It took long.")

    monkeypatch.setattr(processes, "socket_at", slow)
    await asyncio.wait_for(registering.deploy(begun.body["id"]), 10)
    assert (await db.run(row.get)).problem == "It took long."


async def test_lost_deployment_changes_nothing(operator, tmp_path, monkeypatch):
    begun = await send(operator, folder.write(tmp_path / "one"))
    row = Deployment.objects.filter(pk=begun.body["id"])
    monkeypatch.setattr(registering, "EXTEND_SECONDS", 0.01)

    async def slow(place, say):
        await db.run(row.update, fence=7)
        await asyncio.sleep(60)

    monkeypatch.setattr(processes, "socket_at", slow)
    await asyncio.wait_for(registering.deploy(begun.body["id"]), 10)
    assert (await db.run(row.get)).state == "working"


def test_sessions_and_rollouts_use_folders(data, ada):
    create_session(ada.principal, registered("bird", "a" * 64))
    *_, last = (registered("bird", mark * 64) for mark in "bcd")
    Agent.objects.update(session_versions=Agent.SessionVersions.KEPT)
    proposed = versions.propose_version(last, last.versions.get(number=2).content)
    Agent.objects.update(rollout=Rollout.objects.create(agent=last, candidate=proposed, percent=0))
    used = registering.folders_in_use(Agent.objects.get())
    assert used == {mark * 64 for mark in "abd"}
    Agent.objects.update(session_versions=Agent.SessionVersions.NEWEST, rollout=None)
    assert registering.folders_in_use(Agent.objects.get()) == {"d" * 64}


def test_last_of_three_requests_is_what_runs(tmp_path):
    a, b = (pack_folder(folder.write(tmp_path / "bird", mark=mark)) for mark in "!?")
    first, _ = registering.begin("bird", a), registering.begin("bird", b)
    last = registering.begin("bird", a)
    assert last.pk != first.pk
    assert registering.begin("bird", a).pk == last.pk


def test_unused_folders_and_homes_go(data, tmp_path, settings):
    long_ago = timezone.now() - datetime.timedelta(days=1)
    begun = registering.begin("waits", pack_folder(folder.write(tmp_path / "waits")))
    used = registering.begin("bird", pack_folder(folder.write(tmp_path / "bird", mark="?")))
    registered("bird", used.digest)
    Deployment.objects.filter(pk=used.pk).update(state=Deployment.State.DONE, finished_at=long_ago)
    gone = registering.begin("gone", pack_folder(folder.write(tmp_path / "gone", mark="+")))
    Deployment.objects.filter(pk=gone.pk).update(state=Deployment.State.FAILED, finished_at=long_ago)
    homes = [processes.Place(one.slug, one.digest).home for one in (begun, used, gone)]
    for home in homes:
        home.mkdir(parents=True, exist_ok=True)
    assert registering.delete_unused() == 0, "the folder was used just now: its agent may start"
    Folder.objects.update(used_at=long_ago)
    assert registering.delete_unused() == 2
    assert {one.pk for one in Folder.objects.all()} == {begun.digest, used.digest}
    assert [home.exists() for home in homes] == [True, True, False]
    Agent.objects.get(slug="bird").delete()
    registering.delete_unused()
    assert [home.exists() for home in homes] == [True, False, False]
    assert [one.pk for one in Folder.objects.all()] == [begun.digest]
