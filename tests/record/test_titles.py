"""A session's title from its first message."""

import pytest

from apps.record.content.rendering import title_of


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Write me a poem. It should rhyme.", "Write me a poem"),
        ("Hi! Can you help me? It hurts", "Hi! Can you help me?"),
        ("# **Report** on `x`\n\n- one\n- two", "Report on x one"),
        (
            "Summarize the [paper](https://example.org/a.pdf) and ~~not~~ its notes",
            "Summarize the paper and not its notes",
        ),
        ("```python\nprint(1)\n```", "print(1)"),
        ("2 * 3 * 4 makes what in version 3.5 of it?", "2 * 3 * 4 makes what in version 3.5 of it?"),
        ("<b>bold</b> & more words", "<b>bold</b> & more words"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("x" * 300, "x" * 60 + "…"),
        ("  \n ", ""),
    ],
)
def test_it_is_the_first_sentence_as_plain_text(text, title):
    assert title_of({"parts": [{"text": text}]}) == title


def test_a_file_alone_gives_its_name():
    assert title_of({"parts": [{"raw": "", "filename": "plate 7.csv"}]}) == "plate 7.csv"
