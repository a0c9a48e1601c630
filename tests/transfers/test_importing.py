"""Conversations of other programs become sessions, whose log gives the same rows."""

import base64
import json

import pytest

from apps.conversations.sessions import deletion
from apps.limits.current import Exceeded
from apps.optional.transfers import formats, importing, package
from apps.optional.transfers.importing import import_file
from apps.record import projection
from apps.record.content import blobs
from apps.record.errors import InvalidParams, StorageFull
from apps.record.models import Context, Message
from tests.transfers import samples

pytestmark = pytest.mark.django_db


def turns_of(session):
    return [(one.role, one.parts[0]["text"]) for one in Message.objects.filter(context=session).order_by("index")]


@pytest.mark.parametrize("wrap", [samples.as_bytes, lambda one: samples.as_zip(samples.as_bytes(one))])
def test_chatgpt_path_is_a_session_with_same_replay(ada, echo, wrap):
    [result] = import_file(ada.principal, echo, wrap(samples.chatgpt())).results
    assert turns_of(result.session) == [("user", "Which river?"), ("agent", "Danube")]
    asked, answered = Message.objects.filter(context=result.session).order_by("index")
    assert (asked.author, answered.agent, answered.task) == (ada, None, None)
    imported = {"source": "ChatGPT", "at": "2023-11-14T22:13:20.500000+00:00"}
    assert asked.metadata == {"imported": imported | {"leftOut": 1}}
    assert answered.metadata == {"imported": imported | {"model": "gpt-5"}}
    assert projection.differences(result.session) == []


def test_same_file_gives_the_same_sessions(ada, bob, echo):
    content = samples.as_bytes(samples.chatgpt())
    [first] = import_file(ada.principal, echo, content).results
    [again] = import_file(ada.principal, echo, samples.as_zip(content)).results
    [bobs] = import_file(bob.principal, echo, content).results
    assert (first.outcome, again.outcome, bobs.outcome) == ("created", "existing", "created")
    assert first.session == again.session != bobs.session
    deletion.delete_session(ada.principal, first.session)
    [anew] = import_file(ada.principal, echo, content).results
    assert anew.outcome == "created"
    assert turns_of(anew.session) == turns_of(bobs.session)


def _broken():
    loop, lost, odd, huge = (samples.chatgpt(name) for name in ("loop", "lost", "odd", "huge"))
    loop["mapping"]["asked"]["parent"] = "new"
    lost["current_node"] = "nowhere"
    odd["mapping"]["new"]["message"]["create_time"] = 1e300
    huge["mapping"]["new"]["message"]["content"]["parts"] = ["a" * (formats.MAX_TEXT_BYTES + 1)]
    chat = {"title": "list", "chat": {"messages": [1]}}
    empty = {"title": "empty", "mapping": {}, "current_node": None}
    newer = {"format": formats.EXPORT_FORMAT, "version": 2, "session": {"title": "newer"}}
    return [loop, lost, odd, huge, chat, empty, newer]


def test_broken_conversations_are_skipped_by_name(ada, echo):
    broken = _broken()
    done = import_file(ada.principal, echo, samples.as_bytes(*broken, samples.chatgpt(), 7)).results
    names = ["loop", "lost", "odd", "huge", "list", "empty", "newer"]
    assert [one.title for one in done if one.problem][:-1] == names
    assert [one.outcome for one in done] == ["skipped"] * len(names) + ["created", "skipped"]
    assert Context.objects.filter(parent=None).count() == 1


HALF = samples.as_bytes(samples.chatgpt("whole"), samples.chatgpt("half"))


@pytest.mark.parametrize("wrong", [b"ha\xff", b"ha\\ud83d"])
def test_one_wrong_character_keeps_no_conversation_out(ada, echo, wrong):
    done = import_file(ada.principal, echo, HALF.replace(b"half", wrong)).results
    assert [one.outcome for one in done] == ["created", "created"]


ONE, TWO, THREE = (json.dumps(samples.chatgpt(name)).encode() for name in ("one", "two", "three"))
LINES = ONE + b'\n{"title": NaN}\nno\n{"title": "x"}'
WITH_A_BROKEN_FILE = samples.as_zip(b"[" + ONE + b"]", **{"conversations-002.json": b"[no"})
HUGE_NUMBER = b"[" + ONE + b"," + TWO.replace(b"1700000000.5", b"9" * 400) + b"]"


