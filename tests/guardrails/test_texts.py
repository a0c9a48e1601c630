"""Which texts of parts are read: also what is no plain text by its form or its label."""

import base64

import pytest

from apps.optional.guardrails import texts


def raw(content, **labels):
    return {"raw": base64.b64encode(content).decode(), **labels}


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ({"data": {"joe": [{"joe": "joe"}]}}, {"data": {"X": [{"X": "X"}]}}),
        ({"data": {"joe": 1, "X": 2}}, {"data": {"X": 1, "X 2": 2}}),
        ({"data": [4111, 4111.0, 4.5, True]}, {"data": ["X", "X", 4.5, True]}),
        ({"text": "a", "metadata": {"by": "joe"}}, {"text": "a", "metadata": {"by": "X"}}),
        (raw(b"joe", mediaType="image/png"), raw(b"X", mediaType="image/png")),
        (raw(b"joe\0", mediaType="image/png"), raw(b"joe\0", mediaType="image/png")),
        (raw(b"joe\xff", mediaType="image/png"), raw(b"joe\xff", mediaType="image/png")),
        (raw(b"a", mediaType="joe"), raw(b"a", mediaType="X")),
    ],
)
def test_texts_of_every_form_are_read(part, changed):
    assert texts.changed([part], lambda text: text.replace("joe", "X").replace("4111", "X")) == [changed]


def test_stored_text_is_measured(monkeypatch):
    monkeypatch.setattr(texts.blobs, "content_of", lambda part: b"four")
    stored = {"stored": {"sha256": "a", "size": 4, "kind": "text"}}
    assert texts.sizes([stored, {"text": "a"}]) == {"characters": 5, "files": 0, "bytes": 5}
