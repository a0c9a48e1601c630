"""The Translator: it translates and judges in turns, and says how good the result is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel, Field, field_validator

from agentkit import Artifact, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples import sources
from examples.agents.translator import script
from examples.agents.translator.script import Judgement
from examples.agents.translator.wishes import Language, wish_in
from examples.prose import counted
from examples.steps import ON_CARD, Step, noted

NAME = "translation.txt"
GOOD_ENOUGH = 0.85  # of 1
MOST_ROUNDS = 4
SHOWN = 2000  # characters of a translation that the answer repeats


TRANSLATE = Step(
    "translator",
    "Translate `text` into `language`. Where there is a `previous` translation, improve it by these `remarks`. Answer "
    "with nothing but the translation, and keep its lines.",
    str,
    offline=script.translated,
)
JUDGE = Step(
    "translator",
    "Judge this `translation` of `text` into `language`: is all of it there, right, and natural? Score it from 0 to 1, "
    "and name what to improve, at most 20 remarks.",
    Judgement,
    offline=script.judged,
)


class Wanted(BaseModel):
    """What the Translator asks for where no language was named."""

    language: Language = Field(title="Language")

    @field_validator("language", mode="before")
    @classmethod
    def _as_people_write_it(cls, value: object) -> object:
        return (wish_in(f"in {value}").language or value) if isinstance(value, str) else value


class Missing(Enum):
    """What else may be missing."""

    TEXT = "text"


@dataclass(frozen=True)
class Attempt:
    """The translation of a round, and what was thought of it."""

    round: int
    text: str
    judgement: Judgement


class Translator(SkillHandler):
    """Translates into German, French or Spanish, judges the result, and improves it until it is good enough."""

    name = "Translator"
    description = (
        "Translates into German, French or Spanish, judges the result, and improves it until it is good enough. "
        f"{ON_CARD} It knows some hundred English words, and translates word by word."
    )
    skills = (
        Skill(
            "translate",
            "Translate a text",
            "Translates, scores what came of it, and tries again with the remarks, up to four times. Afterwards: "
            "“the same in French”.",
            tags=["translation", "german", "french", "spanish", "loop"],
            examples=["Translate to German: Good morning, the cats are sleeping in the house.", "The same in French"],
            input_modes=["text/plain"],
            output_modes=["text/plain"],
        ),
    )
    input_modes = ("text/plain", "text/*")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        wish = wish_in(task.message.text)
        text = await sources.of_files(task) or wish.text or _earlier(task)
        return await self._begin(task, text, wish.language)

    async def on_input_received(self, task: TaskContext, slot: Wanted | Missing) -> Outcome:
        if isinstance(slot, Wanted):
            return await self._begin(task, str(task.memory["text"]), slot.language)
        wish = wish_in(task.message.text)
        known = Language(task.memory["language"]) if task.memory.get("language") else None
        return await self._begin(task, await sources.of_files(task) or wish.text, wish.language or known)

    async def _begin(self, task: TaskContext, text: str, language: Language | None) -> Outcome:
        if not text:
            task.memory["language"] = language.value if language else ""
            return InputRequired("Which text shall I translate? Send it as a message or as a file.", slot=Missing.TEXT)
        if not language:
            task.memory["text"] = text
            return InputRequired("Into which language: German, French or Spanish?", slot=Wanted)
        best = await _improved(task, text, language)
        earlier = sources.delivered(task, NAME)
        description = f"Into {language.value}, quality {best.judgement.score:.2f}"
        kept = earlier.refined(best.text) if earlier else Artifact.text(NAME, best.text, description=description)
        return Completed(await noted(_said(best, language)), [kept])


async def _improved(task: TaskContext, text: str, language: Language) -> Attempt:
    """The best of the attempts, of which the first that is good enough is the last."""
    attempts: list[Attempt] = []
    previous, remarks = "", list[str]()
    for number in range(1, MOST_ROUNDS + 1):
        await task.progress(f"Round {number}: translating…", number - 1, MOST_ROUNDS)
        made = await TRANSLATE(task, text=text, language=language.value, previous=previous, remarks=remarks)
        if made == previous:  # it knows no better
            break
        judgement = await JUDGE(task, text=text, translation=made, language=language.value)
        attempts.append(Attempt(number, made, judgement))
        score = f"Round {number}: quality {judgement.score:.2f}, {GOOD_ENOUGH:.2f} is good enough"
        await task.progress(score, number, MOST_ROUNDS)
        if judgement.score >= GOOD_ENOUGH:
            break
        previous, remarks = made, judgement.remarks
    return max(attempts, key=lambda attempt: attempt.judgement.score)


def _said(best: Attempt, language: Language) -> str:
    text = best.text if len(best.text) <= SHOWN else f"The translation is in {NAME}."
    quality = f"its quality is {best.judgement.score:.2f} of 1"
    if best.judgement.score >= GOOD_ENOUGH:
        return f"{text}\n\nInto {language.value} in {counted(best.round, 'round')}; {quality}."
    return f"{text}\n\nThis is my best, but not good enough: {quality}. {'; '.join(best.judgement.remarks)}"


def _earlier(task: TaskContext) -> str:
    """The text of the task that this one refines, for “the same in French”."""
    messages = [message for reference in task.references for message in reference.messages]
    wishes = [wish_in(message.text).text for message in messages if message.role == "user"]
    return next(filter(None, reversed(wishes)), "")
