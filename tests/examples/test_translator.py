"""The Translator tries, is judged, and tries again, until it is good enough or knows no better."""

from agentkit import InputRequired, testing
from examples.agents.translator.agent import MOST_ROUNDS, Missing, Translator, Wanted
from examples.agents.translator.wishes import Language, Wish, wish_in
from tests.examples.saying import NOTE, content, empty, form
from tests.llm.endpoint import Endpoint, calls, says

GERMAN, FRENCH, SPANISH = Language


def test_what_is_wanted_is_understood():
    for said, wish in (
        ("Translate to German: Good day.", Wish("Good day.", GERMAN)),
        ("translate this into French:\nOne\nTwo", Wish("One\nTwo", FRENCH)),
        ("Please translate “the cat” to Spanish.", Wish("the cat", SPANISH)),
        ("German: the house", Wish("the house", GERMAN)),
        ("the same in French", Wish("", FRENCH)),
        ("and now in spanish?", Wish("", SPANISH)),
        ("Translate: the cat", Wish("the cat")),
        ("the cat", Wish("the cat")),
        ("German is spoken here", Wish("German is spoken here")),
        ("I learned it to read books in French", Wish("I learned it to read books in French")),
        ("", Wish("")),
    ):
        assert wish_in(said) == wish, said


async def test_it_stops_at_the_first_round_that_is_good_enough():
    run = await testing.run(Translator, "Translate to German: Good morning, my friend.")
    assert content(run, "translation.txt") == "Guten Morgen, mein Freund."
    assert run.recorder.progress == ["Round 1: translating…", "Round 1: quality 1.00, 0.85 is good enough"]
    assert "in 1 round; its quality is 1.00 of 1" in run.said
    assert run.said.endswith(NOTE)
    run = await testing.run(Translator, "Translate to French: The cats open the doors, and the dog sleeps.")
    scores = [float(line.split("quality ")[1][:4]) for line in run.recorder.progress if "quality" in line]
    assert scores == sorted(scores)
    assert scores[0] < 0.85 <= scores[-1], "the judgment makes the next round better"
    assert content(run, "translation.txt") == "Le chat ouvre le porte, et le chien dors."


async def test_what_it_cannot_do_it_says_and_delivers_its_best():
    run = await testing.run(Translator, "Translate to Spanish: quantum chromodynamics with cats")
    assert content(run, "translation.txt") == "quantum chromodynamics con gato"
    assert "not good enough" in run.said
    assert "Not translated: quantum, chromodynamics" in run.said
    assert len([line for line in run.recorder.progress if "translating" in line]) <= MOST_ROUNDS
    run = await testing.run(Translator, "Translate to German: the hosue, the watre")
    assert content(run, "translation.txt").startswith("die Haus (?)")
    run = await testing.run(Translator, "Translate to German: I love Anna 🎉 and مرحبا")
    assert content(run, "translation.txt") == "ich liebe Anna 🎉 und مرحبا"


async def test_the_language_is_asked_for_and_the_text_remembered():
    asked = await testing.run(Translator, "the cat")
    assert isinstance(asked.outcome, InputRequired)
    assert asked.outcome.schema["properties"]["language"]["enum"] == ["German", "French", "Spanish"]
    for answer, translation in (
        ("german", "die Katze"),
        ("in French", "le chat"),
        (form(language="Spanish"), "el gato"),
    ):
        run = await testing.run(Translator, answer, slot=Wanted, memory=dict(asked.memory))
        assert content(run, "translation.txt") == translation
    again = await testing.run(Translator, "Klingon", slot=Wanted, memory=dict(asked.memory))
    assert isinstance(again.outcome, InputRequired)
    assert "German" in again.said


async def test_a_text_is_asked_for_and_the_language_remembered():
    asked = await testing.run(Translator, "Translate to German")
    assert (asked.outcome.slot, asked.said[:10]) == ("text", "Which text")
    run = await testing.run(Translator, "the cat", slot=Missing.TEXT, memory=asked.memory)
    assert content(run, "translation.txt") == "die Katze"
    again = await testing.run(Translator, empty(), slot=Missing.TEXT, memory={"language": "German"})
    assert again.outcome.slot == "text"
    other = await testing.run(Translator, "The same in French", references=[run.as_reference()])
    assert content(other, "translation.txt") == "le chat"
    assert other.artifacts[0].artifact_id != run.artifacts[0].artifact_id


async def test_with_a_model_the_remarks_go_into_the_next_round(endpoint: Endpoint):
    poor = calls(("final_result", {"score": 0.5, "remarks": ["too literal"]}))
    good = calls(("final_result", {"score": 0.9, "remarks": []}))
    endpoint.replies = [says("Erste."), poor, says("Zweite."), good]
    run = await testing.run(Translator, "Translate to German: Second.")
    assert content(run, "translation.txt") == "Zweite."
    _, told = endpoint.said(2)[-1]
    assert '"previous": "Erste."' in told
    assert '"remarks": ["too literal"]' in told
    assert len(endpoint.requests) == 4


async def test_a_model_that_never_satisfies_its_judge_ends_after_the_last_round(endpoint: Endpoint):
    for number, score in enumerate([0.2, 0.6, 0.4, 0.3], 1):
        endpoint.replies += [says(f"Versuch {number}."), calls(("final_result", {"score": score, "remarks": ["no"]}))]
    run = await testing.run(Translator, "Translate to German: Try.")
    assert content(run, "translation.txt") == "Versuch 2.", "the best of them, not the last"
    assert len(endpoint.requests) == 2 * MOST_ROUNDS
