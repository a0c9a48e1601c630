"""Skills match a text by shared words; other agents hardly affect the score."""

import pytest

from apps.agents.search import SkillIndex, words_of


def skill(name, description="", tags=(), examples=()):
    said = {"id": name.lower(), "name": name, "description": description or f"{name}."}
    return {**said, "tags": list(tags), "examples": list(examples)}


TRANSLATE = skill("Translate", "Turns a text into another language.", ["french", "german"])
COUNT = skill("Countdown", "Counts from a number.", ["numbers"])
OTHERS = [skill(f"Other{number}", f"Handles case{number} of numbers.") for number in range(1000)]


def scores(asked, *skills):
    return SkillIndex(skills).scores(words_of(asked))


def test_words_are_those_that_tell_something_in_any_script():
    for text, words in [
        ("Translate the TEXT, please!", ["translate", "text"]),
        ("Straße CAFÉ файл", ["strasse", "café", "файл"]),
        ("ﬁle x_y _z_ 3.5", ["file", "x_y", "z"]),
        ("翻訳して", ["翻訳", "訳し", "して"]),
        ("猫 cat猫", ["猫", "cat", "猫"]),
        ("don't", []),
        ("  \n!", []),
    ]:
        assert words_of(text) == words, text


def test_the_skill_that_shares_words_is_found_and_no_other():
    assert scores("translate into French", TRANSLATE, COUNT) == [pytest.approx(2 / 3, abs=1e-3), 0.0]
    assert scores("bake bread", TRANSLATE, COUNT) == [0.0, 0.0]
    assert scores("", TRANSLATE) == [0.0]
    assert SkillIndex([]).matches(["translate"]) == []
    assert scores("anything", skill("The", "a")) == [0.0]


def test_a_word_is_found_wherever_the_skill_says_it():
    for field in ["name", "description", "tags", "examples"]:
        saying = {"name": {"name": "Zebra"}, "description": {"name": "S", "description": "zebra"}}
        made = skill(**saying.get(field, {"name": "S", field: ["zebra"]}))
        assert scores("a ZEBRA", made)[0] > 0.4, field


def test_words_that_nobody_else_says_give_so_much_and_words_said_again_a_little():
    for words, score in [(1, 1 / 2), (2, 2 / 3), (3, 3 / 4)]:
        named = [f"rare{number}" for number in range(words)]
        assert scores(" ".join(named), skill("S", " ".join(named)))[0] == pytest.approx(score, abs=1e-3), words
    filler = " ".join(f"other{number}" for number in range(500))
    assert scores(f"translate {filler}", TRANSLATE) == scores("translate", TRANSLATE)
    once, twice, often = (scores("x1", skill("S", "x1 " * number))[0] for number in (1, 2, 50))
    assert once < twice < often < 0.7


def test_other_agents_matter_only_by_the_words_that_they_say_too():
    alone = scores("translate into french", TRANSLATE)[0]
    assert scores("translate into french", TRANSLATE, *OTHERS)[0] == pytest.approx(alone, abs=1e-4)
    with_one, with_many = scores("numbers", COUNT)[0], scores("numbers", COUNT, *OTHERS)[0]
    assert with_one == pytest.approx(0.5, abs=1e-3)
    assert with_many < 0.05


def test_reasons_name_the_words_and_the_tags():
    [match] = SkillIndex([TRANSLATE]).matches(words_of("Translate into French or german"))
    assert match.words == ("translate", "french", "german")
    assert match.reasons == ["shares the words translate, french, german"]
    assert match.tags == ["french", "german"]
