"""The Travel agent: it asks for what it does not know, for a way to pay, and plans the trip. It books nothing."""

from __future__ import annotations

import datetime
from enum import Enum

from agentkit import Artifact, AuthRequired, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples.agents.travel.itinerary import as_markdown
from examples.agents.travel.trip import QUESTIONS, Trip
from examples.agents.travel.understanding import heard, wants_no_payment

NAME = "itinerary.md"
SERVICE = "payments"
DEMONSTRATION = "This is a demonstration: nothing is booked, nobody is called, and no money moves."
PAYMENT = (
    "{trip} To reserve it I need a key for the service “payments”. Make one up; give no real one. "
    f"{DEMONSTRATION} If you would rather not, decline, and then write “without payment”: I remember the trip."
)


class Step(Enum):
    """What is awaited besides the facts of the trip."""

    PAYMENT = "payment"


class Travel(SkillHandler):
    """Plans a trip: asks where to, when and for how many, then for a way to pay. A demonstration that books nothing."""

    name = "Travel"
    skills = (
        Skill(
            "plan-a-trip",
            "Plan a trip",
            "Asks for the destination, the date and the number of travellers, unless they were said at once, then for "
            "a key to pay with, and delivers a plan for three days. A demonstration: nothing is booked or paid.",
            tags=["travel", "booking", "questions", "credentials", "demo"],
            examples=["I want to go away", "Two of us to Lisbon on 3 May", "Without payment"],
            output_modes=["text/markdown"],
        ),
    )
    output_modes = ("text/markdown", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        # “Without payment” after a declined key, or “make it four of us” after a plan, go on with the trip there was.
        changes = task.references and any(heard(task.message, None, datetime.date.today()))
        goes_on = changes or wants_no_payment(task.message.text)
        remembered = task.session.memory.get("trip") if goes_on else None
        return await self._go_on(task, Trip.model_validate(remembered or {}))

    async def on_input_received(self, task: TaskContext) -> Outcome:
        return await self._go_on(task, Trip.model_validate(task.memory["trip"]))

    async def _go_on(self, task: TaskContext, trip: Trip) -> Outcome:
        """Hear what the message says, then ask for what is missing still, or plan."""
        known, problem = heard(task.message, task.slot, datetime.date.today())
        trip = trip.model_copy(update=known)
        task.memory["unpaid"] = task.memory.get("unpaid") or wants_no_payment(task.message.text)
        task.memory["trip"] = task.session.memory["trip"] = trip.model_dump(mode="json")
        if problem:
            return InputRequired(problem.why, slot=problem.slot)
        if missing := trip.missing:
            return InputRequired(QUESTIONS[missing].format(trip=trip), slot=missing)
        if task.memory["unpaid"]:
            return await self._plan(task, trip, "You would pay when you travel.")
        if await task.credential(SERVICE) is None:
            return AuthRequired(PAYMENT.format(trip=trip.sentence), service=SERVICE, slot=Step.PAYMENT)
        return await self._plan(task, trip, "It would be paid with your key.")

    async def _plan(self, task: TaskContext, trip: Trip, payment: str) -> Completed:
        await task.progress(f"Planning three days in {trip.destination}…")
        page = as_markdown(trip, f"{payment} {DEMONSTRATION}")
        plan = Artifact.text(NAME, page, "text/markdown", description=f"Three days in {trip.destination}")
        return Completed(f"{trip.sentence} {payment} {DEMONSTRATION}", [plan])
