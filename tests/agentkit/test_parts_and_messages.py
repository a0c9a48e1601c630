"""Messages and files read the same wherever the platform stores their content."""

import base64
import json

import pytest

from agentkit import Message, ReceivedArtifact, UnreadableContent, data_part, raw_part, text_part, url_part
from agentkit.messages import kind_of, part_of

STORE = {"a": b"\x00binary", "b": "größer".encode(), "c": json.dumps({"rows": [1, 2]}).encode()}


def load(part):
    return STORE[part["stored"]["sha256"]]


def stored(sha256, kind, **labels):
    return {"stored": {"sha256": sha256, "size": len(STORE[sha256]), "kind": kind}, **labels}


def message(*parts, **more):
    return Message.from_wire({"messageId": "m1", "role": "ROLE_USER", "parts": list(parts), **more}, load)


def test_a_message_shows_what_its_wire_form_says():
    said = message(
        text_part("Look"), data_part({"n": 1}), text_part("here"), referenceTaskIds=["t1"], metadata={"lang": "en"}
    )
    assert (said.id, said.role, said.text) == ("m1", "user", "Look\nhere")
    assert (said.data, said.references, said.metadata) == ([{"n": 1}], ["t1"], {"lang": "en"})
    assert said.files == []
    bare = Message.from_wire({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]})
    assert (bare.role, bare.text, bare.references, bare.metadata, bare.data) == ("agent", "", [], {}, [])


def test_a_file_gives_its_name_its_kind_its_size_and_its_bytes():
    (file,) = message(raw_part(b"a,b\n1,2", "x.csv", "text/csv")).files
    assert (file.name, file.media_type, file.size, file.read()) == ("x.csv", "text/csv", 7, b"a,b\n1,2")


def test_a_file_without_a_media_type_is_what_its_name_says():
    for part, described in (
        (raw_part(b"", "chart.png"), ("chart.png", "image/png", 0, b"")),
        ({"raw": ""}, ("", "application/octet-stream", 0, b"")),
    ):
        (file,) = message(part).files
        assert (file.name, file.media_type, file.size, file.read()) == described


def test_both_base64_alphabets_are_read_with_and_without_padding_and_damage_is_said():
    for content in (b"", b"a", b"ab", b"abc", bytes(range(256))):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            raw = encode(content).decode()
            for variant in (raw, raw.rstrip("=")):
                (file,) = message({"raw": variant}).files
                assert (file.read(), file.size) == (content, len(content))
    with pytest.raises(UnreadableContent, match="damaged"):
        message({"raw": "%%%"}).files[0].read()


def test_stored_content_comes_through_the_loader_and_what_cannot_be_read_says_why():
    parts = [stored("a", "raw", filename="x.bin"), stored("b", "text"), stored("c", "data")]
    said = message(*parts)
    assert said.text == "größer"
    assert said.data == [{"rows": [1, 2]}]
    (file,) = said.files
    assert (file.name, file.size, file.read()) == ("x.bin", 7, b"\x00binary")
    unloaded = Message.from_wire({"messageId": "m", "role": "ROLE_USER", "parts": parts[:1]})
    with pytest.raises(UnreadableContent, match="stored"):
        unloaded.files[0].read()
    (link,) = message(url_part("https://example.org/x.csv", "x.csv")).files
    assert (link.url, link.size) == ("https://example.org/x.csv", None)
    with pytest.raises(UnreadableContent, match="link"):
        link.read()


def test_text_with_a_file_name_is_a_file_and_not_speech():
    said = message(text_part("Please read"), {"text": "a,b", "filename": "x.csv", "mediaType": "text/csv"})
    assert said.text == "Please read"
    assert [(file.name, file.size, file.read()) for file in said.files] == [("x.csv", 3, b"a,b")]


def test_pieces_become_the_part_that_they_look_like():
    assert part_of("hi") == {"text": "hi"}
    assert part_of(b"hi", "text/x", "h.x") == {"raw": "aGk=", "filename": "h.x", "mediaType": "text/x"}
    assert part_of({"url": "https://e.org"}) == {"url": "https://e.org"}
    assert part_of({"text": "a", "score": 2}) == {"data": {"text": "a", "score": 2}}
    assert kind_of(part_of({"rows": 3})) == "data"
    with pytest.raises(TypeError, match="not of int"):
        part_of(3)


def test_a_received_artifact_gives_its_text_and_its_data_wherever_they_are_kept():
    parts = [
        text_part("Much "),
        stored("b", "text"),
        data_part({"n": 1}),
        stored("c", "data"),
        raw_part(b"\0", "a.bin"),
    ]
    artifact = ReceivedArtifact.from_wire({"artifactId": "a1", "parts": parts}, load)
    assert artifact.text == "Much größer"
    assert artifact.data == [{"n": 1}, {"rows": [1, 2]}]
    assert ReceivedArtifact.from_wire({"artifactId": "a2", "parts": []}).text == ""
    with pytest.raises(UnreadableContent):
        _ = ReceivedArtifact.from_wire({"artifactId": "a3", "parts": [stored("b", "text")]}).text