@pytest.mark.parametrize(
    ("content", "named"),
    [(LINES, ["Line 2", "Line 3", "x"]), (WITH_A_BROKEN_FILE, ["conversations-002.json"]), (HUGE_NUMBER, ["two"])],
    ids=["lines", "file", "number"],
)
def test_broken_json_is_named_and_rest_imported(ada, echo, content, named):
    results = import_file(ada.principal, echo, content).results
    assert sorted(one.title for one in results if one.problem) == sorted(named)
    assert [one.title for one in results if one.outcome == "created"] == ["one"]


def test_damaged_item_of_an_array_is_named(ada, echo):
    title, mapping = b'"title": "two"', b'"mapping": {'
    for number, damage in enumerate(
        (
            (title, b'"title" "two"'),
            (title, b'"title": "two'),
            (title, b'"title": two'),
            (title, b'"title": NaN'),
            (title, title + b", " + title),
            (mapping, b'"mapping": '),
            (mapping, b'"mapping": {{'),
        )
    ):
        items, place = [ONE, THREE], number % 3
        items.insert(place, TWO.replace(*damage))
        results = import_file(ada.principal, echo, b"[" + b",\n".join(items) + b"]").results
        assert [one.title for one in results if not one.problem] == ["one", "three"], damage
        assert {one.title for one in results if one.problem} >= {f"Item {place + 1}"}, damage


def test_array_that_was_cut_off_keeps_its_beginning(ada, echo):
    results = import_file(ada.principal, echo, b"[" + b", ".join([ONE, TWO, THREE])[:-40]).results
    assert [(one.title, one.outcome) for one in results] == [
        ("one", "created"), ("two", "created"), ("Item 3", "skipped")
    ]  # fmt: skip
    assert "line 1, column" in results[-1].problem


def test_damaged_message_of_a_list_is_named(ada, echo):
    said = [b'{"role": "user", "content": "Hi"}', b'{"role": "assistant", "content": "Hello"}']
    said.insert(1, b'{"role": "user" "content": "?"}')
    results = import_file(ada.principal, echo, b"[" + b",".join(said) + b"]").results
    assert [one.outcome for one in results] == ["created", "skipped"]
    assert len(turns_of(results[0].session)) == 2


DEEP = b'[{"mapping":' + b"[" * 100 + b"]" * 100 + b"}]"


def test_file_that_is_no_export_is_refused(ada, echo):
    for content in (b"", b"no", b"[]", b"7", b"[NaN]", b"PK\x03\x04no", DEEP, samples.as_zip(b"[]", "other.json")):
        with pytest.raises(InvalidParams):
            import_file(ada.principal, echo, content)
    assert not Context.objects.exists()


def test_file_that_unpacks_too_large_is_refused(ada, echo, monkeypatch):
    monkeypatch.setattr(package, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidParams):
        import_file(ada.principal, echo, samples.as_zip(samples.as_bytes(samples.chatgpt())))


def test_import_goes_on_where_it_ended(ada, echo, monkeypatch):
    monkeypatch.setattr(importing, "NEW_AT_ONCE", 2)
    content = samples.as_bytes(*(samples.chatgpt(f"{number}") for number in range(5)))
    left = [import_file(ada.principal, echo, content).remaining for _ in range(3)]
    assert left == [3, 1, 0]
    assert Context.objects.filter(parent=None).count() == 5


def parts_of(session):
    return [one.parts for one in Message.objects.filter(context=session).order_by("index")]


def files_in(parts):
    return [(one["filename"], one["mediaType"], blobs.content_of(one)) for one in parts if "filename" in one]


def test_chatgpt_files_are_in_the_messages(ada, echo):
    chat = samples.as_bytes(samples.chatgpt_with_files())
    done = import_file(ada.principal, echo, samples.as_zip(chat, **samples.PICTURES))
    [result] = done.results
    asked, made, answered = parts_of(result.session)
    boat, made_one, notes = samples.PICTURES.values()
    assert asked[0] == {"text": "Which river?"}
    assert files_in(asked) == [("My boat.png", "image/png", boat), ("notes.pdf", "application/pdf", notes)]
    assert (len(made), files_in(made)) == (1, [("file.png", "image/png", made_one)])
    assert answered == [{"text": "Danube"}]
    skipped = {"missing_files": 1, "reasoning": 1, "tool_messages": 1, "hidden_messages": 1}
    assert (result.messages, result.files, result.skipped) == (3, 3, skipped)
    assert (done.messages, done.files, done.skipped) == (3, 3, skipped)
    assert projection.differences(result.session) == []
    [again] = import_file(ada.principal, echo, samples.as_zip(chat, **samples.PICTURES)).results
    assert (again.outcome, again.session) == ("existing", result.session)


