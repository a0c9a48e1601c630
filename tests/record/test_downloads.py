"""Large content is in files, for people who may see its conversation."""

import base64

import pytest
from django.test import Client
from django.urls import reverse

from agentkit import Chunk, Failed
from apps.accounts.models import ApiKey
from apps.engine import accept
from apps.record.models import Event, Message
from tests.working import begin, end, say

pytestmark = pytest.mark.django_db(transaction=True)

CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def sent(ada, echo, said):
    def send(content=CONTENT, name="big.bin", media_type="application/x-big", user=ada) -> str:
        part = {"raw": base64.b64encode(content).decode(), "filename": name, "mediaType": media_type}
        receipt = accept.accept(user.principal, echo, said(parts=[part]))
        stored = Message.objects.get(context=receipt.context).parts[0]["stored"]
        return reverse("file", args=[receipt.context, stored["sha256"]])

    return send


def got(address: str, key: str = ""):
    return Client().get(address, headers={"Authorization": f"Bearer {key}"} if key else {})


def content_of(answer) -> bytes:
    return b"".join(answer.streaming_content)


def test_its_owner_gets_it_and_anybody_else_finds_nothing(sent, ada, bob):
    address = sent()
    sent(user=bob)  # who has the same content in his own conversation
    answer = got(address, ApiKey.issue(ada, "key")[1])
    assert content_of(answer) == CONTENT
    assert answer["Content-Type"] == "application/x-big"
    assert answer["Content-Disposition"] == 'attachment; filename="big.bin"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert got(address, ApiKey.issue(bob, "key")[1]).status_code == 404
    assert got(address).status_code == 404


def test_a_bad_key_is_told_so_and_one_that_may_not_read(sent, ada):
    address = sent()
    answer = got(address, "parley_abc_def")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert got(address, ApiKey.issue(ada, "key", scopes=["tasks:write"])[1]).status_code == 403


def test_what_a_running_task_streams_is_to_be_had_at_once_and_stays_if_it_fails(ada, bob, echo, said):
    held = begin(accept.accept(ada.principal, echo, said()).run)
    raw = {"raw": base64.b64encode(CONTENT).decode(), "mediaType": "application/x-big"}
    say(held, Chunk("big", "big", "", [raw], append=False, last=False))
    part = Event.objects.get(type="artifact_update").parts[0]
    address = reverse("file", args=[held.context_id, part["stored"]["sha256"]])
    key = ApiKey.issue(ada, "key")[1]
    assert content_of(got(address, key)) == CONTENT
    assert got(address, ApiKey.issue(bob, "key")[1]).status_code == 404
    end(held, Failed("no"))
    assert content_of(got(address, key)) == CONTENT
    assert got(address, ApiKey.issue(bob, "another key")[1]).status_code == 404


def test_a_picture_opens_in_the_browser_and_what_is_not_what_it_says_is_bytes_to_download(sent, ada):
    key = ApiKey.issue(ada, "key")[1]
    picture = b"\x89PNG\r\n\x1a\n" + CONTENT
    answer = got(sent(picture, "a.png", "image/png"), key)
    assert (answer["Content-Type"], content_of(answer)) == ("image/png", picture)
    assert answer["Content-Disposition"].startswith("inline")
    for number, media_type in enumerate(["image/png", "application/pdf", "text/plain", "image/png; a=b"]):
        program = b"MZ\x00" + CONTENT + bytes([number])
        answer = got(sent(program, "a.exe", media_type), key)
        assert (answer["Content-Type"], content_of(answer)) == ("application/octet-stream", program), media_type
        assert answer["Content-Disposition"].startswith("attachment")


def test_a_media_type_that_no_header_can_carry_is_left_out(sent, ada):
    address = sent()
    message = Message.objects.get()
    message.parts[0]["mediaType"] = "text/html\r\nX-Evil: 1"
    message.save()
    assert got(address, ApiKey.issue(ada, "key")[1])["Content-Type"] == "application/octet-stream"
