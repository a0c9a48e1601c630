"""What a handler returns becomes an outcome, and what it delivers becomes artifacts."""

import pytest

from agentkit import Artifact, Completed, Failed, InputRequired, Rejected, as_outcome, text_part


def test_text_is_the_message_and_the_answer():
    outcome = as_outcome("Forty-two")
    assert outcome.parts == [{"text": "Forty-two"}]
    (answer,) = outcome.artifacts
    assert (answer.name, answer.parts) == ("answer", [{"text": "Forty-two", "mediaType": "text/plain"}])


def test_artifacts_and_data_complete_without_words():
    artifact = Artifact.text("notes.md", "# Notes", "text/markdown")
    assert as_outcome(artifact) == as_outcome([artifact]) == as_outcome((artifact,)) == Completed(None, [artifact])
    (answer,) = as_outcome({"total": 3}).artifacts
    assert (answer.name, answer.parts) == ("answer", [{"data": {"total": 3}}])


def test_nothing_completes_with_nothing():
    assert as_outcome(None) == Completed()
    assert as_outcome(None).parts == []


@pytest.mark.parametrize("outcome", [Completed("ok"), InputRequired("Which?"), Failed("no", "E1"), Rejected("no")])
def test_an_outcome_is_itself(outcome):
    assert as_outcome(outcome) is outcome


@pytest.mark.parametrize("value", [3, True, b"bytes", [1], ["text"], object()])
def test_anything_else_is_refused_with_what_may_be_returned(value):
    with pytest.raises(TypeError, match="may return an outcome"):
        as_outcome(value)


def test_a_message_may_be_parts():
    assert InputRequired([text_part("a"), text_part("b")]).parts == [{"text": "a"}, {"text": "b"}]


def test_the_wire_form_leaves_out_what_is_empty():
    bare = Artifact([{"text": "x"}], artifact_id="a1")
    assert bare.wire == {"artifactId": "a1", "parts": [{"text": "x"}]}
    full = Artifact.json("n", [1], description="d", metadata={"k": 1})
    assert full.wire == {
        "artifactId": full.artifact_id,
        "name": "n",
        "description": "d",
        "parts": [{"data": [1]}],
        "metadata": {"k": 1},
    }


def test_every_artifact_has_an_id_of_its_own():
    assert Artifact.text("a", "x").artifact_id != Artifact.text("a", "x").artifact_id


def test_a_file_is_read_and_its_kind_guessed_from_its_name(tmp_path):
    path = tmp_path / "chart.svg"
    path.write_bytes(b"<svg/>")
    assert Artifact.file(path).parts == [{"raw": "PHN2Zy8+", "filename": "chart.svg", "mediaType": "image/svg+xml"}]
    renamed = Artifact.file(path, "text/plain", "c.txt", description="A chart")
    assert (renamed.name, renamed.description) == ("c.txt", "A chart")
    assert renamed.parts[0]["mediaType"] == "text/plain"
