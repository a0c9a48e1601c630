"""Agents with several skills, all kinds of questions, and memory."""

from enum import Enum

from pydantic import BaseModel, Field

from agentkit import (
    Completed,
    InputRequired,
    Outcome,
    Reject,
    SkillHandler,
    SyncTaskContext,
    TaskContext,
    by_words,
    skill,
)


class Ask(Enum):
    SURE = "sure"


class Trip(BaseModel):
    to: str
    people: int = Field(ge=1)


class Office(SkillHandler):
    retry_safe = True

    @skill("book", tags=["trip"], examples=["Book a trip"])
    async def book(self, task: TaskContext) -> Outcome:
        return InputRequired("Where to?", slot=Trip)

    @skill("advise", tags=["advice"])
    def advise(self, task: SyncTaskContext) -> str:
        return f"{task.skill}: {task.message.text}"

    choose_skill = by_words()

    async def on_input_received(self, task: TaskContext, slot: Trip | Ask) -> Outcome:
        if isinstance(slot, Trip):
            task.memory["trip"] = slot.model_dump()
            return InputRequired("Sure?", slot=Ask.SURE)
        return Completed(f"{task.skill}: {task.memory['trip']['people']} to {task.memory['trip']['to']}")


class Strict(Office):
    choose_skill = by_words(otherwise=Reject("Only trips and advice."))


class Failing(Office):
    async def negotiate(self, message):
        raise RuntimeError("boom")


class Forgetful(Office):
    asked = 0

    async def negotiate(self, message):
        from agentkit import Clarify, Start

        type(self).asked += 1
        return Start("advise") if type(self).asked % 2 else Clarify(f"What, the {type(self).asked}th time?")


class Keeping(SkillHandler):
    async def on_request(self, task: TaskContext) -> object:
        kept = dict(task.session.memory)
        for change in task.message.data:
            task.session.memory.update(change)
        for key in [key for key, value in task.session.memory.items() if value is None]:
            del task.session.memory[key]
        if task.message.text == "large":
            task.session.memory["large"] = "x" * 70_000
        if task.message.text == "odd":
            task.session.memory["odd"] = object()
        if task.message.text == "raise":
            raise RuntimeError("boom")
        return {"kept": kept}


class KeepingDeep(SkillHandler):
    async def on_request(self, task: TaskContext) -> object:
        task.session.memory.setdefault("seen", []).append(task.message.text)
        return {"kept": task.session.memory}


class Booking(SkillHandler):
    async def on_request(self, task: TaskContext) -> Outcome:
        return InputRequired("Book it?", slot=Trip(to="Rome", people=2))

    def on_input_received(self, task: SyncTaskContext, slot: Trip) -> str:
        return f"{slot.people} to {slot.to}, {task.message.text}"
