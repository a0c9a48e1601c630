"""The service worker, its offline page, fresh tokens, and uploads in pieces."""

import re
import uuid

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from apps.features.uploads import resumable
from apps.features.uploads.models import Upload
from apps.features.uploads.resumable import AppendableFile
from apps.record.models import Message
from apps.web.service_worker import PRECACHED

pytestmark = pytest.mark.django_db


def test_the_worker_is_asked_for_anew_each_time_and_may_have_the_whole_site(client):
    answer = client.get("/sw.js")
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.text.count("{{") == 0
    assert re.search(r'FILES = "files-[0-9a-f]{12}"', answer.text)


def test_the_worker_keeps_pages_and_its_files_and_nothing_of_apis_admin_secrets_and_downloads(client, ada_browser):
    pattern = re.search(r"const PAGE = /(.+)/;", client.get("/sw.js").text)
    assert pattern
    kept = re.compile(pattern[1].replace(r"\/", "/"))
    session = uuid.uuid4()
    for path in ("/", "/agents", "/agents/echo", "/inbox", f"/sessions/{session}", f"/tasks/{session}"):
        assert kept.search(path), path
    refused = ("/api/v1/sessions", "/admin/", "/settings/credentials", "/sign-in", f"/sessions/{session}/artifacts.zip")
    for path in (*refused, f"/sessions/{session}/messages/1/0", f"/files/{session}/abc", "/shared/token", "/token"):
        assert not kept.search(path), path
    for name in PRECACHED:
        assert finders.find(name), name
    assert "ada" not in ada_browser.get("/offline").text.lower()


def test_the_worker_forgets_pages_where_another_person_may_come(client):
    pattern = re.search(r"const SIGNING = /(.+)/;", client.get("/sw.js").text)
    assert pattern
    signing = re.compile(pattern[1].replace(r"\/", "/"))
    welcome = reverse("web:welcome", args=["MQ", "set-password"])
    for path in (reverse("web:sign-in"), reverse("web:sign-out"), welcome, reverse("web:settings-delete")):
        assert signing.search(path), path


@pytest.mark.django_db(transaction=True)
def test_the_token_is_that_of_whoever_is_signed_in(ada_browser, ada, echo):
    assert ada_browser.get("/token").json()["user"] == str(ada.pk)
    strict = Client(enforce_csrf_checks=True)
    assert strict.get("/token").json()["user"] == ""
    strict.force_login(ada)
    said = {"message": str(uuid.uuid4()), "text": "Hello"}
    assert strict.post("/agents/echo/messages", said).status_code == 403
    fresh = {"X-CSRFToken": strict.get("/token").json()["token"]}
    assert strict.post("/agents/echo/messages", said, headers=fresh).status_code == 201


def uploaded(user, name, content):
    upload = resumable.begin_upload(user.principal, name, len(content), "text/plain")
    file = AppendableFile(upload, 0)
    file.write(content)
    file.sync()
    file.close()
    return upload


@pytest.mark.django_db(transaction=True)
def test_a_file_that_came_in_pieces_is_named_by_a_message_of_its_owner_alone(ada_browser, ada, echo, bob_browser):
    upload = uploaded(ada, "notes.txt", b"all of it")
    form = {"message": str(uuid.uuid4()), "upload": str(upload.pk)}
    first, second = (ada_browser.post(reverse("web:begin", args=["echo"]), form) for _ in range(2))
    assert first.status_code == 201
    assert second.json() == first.json()
    (part,) = Message.objects.get(message_id=form["message"]).parts
    assert part["filename"] == "notes.txt"
    assert part["stored"]["size"] == 9
    upload = uploaded(ada, "notes.txt", b"all of it")
    for key in (str(upload.pk), str(uuid.uuid4()), "nonsense"):
        answer = bob_browser.post(
            reverse("web:begin", args=["echo"]), {"message": str(uuid.uuid4()), "text": "mine", "upload": key}
        )
        assert answer.status_code == 422
        assert "has expired" in answer.json()["error"]
    assert Message.objects.count() == 1
    assert Upload.objects.filter(pk=upload.pk).exists()
