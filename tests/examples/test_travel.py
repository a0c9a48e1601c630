"""The Travel agent asks for missing data, explains refusals, and plans the trip."""

import datetime

from agentkit import AuthRequired, Completed, testing
from examples.agents.travel import Departure, Destination, Step, Travel, Travellers, read_trip
from tests.examples.saying import content, form

KEY = {"payments": "a-key"}
YEAR = datetime.date.today().year + 1


def test_what_was_said_at_once_is_understood():
    for text, place, date, travelers in (
        (f"Two of us to Lisbon on 3 May {YEAR}", "Lisbon", f"{YEAR}-05-03", 2),
        (f"from Berlin to New York for 4 people on {YEAR}-05-05", "New York", f"{YEAR}-05-05", 4),
        ("Oslo, for 2 adults", "Oslo", None, 2),
        ("Two of us to Rome on 30 February", "Rome", None, 2),
        ("I may go to Oslo, where we sat for a week", "Oslo", None, None),
        ("I want to go away", None, None, None),
    ):
        trip = read_trip(text)
        assert (trip.get("destination"), trip.get("date"), trip.get("travellers")) == (place, date, travelers), text


async def test_days_in_words_are_understood():
    today = datetime.date.today()
    run = await turn(await turn(await turn(None, "Book a flight"), "Helsinki"), "next Monday")
    monday = today + datetime.timedelta(7 - today.weekday())
    assert run.memory["trip"] == {"destination": "Helsinki", "date": monday.isoformat()}
    for text, days in (("the day after tomorrow", 2), ("in two weeks", 14), ("two", 0), ("2", 0), ("May", 0)):
        run = await testing.run(Travel, text, slot=Departure, memory={"trip": {}})
        found = {"date": (today + datetime.timedelta(days)).isoformat()} if days else {}
        assert run.memory["trip"] == found, text


async def test_what_cannot_be_is_told_with_the_reason_and_asked_again():
    for text, slot, why in (
        ("2020-11-20", Departure, "20 November 2020 is in the past."),
        ("1 May 2099", Departure, "more than two years away"),
        ("soon", Departure, "I did not find a date."),
        ("30 February", Departure, "There is no 30 February."),
        ("12", Travellers, "less than or equal to 9"),
        ("0", Travellers, "greater than or equal to 1"),
        ("many", Travellers, "valid integer"),
        ("x", Destination, "at least 2 characters"),
    ):
        run = await testing.run(Travel, text, slot=slot, memory={"trip": {}})
        assert run.outcome.slot == slot.__name__, text
        assert why in run.said, text


async def turn(run: testing.Run | None, message, **more):
    """The turn that answers a run's question."""
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
    assert run.said.startswith(f"Three days in Oslo for 3 travelers, from {tomorrow:%A}")
    run = await turn(await turn(None, "to Oslo"), form(date="2020-01-01"))
    assert "1 January 2020 is in the past." in run.said
    named = form(destination="<b>[Atlantis](x)</b>", date=tomorrow.isoformat(), travellers=1)
    run = await testing.run(Travel, named, credentials=KEY)
    assert content(run, "itinerary.md").startswith("# Three days in &lt;b&gt;\\[Atlantis"), "a name is no markup"


async def test_a_key_leads_to_the_plan_without_another_message_and_words_change_it():
    session: dict[str, object] = {}
    asked = await turn(None, "Two of us to Lisbon on 3 May", session=session)
    run = await turn(asked, asked.task.message, resumed=True, credentials=KEY, session=session)
    assert isinstance(run.outcome, Completed)
    page = content(run, "itinerary.md")
    assert page.startswith("# Three days in Lisbon\n")
    assert "Alfama on foot" in page
    assert "nothing is paid" in page
    assert "a-key" not in page + run.said
    known = {"references": [run.as_reference()], "session": session}
    changed = await testing.run(Travel, "five people", credentials=KEY, **known)
    assert "5 travelers, 3 rooms" in content(changed, "itinerary.md")
    assert changed.artifacts[0].artifact_id != run.artifacts[0].artifact_id
    anew = await testing.run(Travel, "I want to go away", **known)
    assert anew.said == "Where would you like to go?"


async def test_who_declined_may_go_on_without_payment():
    session: dict[str, object] = {}
    await turn(None, "Two of us to Lisbon on 3 May", session=session)
    run = await testing.run(Travel, "Without payment", session=session)
    assert isinstance(run.outcome, Completed)
    assert "You would pay on arrival." in content(run, "itinerary.md")
    asked = await testing.run(Travel, "Without payment")
    assert asked.outcome.slot == "Destination", "where nothing is remembered, it asks"
    run = await turn(await turn(None, "Two of us to Lisbon, without payment"), "3 May")
    assert isinstance(run.outcome, Completed), "that nobody wants to pay need be said once"
