"""Agents with several skills, all kinds of questions, and memory."""

from enum import Enum

from pydantic import BaseModel, Field

from agentkit import (
    Completed,
    InputRequired,
    Outcome,
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
