"""Choosing a skill: by sender, rules, code, or a question."""

import threading

import pytest

from agentkit import (
    Clarify,
    HandlerError,
    InputRequired,
    InvalidAnswer,
    Reject,
    Rejected,
    Skill,
    SkillHandler,
    Start,
    Thread,
    as_handler,
    by_words,
    needs_thread,
    testing,
)

SKILLS = (
    Skill("invoice", "Read invoices", "Reads.", ["bill", "invoices"], examples=["What do I owe the plumber?"]),
    Skill("trip", "Plan a trip", "Plans.", ["travel", "public transport"]),
)
REST = Skill("rest", "Have a rest", "Rests.", ["sofa"])


class Office(SkillHandler):
    skills = SKILLS
    choose_skill = by_words()

    async def on_request(self, task):
        return f"{task.skill}: {task.message.text}"


def said(text, **metadata):
    return testing.user_message(
        {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "metadata": metadata}
    )


def test_the_best_fitting_skill_is_started():
    for text, chosen in (
        ("here are two BILLS", "invoice"),
        ("the plumber again", "invoice"),
        ("I travel by public transport", "trip"),
        ("a travel bill by public transport", "trip"),
    ):
        assert by_words()(said(text), SKILLS) == Start(chosen), text
    for text in ("hello", "", "publicly transported"):
        decision = by_words()(said(text), SKILLS)
        assert isinstance(decision, Clarify), text
        assert "- **Read invoices**: Reads.\n- **Plan a trip**: Plans." in decision.question
    decision = by_words()(said("a travel bill"), [*SKILLS, REST])
    assert isinstance(decision, Clarify)
    assert "Have a rest" not in decision.question


async def test_a_chooser_that_cannot_choose_is_a_mistake():
    for chooser, told in (
        (by_words({"train": ["rail"]}), "has no skill 'train'"),
        (lambda message, skills: Start("trip"), r"must define choose_skill\(self, message, skills\)"),
    ):
        with pytest.raises(HandlerError, match=told):
            as_handler(type("Mistaken", (Office,), {"choose_skill": chooser}))
    for given, told in (("trip", "gave str"), (None, "gave NoneType"), (Start("x"), "has invoice")):
        kind = type("Wrong", (Office,), {"negotiate": lambda self, message, given=given: given})
        with pytest.raises(InvalidAnswer, match=told):
            await testing.run(kind, "hello")


async def test_the_sender_may_name_an_existing_skill():
    run = await testing.run(Office, said("hello", skillId="trip"))
    assert (run.said, run.skill) == ("trip: hello", "trip")
    for named in ("train", "", 3, ["trip"], {"id": "trip"}):
        run = await testing.run(Office, said("hello", skillId=named))
        assert isinstance(run.outcome, InputRequired)
        assert "There is no skill" in run.said
        assert "trip" in run.said
        assert run.skill is None
    run = await testing.run(Office, "my bill", skill="trip")
    assert (run.said, run.emissions) == ("trip: my bill", []), "a task keeps its skill"


async def test_an_only_skill_or_none_needs_no_choice():
    kind = type("Single", (Office,), {"skills": SKILLS[:1]})
    run = await testing.run(kind, "anything")
    assert (run.said, run.emissions) == ("invoice: anything", [])
    assert isinstance((await testing.run(kind, said("x", skillId="trip"))).outcome, InputRequired)
    assert (await testing.run(lambda task: str(task.skill), said("x", skillId="anything"))).said == "None"


async def test_an_answered_skill_takes_up_the_request():
    asked = await testing.run(Office, "Do it on Sunday")
    slot = asked.outcome.slot
    history = Thread().add("user", "earlier").add("user", "Do it on Sunday").add("agent", "who?")
    form = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"which-skill": "trip"}}]}
    for given, told in (
        ("plan a trip", "trip: Do it on Sunday"),
        (form, "trip: Do it on Sunday"),
        ("the travel thing", "trip: the travel thing"),
    ):
        run = await testing.run(Office, given, slot=slot, history=history)
        assert (run.said, run.skill) == (told, "trip")
    assert isinstance((await testing.run(Office, "whatever", slot=slot, history=history)).outcome, InputRequired)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_may_decide_by_itself(is_async):
    threads = []

    def decided(self, message):
        threads.append(threading.current_thread())
        return {"no": Reject("Never."), "hm": Clarify("What?")}.get(message.text, Start("trip"))

    async def awaited(self, message):
        return decided(self, message)

    kind = type("Deciding", (Office,), {"negotiate": awaited if is_async else decided})
    assert isinstance((await testing.run(kind, "no")).outcome, Rejected)
    choices = [{"const": one.id, "title": one.name} for one in SKILLS]
    assert (await testing.run(kind, "hm")).outcome == InputRequired(
        "What?", "which-skill", {"type": "string", "oneOf": choices}, {"error": {"code": "clarify"}}
    )
    assert (await testing.run(kind, "bill")).skill == "trip"
    assert {one is threading.main_thread() for one in threads} == {is_async}
    assert needs_thread(kind()) is not is_async
