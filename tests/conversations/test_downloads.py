"""Large content is kept in a file, and given to whoever may see its conversation."""

import base64

import pytest
from django.test import Client
from django.urls import reverse

from agentkit import Chunk, Failed
from apps.accounts.models import ApiKey
from apps.conversations import intake
from apps.conversations.models import Event, Message
from tests.working import begin, end, say

pytestmark = pytest.mark.django_db(transaction=True)

CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def address(ada, echo, said) -> str:
    part = {"raw": base64.b64encode(CONTENT).decode(), "filename": "big.bin", "mediaType": "application/x-big"}
    receipt = intake.accept(ada.principal, echo, said(parts=[part]))
    stored = Message.objects.get(context=receipt.context).parts[0]["stored"]
    assert stored["size"] == len(CONTENT)
    return reverse("file", args=[receipt.context, stored["sha256"]])


def got(address: str, key: str = "") -> object:
    return Client().get(address, headers={"Authorization": f"Bearer {key}"} if key else {})


def test_its_owner_gets_it(address, ada):
    answer = got(address, ApiKey.issue(ada, "key")[1])
    assert b"".join(answer.streaming_content) == CONTENT
    assert answer["Content-Type"] == "application/x-big"
    assert answer["Content-Disposition"] == 'attachment; filename="big.bin"'
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_anybody_else_finds_nothing(address, bob):
    assert got(address, ApiKey.issue(bob, "key")[1]).status_code == 404
    assert got(address).status_code == 404


def test_a_bad_key_is_told_so(address):
    answer = got(address, "parley_abc_def")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_key_that_may_not_read_is_told_so(address, ada):
    assert got(address, ApiKey.issue(ada, "key", scopes=["tasks:write"])[1]).status_code == 403


def test_a_media_type_that_no_header_can_carry_is_left_out(address, ada):
    message = Message.objects.get()
    message.parts[0]["mediaType"] = "text/html\r\nX-Evil: 1"
    message.save()
    assert got(address, ApiKey.issue(ada, "key")[1])["Content-Type"] == "application/octet-stream"


def test_what_a_running_task_streams_is_to_be_had_at_once_and_not_once_it_failed(ada, bob, echo, said):
    held = begin(intake.accept(ada.principal, echo, said()).run)
    raw = {"raw": base64.b64encode(CONTENT).decode(), "mediaType": "application/x-big"}
    say(held, Chunk("big", "big", "", [raw], append=False, last=False))
    part = Event.objects.get(type="artifact_update").parts[0]
    address = reverse("file", args=[held.context_id, part["stored"]["sha256"]])
    key = ApiKey.issue(ada, "key")[1]
    assert b"".join(got(address, key).streaming_content) == CONTENT
    assert got(address, ApiKey.issue(bob, "key")[1]).status_code == 404
    end(held, Failed("no"))
    assert got(address, key).status_code == 404


@pytest.mark.parametrize("media_type", ["image/png", "application/pdf", "text/plain", "image/png; a=b"])
def test_what_is_not_what_it_says_is_bytes_to_download(ada, echo, said, media_type):
    part = {"raw": base64.b64encode(b"MZ\x00" + CONTENT).decode(), "filename": "a.exe", "mediaType": media_type}
    receipt = intake.accept(ada.principal, echo, said(parts=[part]))
    stored = Message.objects.get(context=receipt.context).parts[0]["stored"]
    answer = got(reverse("file", args=[receipt.context, stored["sha256"]]), ApiKey.issue(ada, "key")[1])
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    assert b"".join(answer.streaming_content) == b"MZ\x00" + CONTENT


def test_a_picture_that_is_one_opens_in_the_browser(ada, echo, said):
    content = b"\x89PNG\r\n\x1a\n" + CONTENT
    part = {"raw": base64.b64encode(content).decode(), "filename": "a.png", "mediaType": "image/png"}
    receipt = intake.accept(ada.principal, echo, said(parts=[part]))
    stored = Message.objects.get(context=receipt.context).parts[0]["stored"]
    answer = got(reverse("file", args=[receipt.context, stored["sha256"]]), ApiKey.issue(ada, "key")[1])
    assert answer["Content-Type"] == "image/png"
    assert answer["Content-Disposition"].startswith("inline")
    assert b"".join(answer.streaming_content) == content
