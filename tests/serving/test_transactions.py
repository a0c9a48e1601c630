"""No door does slow work within a transaction: on SQLite nobody else could write meanwhile."""

import base64
import os
import uuid
from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection, transaction
from django.template.loader import render_to_string
from django.test import Client

from apps.accounts.models import ApiKey, User
from apps.accounts.people import invitations
from apps.accounts.principals import READ
from tests import slow_work
from tests.web.test_oauth import SECRET, allow, ask, bob_browses, code_of, exchange, program, token

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bob_browses", "program"]

PASSWORD = "correct horse"
NEW_PASSWORD = "a longer staple battery"
LARGE = os.urandom(400_000)


class Doors:
    """What people and programs do at each door. Each answers whether it was let in."""

    def __init__(self, ada: User, browser: Client) -> None:
        self.ada, self.browser = ada, browser
        self.key = {"Authorization": f"Bearer {ApiKey.issue(ada, 'doors')[1]}"}

    def api(self, path: str, body: object) -> int:
        answer = Client().post(f"/api/v1{path}", body, content_type="application/json", headers=self.key)
        return answer.status_code

    def a2a(self, method: str, params: object) -> int:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {**self.key, "A2A-Version": "1.0"}
        answer = Client().post("/a2a/echo", call, content_type="application/json", headers=headers)
        return 500 if "error" in answer.json() else answer.status_code

    def sign_in(self, password: str = PASSWORD) -> int:
        return Client().post("/sign-in", {"username": self.ada.email, "password": password}).status_code

    def sign_up(self) -> int:
        self.ada.is_staff = self.ada.is_superuser = True
        self.ada.save()
        _, link = invitations.invite(self.ada, "grace@example.org")
        values = {"email": "grace@example.org", "name": "Grace", "password": NEW_PASSWORD}
        return Client().post(f"/{link.partition('//')[2].partition('/')[2]}", values).status_code

    def change_password(self) -> int:
        values = {"current_password": PASSWORD, "new_password": NEW_PASSWORD, "again": NEW_PASSWORD}
        return self.browser.post("/settings/password", values).status_code

    def make_key(self) -> int:
        values = {"name": "laptop", "preset": "read", "days": "30", "current_password": PASSWORD}
        return self.browser.post("/settings/keys", values).status_code

    def register_program(self) -> int:
        values = {"name": "A service", "kind": "service", "scopes": [READ], "current_password": PASSWORD}
        return self.browser.post("/settings/programs", values).status_code

    def send_a_file(self) -> int:
        files = [SimpleUploadedFile("a.bin", LARGE, "application/octet-stream")]
        values = {"message": str(uuid.uuid4()), "text": "hello", "files": files}
        return self.browser.post("/agents/echo/messages", values).status_code

    def send_by_api(self) -> int:
        raw = {"raw": base64.b64encode(LARGE).decode(), "filename": "a.bin", "mediaType": "application/octet-stream"}
        return self.api("/sessions", {"agent": "echo", "message": {"parts": [raw]}})

    def send_by_a2a(self) -> int:
        parts = [{"raw": base64.b64encode(LARGE).decode(), "filename": "a.bin"}, {"text": "hello"}]
        said = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts}
        return self.a2a("SendMessage", {"message": said, "configuration": {"returnImmediately": True}})

    def upload(self) -> int:
        made = Client().post(
            "/api/v1/uploads", {"filename": "a", "size": 5}, content_type="application/json", headers=self.key
        )
        piece = {**self.key, "Upload-Offset": "0"}
        path = f"/api/v1/uploads/{made.json()['id']}"
        return Client().patch(path, b"hello", content_type="application/offset+octet-stream", headers=piece).status_code

    def make_webhook(self) -> int:
        values = {"name": "Issues", "agent": "echo", "scheme": "github", "text": "{{ body.title }}", "session": "each"}
        return self.browser.post("/webhooks/new", values).status_code

    def make_webhook_by_api(self) -> int:
        return self.api("/webhooks", {"name": "Issues", "agent": "echo", "scheme": "bearer", "text": "hello"})

    def make_channel(self) -> int:
        return self.api("/notifications/channels", {"type": "webhook", "url": "https://192.0.43.8/"})

    def make_agent(self) -> int:
        values = {"name": "Letter writer", "instructions": "Write.", "access": "owner", "max_steps": 10, "minutes": 10}
        return self.browser.post("/agents/new", values).status_code

    def command(self) -> int:
        call_command("create_user", "grace@example.org")
        call_command("create_api_key", "grace@example.org")
        return 200


LET_IN: dict[str, Callable[[Doors], int]] = {
    name: act for name, act in vars(Doors).items() if callable(act) and name not in ("__init__", "api", "a2a")
}


@pytest.mark.parametrize("door", LET_IN)
def test_door_keeps_slow_work_outside_transactions(door, ada, echo, settings, tmp_path):
    settings.UPLOADS_DIR = tmp_path / "uploads"
    browser = Client()
    browser.force_login(ada)
    doors = Doors(ada, browser)
    with slow_work.watched() as found:
        assert LET_IN[door](doors) < 400
    assert found == []


def test_wrong_password_is_checked_outside_transactions(ada):
    with slow_work.watched() as found:
        Doors(ada, Client()).sign_in("guess")
    assert found == []


def test_token_endpoint_keeps_slow_work_outside_transactions(program, bob_browses, settings, tmp_path):
    settings.DATA_DIR = tmp_path  # the key that signs is made now
    with slow_work.watched() as found:
        program.set_secret(SECRET)  # as older versions stored it
        program.save()
        wrong = token(grant_type="client_credentials", scope=READ, client_secret="guess")
        right = token(grant_type="client_credentials", scope=READ)
        code = code_of(allow(bob_browses, ask(bob_browses, "openid", nonce="n"), ["openid"]))
        answer = exchange(code)
        renewed = token(grant_type="refresh_token", refresh_token=answer.json()["refresh_token"])
    assert [one.status_code for one in (wrong, right, answer, renewed)] == [401, 200, 200, 200]
    assert found == []


def test_watch_sees_each_kind_of_slow_work(db, tmp_path):
    def hashed() -> None:
        User(email="grace@example.org").set_password(PASSWORD)

    acts: list[Callable[[], object]] = [
        hashed,
        lambda: render_to_string("web/offline.html"),
        lambda: (tmp_path / "a").write_text("a"),
        lambda: __import__("socket").getaddrinfo("127.0.0.1", 80),
    ]
    for act in acts:
        with slow_work.watched() as found:
            act()
            assert found == []
            with transaction.atomic():
                act()
        assert found, act
    assert not connection.in_atomic_block
