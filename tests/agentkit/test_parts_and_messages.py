"""Messages, files and threads read the same wherever the platform stores their content, and never change."""

import copy
import dataclasses
import json

import pytest

from agentkit import Message, ReceivedArtifact, Thread, UnreadableContent, data_part, raw_part, testing, text_part
from agentkit.content.messages import url_part

STORE = {"a": b"\x00binary", "b": "größer".encode(), "c": json.dumps({"rows": [1, 2]}).encode()}


def load(part):
    return STORE[part["stored"]["sha256"]]


def stored(sha256, kind, **labels):
    return {"stored": {"sha256": sha256, "size": len(STORE[sha256]), "kind": kind}, **labels}


def message(*parts, **more):
    return Message.from_wire({"messageId": "m1", "role": "ROLE_USER", "parts": list(parts), **more}, load)


def described(part):
    (file,) = message(part).files
    return file.name, file.media_type, file.size, file.read()


def test_a_message_shows_what_its_wire_form_says():
    parts = text_part("Look"), data_part({"n": 1}), text_part("here")
    said = message(*parts, referenceTaskIds=["t1"], metadata={"lang": "en"})
    assert (said.id, said.role, said.text) == ("m1", "user", "Look\nhere")
    assert (said.data, said.references, said.metadata, said.files) == ([{"n": 1}], ["t1"], {"lang": "en"}, [])
    bare = Message.from_wire({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]})
    assert (bare.role, bare.text, bare.references, bare.metadata, bare.data) == ("agent", "", [], {}, [])


def test_files_have_name_kind_size_and_bytes():
    named = text_part("Please read"), {"text": "a,b", "filename": "x.csv", "mediaType": "text/csv"}
    assert message(*named).text == "Please read", "a text with a file name is a file, and not speech"
    for part, found in (
        (raw_part(b"a,b\n1,2", "x.csv", "text/csv"), ("x.csv", "text/csv", 7, b"a,b\n1,2")),
        (raw_part(b"", "chart.png"), ("chart.png", "image/png", 0, b"")),
        ({"raw": ""}, ("", "application/octet-stream", 0, b"")),
        (named[1], ("x.csv", "text/csv", 3, b"a,b")),
    ):
        assert described(part) == found


def test_stored_content_comes_through_the_loader():
    parts = [stored("a", "raw", filename="x.bin"), stored("b", "text"), stored("c", "data")]
    said = message(*parts)
    (file,) = said.files
    assert (said.text, said.data, file.size, file.read()) == ("größer", [{"rows": [1, 2]}], 7, b"\x00binary")
    whole = [
        text_part("Much "),
        stored("b", "text"),
        data_part({"n": 1}),
        stored("c", "data"),
        raw_part(b"\0", "a.bin"),
    ]
    artifact = ReceivedArtifact.from_wire({"artifactId": "a1", "parts": whole}, load)
    assert (artifact.text, artifact.data) == ("Much größer", [{"n": 1}, {"rows": [1, 2]}])
    unloaded = Message.from_wire({"messageId": "m", "role": "ROLE_USER", "parts": parts[:1]})
    for file, why in (
        (unloaded.files[0], "stored"),
        (message(url_part("https://example.org/x.csv", "x.csv")).files[0], "link"),
        (message({"raw": "%%%"}).files[0], "damaged"),
    ):
        with pytest.raises(UnreadableContent, match=why):
            file.read()
    with pytest.raises(UnreadableContent):
        _ = ReceivedArtifact.from_wire({"artifactId": "a3", "parts": [stored("b", "text")]}).text


SAID = Thread().add("user", "Hello").add("agent", "Good day").add("user", "Bye")


def test_add_leaves_the_old_thread():
    begun = Thread()
    grown = begun.add("user", "Hello")
    assert (len(begun), len(grown)) == (0, 1)
    assert (begun.last, grown.last.text) == (None, "Hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        grown.messages = ()
    with pytest.raises(ValueError, match="role user or agent, not 'system'"):
        begun.add("system", "x")


def test_a_thread_goes_to_a2a_and_back():
    wire = [
        {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hi"}, {"data": [1]}], "taskId": "t"},
        {"messageId": "m2", "role": "ROLE_AGENT", "parts": [{"url": "https://x.test/"}]},
    ]
    thread = Thread.from_a2a(wire)
    assert thread.to_a2a() == wire
    assert len({one["messageId"] for one in SAID.add("user", "Bye").to_a2a()}) == 4
    wire[0]["parts"][0]["text"] = thread.to_a2a()[0]["parts"][0]["text"] = "changed"
    assert thread[0].text == "Hi"


@pytest.mark.parametrize(
    "change",
    [
        lambda task: task.history.append(task.message),
        lambda task: task.history[0].wire.__ior__({"role": "ROLE_AGENT"}),
        lambda task: task.message.parts[0].pop("text"),
        lambda task: task.message.metadata["a"].append(1),
    ],
)
async def test_what_was_said_cannot_be_changed(change):
    said = {"role": "ROLE_USER", "parts": [{"text": "Hi"}, {"data": {"a": [2, 1]}}], "metadata": {"a": []}}
    message = Message.from_wire(said)
    copied = copy.deepcopy(message.wire)
    copied["parts"][1]["data"]["a"].append(3)
    task = testing.task_for(message, testing.Recorder(), history=[message])
    with pytest.raises((TypeError, AttributeError)):
        change(task)
    assert json.loads(json.dumps(message.wire)) == said == task.history[0].wire
