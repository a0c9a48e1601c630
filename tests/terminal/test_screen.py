"""What agents say is data: no terminal obeys it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.terminal.screen import clean, file_name, one_line
from tests.terminal.fake import event, status, token


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cm0gLXJm\x07clipboard", "clipboard"),
        ("\x9b2Jgone", "gone"),
        ("\x1bcreset", "reset"),
        ("over\rwritten\b\x7f", "overwritten"),
        ("txt.\u202eexe", "txt.exe"),
        ("kept: \t tab, é, 👩‍👩‍👧\n", "kept: \t tab, é, 👩‍👩‍👧\n"),
    ],
)
def test_what_a_terminal_would_obey_is_left_out(said, shown):
    assert clean(said) == shown


@given(st.text(st.characters(max_codepoint=0x2100)))
def test_no_control_character_is_ever_left(text):
    assert all(unicodedata.category(letter) != "Cc" or letter in "\n\t" for letter in clean(text))
    assert "\n" not in one_line(text)
    name = file_name({"raw": "", "filename": text}, "")
    assert name not in ("", ".", "..")
    assert not set(name) & set("/\\\x00")


def test_every_way_to_the_screen_is_clean(parley, fake):
    evil = "\x1b]0;x\x07\x1b[2J"
    call = event(2, "agent_tool_call", callId="1", name=f"look{evil}", arguments={"x": evil})
    progress = status(3, "working", progress={"text": f"half{evil}"})
    slot = {"name": "s", "schema": {"type": "string", "title": f"City{evil}", "enum": [f"Ulm{evil}"]}}
    asks = status(7, "input-required", f"Which{evil}?", slot=slot)
    fake.answers([call, progress, token(4, "cut \x1b"), token(5, "[2J"), asks], state="input-required", question=slot)
    done = parley("chat", "bot", "hi")
    assert "\x1b" not in done.said + done.happened
    assert "\x07" not in done.said + done.happened
    fake.on("GET", "/agents", {"items": [{"slug": "a", "health": {"status": "ok"}, "name": evil, "description": evil}]})
    assert "\x1b" not in parley("agents").said


def test_artifact_that_comes_whole_after_its_pieces_is_shown_once(parley, fake):
    def piece(index, text, **how):
        artifact = {"artifactId": "answer", "name": "answer", "parts": [{"text": text}]}
        return event(index, "artifact_update", artifact=artifact, lastChunk=False, **how)

    said = [piece(2, "Good ", append=False), piece(3, "day", append=True), piece(4, "Good day", append=False)]
    fake.answers([*said, status(5, "completed", "Good day")])
    assert parley("chat", "bot", "hi").said == "Good day\n"
