"""No door does slow work within a transaction: on SQLite nobody else could write meanwhile."""

import base64
import os
import uuid
from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection, transaction
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.test import Client

from apps.accounts.models import ApiKey, User
from apps.accounts.people import invitations
from apps.accounts.principals import READ
from tests import slow_work
from tests.accounts.test_oauth import SECRET, allow, ask, bob_browses, code_of, exchange, program, token

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bob_browses", "program"]

PASSWORD = "correct horse"
NEW_PASSWORD = "a longer staple battery"
LARGE = os.urandom(400_000)


Act = Callable[[User, Client], HttpResponse]


def page(path: str, **values: object) -> Act:
    return lambda ada, browser: browser.post(path, values)


def api(path: str, **body: object) -> Act:
    return lambda ada, browser: Client().post(
        f"/api/v1{path}", body, content_type="application/json", headers=key_of(ada)
    )


def key_of(ada: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {ApiKey.issue(ada, 'doors')[1]}", "A2A-Version": "1.0"}


def sign_in(ada: User, browser: Client, password: str = PASSWORD) -> HttpResponse:
    return Client().post("/sign-in", {"username": ada.email, "password": password})


def sign_up(ada: User, browser: Client) -> HttpResponse:
    ada.is_staff = ada.is_superuser = True
    ada.save()
    _, link = invitations.invite(ada, "grace@example.org")
    values = {"email": "grace@example.org", "name": "Grace", "password": NEW_PASSWORD}
    return Client().post(f"/{link.partition('//')[2].partition('/')[2]}", values)


def send_a_file(ada: User, browser: Client) -> HttpResponse:
    files = [SimpleUploadedFile("a.bin", LARGE, "application/octet-stream")]
    values = {"message": str(uuid.uuid4()), "text": "hello", "files": files}
    return browser.post("/agents/echo/messages", values)


def send_by_a2a(ada: User, browser: Client) -> HttpResponse:
    said = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [RAW, {"text": "hello"}]}
    params = {"message": said, "configuration": {"returnImmediately": True}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = Client().post("/a2a/echo", call, content_type="application/json", headers=key_of(ada))
    assert "error" not in answer.json()
    return answer


def upload(ada: User, browser: Client) -> HttpResponse:
    made = api("/uploads", filename="a", size=5)(ada, browser)
    headers = {**key_of(ada), "Upload-Offset": "0"}
    path = f"/api/v1/uploads/{made.json()['id']}"
    return Client().patch(path, b"hello", content_type="application/offset+octet-stream", headers=headers)


def command(ada: User, browser: Client) -> HttpResponse:
    call_command("create_user", "joan@example.org")
    call_command("create_api_key", "joan@example.org")
    return HttpResponse()


RAW = {"raw": base64.b64encode(LARGE).decode(), "filename": "a.bin", "mediaType": "application/octet-stream"}
PASSWORDS = {"current_password": PASSWORD, "new_password": NEW_PASSWORD, "again": NEW_PASSWORD}
HOOK = {"name": "Issues", "agent": "echo", "text": "{{ body.title }}"}
LET_IN: dict[str, Act] = {
    "sign in": sign_in,
    "sign up": sign_up,
    "make key": page("/settings/keys", name="laptop", preset="read", days="30", current_password=PASSWORD),
    "register program": page(
        "/settings/programs", name="A service", kind="service", scopes=[READ], current_password=PASSWORD
    ),
    "send a file": send_a_file,
    "send by API": api("/sessions", agent="echo", message={"parts": [RAW]}),
    "send by A2A": send_by_a2a,
    "upload": upload,
    "make webhook": page("/webhooks/new", **HOOK, scheme="github", session="each"),
    "make webhook by API": api("/webhooks", **HOOK, scheme="bearer"),
    "make channel": api("/notifications/channels", type="webhook", url="https://192.0.43.8/"),
    "make agent": page(
        "/agents/new", name="Letter writer", instructions="Write.", access="owner", max_steps=10, minutes=10
    ),
    "command": command,
    "wrong password": lambda ada, browser: sign_in(ada, browser, "guess"),
    "change password": page("/settings/password", **PASSWORDS),  # the last: others need the old one
}


def test_no_door_does_slow_work_within_transactions(ada, echo, settings, tmp_path):
    settings.UPLOADS_DIR = tmp_path / "uploads"
    browser = Client()
    browser.force_login(ada)
    for door, act in LET_IN.items():
        with slow_work.watched() as found:
            assert act(ada, browser).status_code < 400, door
        assert found == [], door


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
