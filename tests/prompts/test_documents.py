"""Prompts as files."""

import io
import json
import zipfile

import pytest

from apps.optional.prompts import documents, library
from apps.optional.prompts.models import Prompt
from apps.record.errors import InvalidParams

pytestmark = pytest.mark.django_db
WHOLE = {
    "name": "Weekly: all",
    "slug": "weekly",
    "text": "---\n{{topic}}\n",
    "description": "A “line”.",
    "tags": "work two",
}
OPEN_WEBUI = [
    {
        "command": "/Review_Code",
        "user_id": "1",
        "title": "Review",
        "timestamp": 1,
        "content": 'In {{ lang | select:options=["Go","C"]:default="C" }}: '
        '{{code | textarea:placeholder="x":required}} {{note}}',
    }
]


@pytest.fixture
def prompt(ada):
    return library.save(ada.principal, Prompt(**WHOLE))


def files_of(prompt):
    return {
        "prompts.json": json.dumps(documents.document_of([prompt])).encode(),
        "weekly.md": documents.markdown_of(prompt).encode(),
        "prompts.zip": documents.zip_of([prompt]),
    }


@pytest.mark.parametrize("name", ["prompts.json", "weekly.md", "prompts.zip"])
def test_exported_file_is_read_unchanged(ada, bob, prompt, name):
    content = files_of(prompt)[name]
    [made] = documents.take(bob.principal, documents.read(name, content)).made
    assert {field: getattr(made, field) for field in WHOLE} == WHOLE
    again = documents.take(ada.principal, documents.read(name, content))
    assert (again.made, again.unchanged) == ([], 1)


def test_prompts_of_open_webui_are_taken(ada):
    [made] = documents.take(ada.principal, documents.read("prompts.json", json.dumps(OPEN_WEBUI).encode())).made
    assert (made.name, made.slug) == ("Review", "review-code")
    assert made.template.render({"code": "a\nb", "note": "x"}) == "In C: a\nb x"


def test_unfit_prompts_are_named_and_others_taken(ada):
    document = {"prompts": [{"name": "Bad", "text": "{{"}, {"name": "Empty"}, {"name": "Good", "text": "x"}]}
    done = documents.take(ada.principal, documents.read("a.json", json.dumps(document).encode()))
    assert [one.name for one in done.made] == ["Good"]
    assert [name for name, _ in done.refused] == ["Bad", "Empty"]


def packed(names, content="x"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{"),
        ("a.json", b'{"prompts": 1}'),
        ("a.json", b"[1]"),
        ("a.md", b"\xff"),
        ("a.md", b"---\na: [\n---\nx"),
        ("a.md", b"---\n- a\n---\nx"),
        ("a.zip", b"PK\x03\x04nothing"),
        ("a.zip", packed([f"{number}.md" for number in range(documents.MOST_ENTRIES + 1)])),
        ("a.zip", packed(["in.md"], packed(["a.md"]))),
        ("a.zip", packed(["a.json", "b.json"], json.dumps([{"text": "x"}] * documents.MOST_ENTRIES))),
        ("a.zip", packed(["a.md", "b.md"], "x" * (documents.MOST_BYTES // 2 + 1))),
        ("a.json", b" " * (documents.MOST_BYTES + 1)),
    ],
)
def test_file_without_prompts_is_refused(name, content):
    with pytest.raises(InvalidParams):
        documents.read(name, content)


def test_archive_of_a_person_has_their_prompts(ada, bob, prompt):
    [(name, _, document)] = documents.personal_data(ada)
    assert (name, document["prompts"][0]["text"]) == ("prompts.json", WHOLE["text"])
    [(_, _, document)] = documents.personal_data(bob)
    assert document == {"prompts": []}


@pytest.mark.parametrize("text", ["{{" + " " * 200_000, "{{a|" * 50_000, "{{a|select:" + "options=[" * 50_000 + "}}"])
def test_long_wrong_text_of_open_webui_is_read_soon(text):
    [read] = documents.read("a.json", json.dumps([{"title": "Long", "content": text}]).encode())
    assert read.name == "Long"
