"""Exporting a person's data, and deleting their account."""

import io
import json
import zipfile

import pytest
from django.contrib.admin.models import CHANGE, LogEntry

import db
from apps.accounts.authentication import BadCredentials, api_key_principal
from apps.accounts.models import ApiKey, AuditAct, AuditLine, User
from apps.agents.models import Agent
from apps.features.archive.archiving import move_to_cold_storage
from apps.features.credentials.models import Credential
from apps.features.sessions import commands
from apps.features.sessions.deletion import delete_sessions_of_deleted_accounts
from apps.record.models import Context, Message, Task
from tests.web import telling

PASSWORD = "correct horse"
DELETE = {"email": "ada@example.org", "current_password": PASSWORD}


async def unpacked(client) -> zipfile.ZipFile:
    answer = await client.post("/settings/data/export")
    pieces = [piece async for piece in answer.streaming_content]
    return zipfile.ZipFile(io.BytesIO(b"".join(pieces)))


@pytest.mark.django_db(transaction=True)  # the stream asks the database in threads
class TestExport:
    async def test_it_has_profile_keys_and_every_session_with_its_files(self, ada, ada_at_work, finished):
        await db.run(ApiKey.issue, ada, "laptop")
        archive = await unpacked(ada_at_work)
        assert archive.testzip() is None
        assert json.loads(archive.read("profile.json"))["email"] == "ada@example.org"
        [key] = json.loads(archive.read("keys.json"))
        assert key["name"] == "laptop"
        assert "digest" not in key
        [folder] = {name.rpartition("/")[0] for name in archive.namelist() if name.endswith("/session.md")}
        names = {name.removeprefix(f"{folder}/") for name in archive.namelist() if name.startswith(folder)}
        assert {"session.md", "session.json", "files/notes.md", "files/dot.png"} <= names
        assert archive.read(f"{folder}/files/notes.md") == b"# Notes\n"
        session = json.loads(archive.read(f"{folder}/session.json"))
        assert session["id"] == str(finished.context)
        assert [task["state"] for task in session["tasks"]] == ["completed"]

    async def test_sessions_in_cold_storage_are_in_it_and_other_peoples_are_not(
        self, ada, bob, ada_at_work, finished, echo
    ):
        def prepare():
            telling.finished(bob, echo, {"secret.md": telling.text("of Bob", "text/markdown")})
            commands.archive_session(ada.principal, finished.context)
            move_to_cold_storage(finished.context)

        await db.run(prepare)
        names = (await unpacked(ada_at_work)).namelist()
        assert sum(name.endswith("/session.md") for name in names) == 1
        assert any(name.endswith("files/notes.md") for name in names)
        assert not any("secret" in name for name in names)


def test_nobody_exports_without_signing_in_or_by_a_link(client, ada_browser):
    assert client.post("/settings/data/export")["Location"].startswith("/sign-in")
    assert ada_browser.get("/settings/data/export").status_code == 405


class TestDeleting:
    def test_it_takes_the_address_and_the_password(self, ada, ada_browser, subtests):
        for wrong in ({"email": "bob@example.org"}, {"email": ""}, {"current_password": "guess"}):
            with subtests.test(**wrong):
                assert ada_browser.post("/settings/data/delete", {**DELETE, **wrong}).status_code == 422
        assert User.objects.get(pk=ada.pk).is_active

    def test_access_ends_at_once_everywhere_and_nothing_names_the_person(self, client, ada, ada_browser, browser_of):
        other = browser_of(ada)
        _, text = ApiKey.issue(ada, "laptop")
        for row in (ada, ada.personal_workspace):
            LogEntry.objects.log_actions(ada.pk, [row], CHANGE, "Changed.")
        answer = ada_browser.post("/settings/data/delete", DELETE)
        assert answer.status_code == 200
        for browser in (ada_browser, other):
            assert browser.get("/inbox")["Location"].startswith("/sign-in")
        with pytest.raises(BadCredentials):
            api_key_principal(f"Bearer {text}")
        assert client.post("/sign-in", {"username": "ada@example.org", "password": PASSWORD}).status_code == 200
        left = User.objects.values().get(pk=ada.pk)
        assert not [value for value in left.values() if "ada" in str(value).lower()]
        assert set(LogEntry.objects.values_list("object_repr", flat=True)) == {"Deleted account"}
        assert User.objects.create_user("ada@example.org", PASSWORD).pk != ada.pk, "the address is free again"
        assert AuditLine.objects.get(act=AuditAct.ACCOUNT_DELETED).actor == f"user:{ada.pk}"

    def test_sessions_and_their_work_go_and_those_of_others_stay(self, ada, bob, echo, ada_browser, finished):
        running = telling.begun(ada, echo)
        theirs = telling.finished(bob, echo, {})
        ada_browser.post("/settings/data/delete", DELETE)
        assert delete_sessions_of_deleted_accounts() == 2
        for receipt in (finished, running):
            assert Context.objects.get(pk=receipt.context).deleted_at is not None
            assert not Task.objects.filter(pk=receipt.task).exists()
        assert Message.objects.filter(context=theirs.context).exists()
        assert delete_sessions_of_deleted_accounts() == 0

    def test_credentials_go_and_agents_that_others_use_stay(self, ada, echo, countdown, ada_browser):
        Credential.objects.create(agent=echo, user=ada, service="Calendar", auth_type="api_key", secret="s3cret")
        Agent.objects.filter(pk=echo.pk).update(workspace=ada.personal_workspace, access=Agent.Access.AUTHENTICATED)
        own = {"workspace": ada.personal_workspace, "access": Agent.Access.WORKSPACE}
        Agent.objects.filter(pk=countdown.pk).update(**own)
        ada_browser.post("/settings/data/delete", DELETE)
        assert not Credential.objects.exists()
        assert Agent.objects.get(pk=echo.pk).is_enabled
        assert not Agent.objects.get(pk=countdown.pk).is_enabled

    def test_the_last_operator_stays(self, ada, bob, ada_browser):
        User.objects.filter(pk=ada.pk).update(is_staff=True, is_superuser=True)
        assert ada_browser.post("/settings/data/delete", DELETE).status_code == 422
        User.objects.filter(pk=bob.pk).update(is_staff=True)
        assert ada_browser.post("/settings/data/delete", DELETE).status_code == 422, "nobody could make operators"
        assert User.objects.get(pk=ada.pk).is_active
        User.objects.filter(pk=bob.pk).update(is_superuser=True)
        assert ada_browser.post("/settings/data/delete", DELETE).status_code == 200
