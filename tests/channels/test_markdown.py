"""Markdown in the forms of platforms."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.optional.channels.discord.marking import MARKS as DISCORD
from apps.optional.channels.markdown import convert, split
from apps.optional.channels.slack.marking import MARKS as SLACK
from apps.optional.channels.telegram.marking import MARKS as TELEGRAM

TEXT = "# Title\n\n**Bold** and *it*, `a<b`, ~~no~~ [site](https://a.example/?b=1&c=2)\n\n- one\n- two\n\n1. x\n2. y"
CODE = "```py\nif a < b:\n    pass\n```"


def test_slack_gets_its_marks():
    assert convert(f"{TEXT}\n\n{CODE}", SLACK) == (
        "*Title*\n\n*Bold* and _it_, `a&lt;b`, ~no~ <https://a.example/?b=1&amp;c=2|site>\n\n• one\n• two\n\n1. x\n2. y"
        "\n\n```\nif a &lt; b:\n    pass\n```"
    )


def test_telegram_gets_its_html():
    assert convert(f"{TEXT}\n\n{CODE}", TELEGRAM) == (
        "<b>Title</b>\n\n<b>Bold</b> and <i>it</i>, <code>a&lt;b</code>, <s>no</s> "
        '<a href="https://a.example/?b=1&amp;c=2">site</a>\n\n• one\n• two\n\n1. x\n2. y'
        '\n\n<pre><code class="language-py">if a &lt; b:\n    pass</code></pre>'
    )


@pytest.mark.parametrize(
    "hostile", ["<!channel> hello", "<https://evil.example|safe>", "[x](javascript:alert(1))", "<b onclick=a>b</b>"]
)
def test_words_of_agents_stay_words(hostile):
    for shown in (convert(hostile, SLACK), convert(hostile, TELEGRAM)):
        assert "<!channel>" not in shown
        assert "|safe>" not in shown
        assert "<b onclick" not in shown
        assert '"javascript' not in shown
        assert "<javascript" not in shown


def test_pieces_of_code_are_code():
    lines = "\n".join(f"line {number}" for number in range(40))
    pieces = list(split(f"Before\n\n```py\n{lines}\n```\n\nAfter", lambda text: len(text) <= 100))
    assert all(piece.count("```") in (0, 2) for piece in pieces)
    assert "".join(pieces).count("line ") == 40


@given(st.text(alphabet=st.characters(codec="utf-8", categories=["L", "P", "Zs"]) | st.just("\n"), max_size=300))
def test_pieces_fit_and_lose_nothing(text):
    pieces = list(split(text, lambda one: len(one) <= 40))
    assert all(len(piece) <= 40 for piece in pieces)
    letters = [one for one in text if one.isalpha()]
    assert [one for piece in pieces for one in piece if one.isalpha()] == letters


@pytest.mark.parametrize("text", ["a\n\n" * 33_000, "a\n" * 50_000, "a" * 100_000])
def test_long_text_is_split_with_little_work(text):
    rendered = 0

    def fits(one):
        nonlocal rendered
        rendered += len(one)
        return len(one) <= 2_000

    assert len(list(islice(split(text, fits), 20))) == 20
    assert rendered < 10 * len(text)


def test_discord_gets_its_markdown():
    assert convert(f"{TEXT}\n\n{CODE}", DISCORD) == (
        "**Title**\n\n**Bold** and *it*, `a<b`, ~~no~~ [site](<https://a.example/?b=1&c=2>)"
        "\n\n• one\n• two\n\n1. x\n2. y\n\n```py\nif a < b:\n    pass\n```"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\\_b at https://a.example/x_y_z", "a\\_b at https://a.example/x_y_z"),
        ("&lt;@123> and \\*stars\\*", "\\<@123> and \\*stars\\*"),
        ("\\# no title", "\\# no title"),
        ("`` a`b ``", "``a`b``"),
    ],
)
def test_discord_marks_in_words_are_words(text, shown):
    assert convert(text, DISCORD) == shown
