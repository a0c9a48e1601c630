"""The Travel agent asks for what it was not told, says why something cannot be, and plans the trip."""

import datetime

from agentkit import AuthRequired, Completed, testing
from examples.agents.travel.agent import Step, Travel
from examples.agents.travel.trip import Departure, Destination, Travellers
from examples.agents.travel.understanding import heard
from tests.examples.saying import content, form

TODAY = datetime.date(2026, 11, 21)  # a Saturday
KEY = {"payments": "a-key"}


def told(text: str, asked: str | None = None):
    """What is known from a text: the place, the date as ISO, the number; and why something cannot be."""
    known, problem = heard(testing.user_message(text), asked, TODAY)
    date = known.get("date")
    return known.get("destination"), date.isoformat() if date else None, known.get("travellers"), problem


def test_what_was_said_at_once_is_understood():
    for text, place, date, travellers in (
        ("two of us to Lisbon on 3 May", "Lisbon", "2027-05-03", 2),
        ("from Berlin to New York for 4 on May 5th, 2027", "New York", "2027-05-05", 4),
        ("2 adults and 1 child to cairo next Friday", "Cairo", "2026-11-27", 3),
        ("me and my wife to Porto in two weeks", "Porto", "2026-12-05", 2),
        ("Kyoto alone 3.5.", "Kyoto", "2027-05-03", 1),
        ("Oslo 2026-12-24 for a family of four", "Oslo", "2026-12-24", 4),
        ("tomorrow to Rome", "Rome", "2026-11-22", None),
        ("on Saturday, to Paris", "Paris", "2026-11-28", None),
        ("29 Feb", None, "2028-02-29", None),
        ("for 3 days to Seoul in May", "Seoul", None, None),
        ("I want to go away", None, None, None),
    ):
        assert told(text) == (place, date, travellers, None), text


def test_what_cannot_be_is_told_with_the_reason_and_what_is_sound_beside_it_kept():
    for text, asked, slot, why in (
        ("Rome on 30 February", None, Departure, "There is no 30 February."),
        ("31.4.2027", "Departure", Departure, "There is no 31 April 2027."),
        ("2026-11-20", "Departure", Departure, "20 November 2026 is over."),
        ("1 May 2031", "Departure", Departure, "more than two years away"),
        ("soon", "Departure", Departure, "I find no date in “soon”."),
        ("for 12 people", None, Travellers, "at most 9 travellers, not for 12"),
        ("0", "Travellers", Travellers, "Somebody has to travel."),
        ("2 or 3", "Travellers", Travellers, "several numbers"),
        ("many", "Travellers", Travellers, "no number of travellers"),
        ("12345", "Destination", Destination, "do not recognise a place"),
    ):
        problem = told(text, asked)[-1]
        assert problem.slot is slot, text
        assert why in problem.why
    place, date, travellers, problem = told("two of us to Lisbon on 31 June")
    assert (place, date, travellers, problem.slot) == ("Lisbon", None, 2, Departure)


def test_an_answer_may_be_short_or_say_more_than_was_asked():
    for text, asked, known in (
        ("lisbon", "Destination", ("Lisbon", None, None)),
        ("القاهرة", "Destination", ("القاهرة", None, None)),
        ("I would like to go to atlantis", "Destination", ("atlantis", None, None)),
        ("atlantis on 3 May for two", "Destination", ("atlantis", "2027-05-03", 2)),
        ("on 3 May", "Destination", (None, "2027-05-03", None)),
        ("to Rome instead", "Departure", ("Rome", None, None)),
        ("nine", "Travellers", (None, None, 9)),
        ("just me", "Travellers", (None, None, 1)),
    ):
        assert told(text, asked) == (*known, None), text


async def turn(run: testing.Run | None, message, **more):
    """The turn that answers what a run asked."""
    slots = {"Destination": Destination, "Departure": Departure, "Travellers": Travellers, "payment": Step.PAYMENT}
    known = {"slot": slots[run.outcome.slot], "memory": run.memory} if run else {}
    return await testing.run(Travel, message, **known, **more)


async def test_it_asks_one_thing_after_the_other():
    run = await turn(None, "I want to go away")
    assert (run.outcome.slot, run.said) == ("Destination", "Where would you like to go?")
    run = await turn(run, "Lisbon")
    assert run.outcome.slot == "Departure"
    assert run.outcome.schema["properties"]["date"]["format"] == "date"
    run = await turn(run, "tomorrow")
    assert run.outcome.slot == "Travellers"
    assert run.outcome.schema["properties"]["travellers"]["maximum"] == 9
    run = await turn(run, "2")
    assert isinstance(run.outcome, AuthRequired)
    assert (run.outcome.service, run.outcome.slot) == ("payments", "payment")


async def test_forms_are_understood_like_words():
    run = await turn(None, "I want to go away")
    run = await turn(run, form(destination="Oslo"))
    tomorrow = datetime.date.today() + datetime.timedelta(1)
    run = await turn(run, form(date=tomorrow.isoformat()))
    run = await turn(run, form(travellers=3))
    assert run.said.startswith(f"Three days in Oslo for 3 travellers, from {tomorrow:%A}")
    run = await turn(await turn(None, "to Oslo"), form(date="2020-01-01"))
    assert run.said.startswith("1 January 2020 is over.")
    named = form(destination="<b>[Atlantis](x)</b>", date=tomorrow.isoformat(), travellers=1)
    run = await testing.run(Travel, named, credentials=KEY)
    assert content(run, "itinerary.md").startswith("# Three days in bAtlantisx/b\n"), "a name is no markup"


async def test_what_cannot_be_is_asked_for_again_and_what_is_known_is_not():
    run = await turn(None, "Two of us to Lisbon on 31 June")
    assert (run.outcome.slot, run.said) == ("Departure", "There is no 31 June. When would you like to travel?")
    run = await turn(run, "30 June")
    assert isinstance(run.outcome, AuthRequired)
    assert run.said.startswith("Three days in Lisbon for 2 travellers, from")
    assert "This is a demonstration" in run.said


async def test_a_key_leads_to_the_plan_without_another_message_and_words_change_it():
    session: dict[str, object] = {}
    asked = await turn(None, "Two of us to Lisbon on 3 May", session=session)
    run = await turn(asked, asked.task.message, resumed=True, credentials=KEY, session=session)
    assert isinstance(run.outcome, Completed)
    page = content(run, "itinerary.md")
    assert page.startswith("# Three days in Lisbon\n")
    assert "Alfama on foot" in page
    assert "no money moves" in page
    assert "a-key" not in page + run.said
    known = {"references": [run.as_reference()], "session": session}
    changed = await testing.run(Travel, "make it five people", credentials=KEY, **known)
    assert "5 travellers, 3 rooms" in content(changed, "itinerary.md")
    assert changed.artifacts[0].artifact_id != run.artifacts[0].artifact_id
    anew = await testing.run(Travel, "I want to go away", **known)
    assert anew.said == "Where would you like to go?"


async def test_who_declined_may_go_on_without_payment():
    session: dict[str, object] = {}
    await turn(None, "Two of us to Lisbon on 3 May", session=session)
    run = await testing.run(Travel, "Without payment", session=session)
    assert isinstance(run.outcome, Completed)
    assert "You would pay when you travel." in content(run, "itinerary.md")
    asked = await testing.run(Travel, "Without payment")
    assert asked.outcome.slot == "Destination", "where nothing is remembered, it asks"
    run = await turn(await turn(None, "Two of us to Lisbon, without payment"), "3 May")
    assert isinstance(run.outcome, Completed), "that nobody wants to pay need be said once"
