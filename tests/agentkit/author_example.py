"""An agent as an outside author may write it; `make types` checks it with strict mypy.

Each `ignore` marks an error that mypy must find, because an unused ignore is an error too.
"""

from collections.abc import AsyncIterator
from enum import Enum

from pydantic import BaseModel, Field

from agentkit import (
    Artifact,
    AuthRequired,
    Clarify,
    Completed,
    InputRequired,
    Message,
    Outcome,
    Progress,
    Reject,
    Rejected,
    ResponseType,
    Skill,
    SkillHandler,
    Start,
    SyncTaskContext,
    TaskContext,
    Thread,
    agent,
    by_words,
    skill,
)
from agentkit.llm import LlmFunction


class Ask(Enum):
    PAYMENT = "payment"


class Trip(BaseModel):
    destination: str
    travellers: int = Field(ge=1)


class Travel(SkillHandler):
    """Books trips."""

    skills = [Skill("advise", "Advise", "Says where to go.", ["travel"])]
    choose_skill = by_words({"book": ["book"], "advise": ["where"]}, otherwise=Reject("I only do travel."))
    retry_safe = True

    @skill("book", tags=["travel"], examples=["Book a trip to Rome"])
    async def book(self, task: TaskContext) -> Outcome:
        await task.progress("Looking", done=1, total=2)
        return InputRequired("Where to, and how many?", slot=Trip)

    @skill("advise")
    def advise(self, task: SyncTaskContext) -> str:
        known: list[str] = task.session.memory.setdefault("asked", [])
        known.append(task.message.text)
        task.token("Rome")
        return "Rome"

    async def on_input_received(self, task: TaskContext, slot: Trip | Ask) -> Outcome:
        if isinstance(slot, Trip):
            task.memory["trip"] = slot.model_dump()
            return AuthRequired("How do you pay?", slot=Ask.PAYMENT)
        trip = Trip.model_validate(task.memory["trip"])
        return Completed(f"Booked {trip.destination}", [Artifact.json("trip.json", task.memory["trip"])])

    async def on_cancel(self, task: TaskContext) -> None:
        task.memory.clear()


class Picky(SkillHandler):
    skills = Travel.skills

    async def on_request(self, task: TaskContext) -> Outcome:
        return InputRequired("How do you pay?", slot=Ask.PAYMENT)

    def select_response_type(self, message: Message) -> ResponseType:
        return ResponseType.TASK

    async def negotiate(self, message: Message) -> Start | Clarify | Reject:
        return Start("book") if "book" in message.text else Clarify("Book or advise?")

    def on_input_received(self, task: SyncTaskContext) -> Outcome:
        trip = task.answer_as(Trip)
        return Rejected(f"{task.slot_as(Ask).value} for {trip.destination}")


@agent(name="Shout", skills=[Skill("shout", "Shout", "Says it louder.", ["text"])])
async def shout(history: Thread) -> AsyncIterator[str | Progress]:
    yield Progress("Breathing in…")
    for message in history.add("agent", "said"):
        yield message.text.upper()


words = LlmFunction("Say something.")
numbers = LlmFunction("Count.", list[int])


async def ask_models() -> tuple[str, list[int]]:
    return await words(None, "a"), await numbers(None, "b")


async def mistaken() -> int:
    skill(tagz=["a"])  # type: ignore[call-arg]
    return await words(None, "a")  # type: ignore[return-value]


class Mistaken(SkillHandler):
    async def on_request(self, task: TaskContext) -> Completed:
        task.progress(3)  # type: ignore[arg-type, unused-coroutine]
        return InputRequired("?", slot=3)  # type: ignore[arg-type, return-value]


async def refine(task: TaskContext) -> Artifact | str:
    for reference in task.references:
        for artifact in reference.artifacts:
            return artifact.refined("shorter")
    return "nothing to refine"
