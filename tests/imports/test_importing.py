"""Conversations of other programs become sessions, whose log gives the same rows."""

import pytest

from apps.features.imports import formats, importing
from apps.features.imports.importing import import_file
from apps.features.sessions import deletion
from apps.record import projection
from apps.record.errors import InvalidParams
from apps.record.models import Context, Message
from tests.imports import samples

pytestmark = pytest.mark.django_db


def turns_of(session):
    return [(one.role, one.parts[0]["text"]) for one in Message.objects.filter(context=session).order_by("index")]


@pytest.mark.parametrize("wrap", [samples.as_bytes, lambda one: samples.as_zip(samples.as_bytes(one))])
def test_the_current_path_of_a_chatgpt_tree_is_a_session_and_its_replay_the_same(ada, echo, wrap):
    [result] = import_file(ada.principal, echo, wrap(samples.chatgpt())).results
    assert turns_of(result.session) == [("user", "Which river?"), ("agent", "Danube")]
    asked, answered = Message.objects.filter(context=result.session).order_by("index")
    assert (asked.author, answered.agent, answered.task) == (ada, None, None)
    imported = {"source": "ChatGPT", "at": "2023-11-14T22:13:20.500000+00:00"}
    assert asked.metadata == {"imported": imported | {"leftOut": 1}}
    assert answered.metadata == {"imported": imported | {"model": "gpt-5"}}
    assert projection.differences(result.session) == []


def test_the_current_path_of_an_open_webui_chat_is_a_session(ada, echo):
    [result] = import_file(ada.principal, echo, samples.as_bytes(samples.open_webui())).results
    assert turns_of(result.session) == [("user", "Hi"), ("agent", "Yo")]
    assert Context.objects.get(pk=result.session).title == "Greeting"


def test_the_same_file_gives_the_same_sessions_to_each_owner_and_new_ones_after_deletion(ada, bob, echo):
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


def test_a_broken_conversation_is_named_and_skipped_and_the_others_are_imported(ada, echo):
    broken = _broken()
    done = import_file(ada.principal, echo, samples.as_bytes(*broken, samples.chatgpt(), 7)).results
    names = ["loop", "lost", "odd", "huge", "list", "empty", "newer"]
    assert [one.title for one in done if one.problem][:-1] == names
    assert [one.outcome for one in done] == ["skipped"] * len(names) + ["created", "skipped"]
    assert Context.objects.count() == 1


DEEP = b'[{"mapping":' + b"[" * 100 + b"]" * 100 + b"}]"


@pytest.mark.parametrize(
    "content",
    [b"", b"no", b"[]", b"{}", b"7", b"[NaN]", b"PK\x03\x04no", DEEP, samples.as_zip(b"[]", "other.json")],
)
def test_a_file_that_is_no_export_is_refused_as_a_whole(ada, echo, content):
    with pytest.raises(InvalidParams):
        import_file(ada.principal, echo, content)
    assert not Context.objects.exists()


def test_a_file_that_unpacks_to_more_than_the_limit_is_refused(ada, echo, monkeypatch):
    monkeypatch.setattr(formats, "MAX_FILE_BYTES", 1000)
    with pytest.raises(InvalidParams):
        import_file(ada.principal, echo, samples.as_zip(samples.as_bytes(samples.chatgpt())))


def test_a_large_file_goes_on_where_the_last_call_ended(ada, echo, monkeypatch):
    monkeypatch.setattr(importing, "NEW_AT_ONCE", 2)
    content = samples.as_bytes(*(samples.chatgpt(f"{number}") for number in range(5)))
    left = [import_file(ada.principal, echo, content).remaining for _ in range(3)]
    assert left == [3, 1, 0]
    assert Context.objects.count() == 5
