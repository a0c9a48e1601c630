"""What is found in texts, in bounded time, whole or in pieces."""

import pytest

from apps.optional.guardrails import finding
from apps.optional.guardrails.finding import (
    CATEGORIES,
    Pieces,
    TooSlow,
    check_patterns,
    may_stream,
    own_rules,
    personal_rules,
)

EVERYTHING = personal_rules(tuple(CATEGORIES), "DE")
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc+/=\n-----END RSA PRIVATE KEY-----"


def found(text, rules=EVERYTHING):
    return [(one.rule.category, text[one.start : one.end]) for one in finding.find(text, rules)]


@pytest.mark.parametrize(
    ("text", "category", "what"),
    [
        ("Write to joe.o'hara@mail.example.co.uk!", "email", "joe.o'hara@mail.example.co.uk"),
        ("call +49 170 1234567 now", "phone", "+49 170 1234567"),
        ("call 030 901820", "phone", "030 901820"),
        ("my 2 cards: 12 4111 1111 1111 1111", "card", "4111 1111 1111 1111"),
        ("pay to DE89 3704 0044 0532 0130 00 AT ONCE", "iban", "DE89 3704 0044 0532 0130 00"),
        ("ping 192.168.0.1.", "ip", "192.168.0.1"),
        ("ping 2001:db8::1 now", "ip", "2001:db8::1"),
        ("use sk-abcdefghijklmnopqrstuvwx", "secret", "sk-abcdefghijklmnopqrstuvwx"),
        ('password = "hunter2hunter2"', "secret", "hunter2hunter2"),
        (f"here: {KEY} there", "secret", KEY),
    ],
)
def test_personal_data_is_found(text, category, what):
    assert (category, what) in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112", "DE88 3704 0044 0532 0130 00", "999.1.1.1", "version 1.2.3.4.5", "std::vector<int>",
        "at 12:30:45", "on 2026-11-30", "joe@localhost", "order 1234567 of 10", "a password is needed", "sk-short",
    ],
)  # fmt: skip
def test_look_alikes_are_left(text):
    assert found(text) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_pieces_give_the_same_as_the_whole(size):
    text = f"Mail joe@example.org, +49 170 1234567, 4111 1111 1111 1111, password=hunter2hunter2 2026 and {KEY}."
    rules = (*EVERYTHING, *own_rules("blue moon", r"x(yz)?"))
    text += " Once in a Blue Moon: x xy xyz."
    pieces = Pieces(rules)
    streamed = "".join([*(pieces.feed(text[at : at + size]) for at in range(0, len(text), size)), pieces.end()])
    spans = finding.find(text, rules)
    assert streamed == finding.hidden(text, spans)
    assert pieces.counts == finding.counts_of(spans)


def test_streamed_text_waits_for_little():
    pieces = Pieces(EVERYTHING)
    assert pieces.feed("All is well. Write to joe@exam").startswith("All is well. Write")
    assert len(pieces.feed("x" * 3 * finding.MAX_HELD)) > finding.MAX_HELD


def test_hostile_pattern_ends_in_time():
    with pytest.raises(TooSlow):
        finding.find("a" * 5000 + "b", own_rules("", r"(a+)+$"), seconds=0.05)


def test_words_are_whole_words():
    rules = own_rules("Blue\nred wine", "", "color")
    assert found("blue BLUE bluer and Red Wine", rules) == [("word", "blue"), ("word", "BLUE"), ("word", "Red Wine")]
    assert finding.hidden("a blue one", finding.find("a blue one", rules)) == "a [color] one"


@pytest.mark.parametrize("call", ["(?R)", "(?1)", "(?+1)", "(?-1)", "(?&n)", "(?P>n)"])
def test_patterns_that_call_themselves_are_refused(call):
    assert "itself" in check_patterns(f"(?P<n>a{call}?b)")
    assert not check_patterns(r"(?P<n>a)(?P=n)(?=b)(?:c)(?i:d)")


@pytest.mark.parametrize(
    ("words", "patterns", "may"),
    [("blue\nred wine", "", True), ("blue\nblue moon", "", True), ("Moon\nblue moon", "", False), ("", "a", False)],
)
def test_only_clear_words_stream(words, patterns, may):
    assert may_stream(words, patterns) is may


@pytest.mark.parametrize("pattern", ["(", "a*", "b{99999999999999999999}", "x" * 501, "a\n" * 201])
def test_wrong_patterns_are_refused(pattern):
    assert check_patterns(pattern)
    assert not check_patterns(r"\bfoo\d+")
