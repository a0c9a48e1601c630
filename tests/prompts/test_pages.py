"""The library in the browser and in the client API: what is not of all resources."""

import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.optional.prompts import library
from apps.optional.prompts.models import Prompt
from apps.record.models import Context, Message
from tests.members import member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def prompt(ada):
    text = "Summarize {{topic}} in {{tone: plain | formal = plain}} words."
    return library.save(ada.principal, Prompt(name="Summary", text=text, is_shared=True, tags="work"))


def address(name, prompt):
    return reverse(f"web:prompt-{name}", args=[prompt.pk])


def test_composer_gets_options_form_and_text(ada_browser, prompt):
    assert 'data-slug="summary"' in ada_browser.get("/prompts/options").text
    assert 'name="answer-topic"' in ada_browser.get(address("fields", prompt)).text
    filled = ada_browser.post(address("text", prompt), {"answer-topic": "energy", "message": "x"})
    assert filled.json() == {"text": "Summarize energy in plain words."}
    refused = ada_browser.post(address("text", prompt), {"answer-topic": ""})
    assert (refused.status_code, refused.json()["field"]) == (422, "answer-topic")


def test_prompt_starts_one_session_with_chosen_agent(ada_browser, ada, echo, prompt):
    said = {"answer-topic": "energy", "agent": "echo", "message": str(uuid.uuid4())}
    answers = [ada_browser.post(address("start", prompt), said) for _ in range(2)]
    session = Context.objects.get(owner=ada)
    assert [one.json()["address"] for one in answers] == [reverse("web:session", args=[session.pk])] * 2
    assert Message.objects.get(context=session, role="user").parts[0]["text"] == "Summarize energy in plain words."
    assert ada_browser.post(address("start", prompt), said | {"agent": "nobody"}).status_code == 422


def test_others_use_and_copy_but_do_not_edit(client, ada, bob, prompt):
    member(bob, ada)
    client.force_login(bob)
    page = client.get(reverse("web:prompt", args=[prompt.pk]))
    assert [act.name for act in page.context["acts"]] == ["copy"]
    assert client.get(address("edit", prompt)).status_code == 302
    client.post(address("edit", prompt), {"name": "Mine now", "text": "x"})
    version = prompt.versions.get()
    client.post(reverse("web:prompt-restore", args=[prompt.pk, version.pk]))
    prompt.refresh_from_db()
    assert prompt.name == "Summary"


def test_list_is_searched_by_tag_and_name(ada_browser, ada, prompt):
    library.save(ada.principal, Prompt(name="Other", text="x"))
    found = {words: list(ada_browser.get(f"/prompts?q={words}").context["rows"]) for words in ("work", "summ", "none")}
    assert found == {"work": [prompt], "summ": [prompt], "none": []}


def test_file_is_imported_and_exported(ada_browser, prompt):
    export = ada_browser.get("/prompts/export?as=markdown")
    content = b"".join(export.streaming_content)
    Prompt.objects.update(text="Changed")
    page = ada_browser.post("/prompts/import", {"file": SimpleUploadedFile("prompts.zip", content)})
    assert [one.slug for one in page.context["done"].made] == ["summary-2"]
    wrong = ada_browser.post("/prompts/import", {"file": SimpleUploadedFile("prompts.json", b"{")})
    assert "file" in wrong.context["form"].errors


async def test_api_renders_imports_and_restores(ada_calls, prompt):
    path = f"/prompts/{prompt.pk}"
    rendered = await ada_calls.post(f"{path}/render", {"values": {"topic": "energy"}})
    assert rendered.body["text"] == "Summarize energy in plain words."
    for values, field in (({"topic": 1}, "values.topic"), ({}, "values.topic"), ({"topic": "a", "x": "b"}, "values.x")):
        assert (await ada_calls.post(f"{path}/render", {"values": values})).fields == [field]
    await ada_calls.patch(path, {"text": "Another"})
    second, first = (await ada_calls.get(f"{path}/versions")).body["items"]
    restored = (await ada_calls.post(f"{path}/versions/{first['id']}/restore")).body
    assert (restored["text"], second["text"]) == (first["text"], "Another")
    whole = (await ada_calls.get("/prompts/export")).body["prompts"]
    file = {"filename": "new.md", "text": "---\ncommand: new\n---\nHello {{name}}"}
    done = (await ada_calls.post("/prompts/import", file)).body
    assert ([one["slug"] for one in done["made"]], [one["command"] for one in whole]) == (["new"], ["summary"])