def test_open_webui_pictures_are_files(ada, echo):
    content = samples.as_bytes(samples.open_webui_with_files())
    [result] = import_file(ada.principal, echo, content).results
    asked, answered = parts_of(result.session)
    assert files_in(asked) == [("file.png", "image/png", samples.PNG)]
    assert answered == [{"text": "Yo <details>"}]
    assert result.skipped == {"missing_files": 1, "reasoning": 1, "tool_messages": 1}


def test_session_of_another_parley_brings_its_files(ada, echo):
    part = {"raw": base64.b64encode(samples.PNG).decode(), "filename": "a.png", "mediaType": "image/png"}
    link = {"url": "https://other.example/files/1/2", "filename": "b.pdf"}
    said = {"role": "user", "parts": [{"text": "See"}, part, link], "timestamp": "2026-01-01T00:00:00Z", "metadata": {}}
    document = {"format": formats.EXPORT_FORMAT, "version": 1, "session": {"title": "S"}, "messages": [said]}
    [result] = import_file(ada.principal, echo, samples.as_bytes(document)).results
    [asked] = parts_of(result.session)
    assert files_in(asked) == [("a.png", "image/png", samples.PNG)]
    assert result.skipped == {"missing_files": 1}


@pytest.mark.parametrize("limit", ["ratio", "file", "session", "damaged"])
def test_files_beyond_bounds_are_counted(ada, echo, monkeypatch, limit):
    content = b"0" * 100_000
    zipped = samples.as_zip(
        samples.as_bytes(samples.chatgpt_with_files()), **{**samples.PICTURES, "export/file-Aa1-boat.png": content}
    )
    match limit:
        case "ratio":
            monkeypatch.setattr("agentkit.content.zips.SMALL", 1000)
        case "file":
            monkeypatch.setattr(package, "MAX_ASSET_BYTES", 99_999)
        case "session":
            monkeypatch.setattr(importing, "FILE_BYTES_OF_ONE", 0)
        case "damaged":
            start = zipped.index(b"file-Aa1-boat.png") + 40
            zipped = zipped[:start] + b"x" * 20 + zipped[start + 20 :]
    [result] = import_file(ada.principal, echo, zipped).results
    assert result.skipped["unreadable_files"] == (3 if limit == "session" else 1)
    assert (result.outcome, result.files) == ("created", 0 if limit == "session" else 2)


def test_full_workspace_imports_nothing(ada, echo, monkeypatch):
    def full(*_):
        raise StorageFull(Exceeded("The workspace is full.", "storage", "workspace", 1, 1, 0))

    monkeypatch.setattr(blobs, "check_room", full)
    [result] = import_file(ada.principal, echo, samples.as_bytes(samples.chatgpt())).results
    assert (result.outcome, bool(result.problem)) == ("skipped", True)
    assert not Context.objects.exists()


@pytest.mark.parametrize("limit", ["values", "conversations", "entries", "directory"])
def test_file_that_takes_too_much_memory_is_refused(ada, echo, monkeypatch, limit):
    content = samples.as_zip(
        samples.as_bytes(samples.chatgpt(), samples.chatgpt()), **{f"file-{number}.dat": b"x" for number in range(5)}
    )
    match limit:
        case "values":
            monkeypatch.setattr("apps.optional.transfers.formats.MOST_VALUES", 20)
        case "conversations":
            monkeypatch.setattr("apps.optional.transfers.formats.MAX_CONVERSATIONS", 1)
        case "entries":
            monkeypatch.setattr("apps.optional.transfers.package.MAX_ZIP_ENTRIES", 5)
        case "directory":
            monkeypatch.setattr("agentkit.content.zips.MOST_DIRECTORY_BYTES", 300)
    with pytest.raises(InvalidParams):
        import_file(ada.principal, echo, content)
    assert not Context.objects.exists()
