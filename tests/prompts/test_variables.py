"""The variables of a text: how they are written, what they take, and what is refused."""

import pytest

from apps.optional.prompts.variables import WrongTemplate, parse
from apps.record.errors import InvalidFields


def refused(template, **values):
    with pytest.raises(InvalidFields) as error:
        template.render(values)
    return {place for place, _ in error.value.violations}


def test_values_and_defaults_fill_the_text():
    text = (
        "{{topic}}, {{tone: plain | formal = plain}}, {{In words = 100}}, {{notes: long text}}, {{end = }}, {{topic}}"
    )
    filled = parse(text).render({"topic": "energy", "notes": "one\ntwo"})
    assert filled == "energy, plain, 100, one\ntwo, , energy"


def test_values_are_never_templates():
    template = parse(r"\{{topic}} is {{topic}}, {{other}}")
    assert template.render({"topic": "{{other}}", "other": "x"}) == "{{topic}} is {{other}}, x"


def test_each_wrong_value_is_named():
    template = parse("{{topic}} {{tone: plain | formal}} {{line}}")
    wrong = {"tone": "rude", "line": "one\ntwo", "surprise": "x"}
    assert refused(template, **wrong) == {"values.topic", "values.tone", "values.line", "values.surprise"}


def test_declared_once_it_may_stand_everywhere():
    [one] = parse("{{tone}} {{tone: plain | formal}} {{tone}}").variables
    assert one.choices == ("plain", "formal")


@pytest.mark.parametrize(
    "text",
    [
        "{{",
        "{{}}",
        "{{1st}}",
        "{{a b | upper}}",
        "{{tone: plain}}",
        "{{tone: a | b = c}}",
        "{{a = 1}} {{a = 2}}",
        "{{a = one\ntwo}}",
        " ".join(f"{{{{a{number}}}}}" for number in range(31)),
    ],
)
def test_unclear_text_is_refused(text):
    with pytest.raises(WrongTemplate):
        parse(text)


def test_error_names_the_line():
    with pytest.raises(WrongTemplate, match=r"^Line 3"):
        parse("one\n{{two}}\n{{tone: plain}}")


@pytest.mark.parametrize("text", ["{{" + " " * 200_000 + "|}}", "{{" * 200_000, "\n{{a}}" * 200_000 + "{{|}}"])
def test_long_wrong_text_is_refused_soon(text):
    with pytest.raises(WrongTemplate):
        parse(text)
