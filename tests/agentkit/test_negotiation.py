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
    decide,
    needs_thread,
    skill,
    testing,
)

SKILLS = (
    Skill("invoice", "Read invoices", "Reads.", ["bill", "invoices"], examples=["What do I owe the plumber?"]),
    Skill("trip", "Plan a trip", "Plans.", ["travel", "public transport"]),
)


class Office(SkillHandler):
    skills = SKILLS
    choose_skill = by_words()

    async def on_request(self, task):
        return f"{task.skill}: {task.message.text}"


CHOICES = [{"const": one.id, "title": one.name} for one in SKILLS]


def said(text, **metadata):
    return testing.user_message(
        {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "metadata": metadata}
    )


def answer_of(chosen):
    """The values of the question's form."""
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"which-skill": chosen}}]}


def test_the_skill_with_the_most_words_takes_it_and_where_none_has_it_is_asked():
    for text, chosen in (
        ("Here is a bill", "invoice"),
        ("here are two BILLS", "invoice"),
        ("the plumber again", "invoice"),
        ("I travel by public transport", "trip"),
        ("a travel bill by public transport", "trip"),
    ):
        assert by_words()(said(text), SKILLS) == Start(chosen), text
    for text in ("hello", "", "a travel bill", "publicly transported"):
        decision = by_words()(said(text), SKILLS)
        assert isinstance(decision, Clarify), text
        assert "- **Read invoices**: Reads.\n- **Plan a trip**: Plans." in decision.question


def test_only_skills_that_fit_equally_are_asked_about():
    other = Skill("rest", "Have a rest", "Rests.", ["sofa"])
    decision = by_words()(said("a travel bill"), [*SKILLS, other])
    assert isinstance(decision, Clarify)
    assert "Have a rest" not in decision.question


def test_words_may_be_given_and_what_to_do_otherwise():
    chooser = by_words({"trip": ["fly", "go away"]}, otherwise=Reject("Not here."))
    assert chooser(said("I want to go away"), SKILLS) == Start("trip")
    assert chooser(said("I go, far away"), SKILLS) == Reject("Not here.")
    assert chooser(said("my bill"), SKILLS) == Reject("Not here.")


def test_a_chooser_that_cannot_choose_is_a_mistake():
    kind = type("Mistaken", (Office,), {"choose_skill": by_words({"train": ["rail"]})})
    with pytest.raises(HandlerError, match="has no skill 'train'"):
        as_handler(kind)
    kind = type("Bound", (Office,), {"choose_skill": lambda message, skills: Start("trip")})
    with pytest.raises(HandlerError, match=r"must define choose_skill\(self, message, skills\)"):
        as_handler(kind)


async def test_the_sender_may_name_a_skill_that_there_is_and_is_told_of_those_for_another():
    run = await testing.run(Office, said("hello", skillId="trip"))
    assert (run.said, run.skill) == ("trip: hello", "trip")
    for named in ("train", "", 3, ["trip"], {"id": "trip"}):
        run = await testing.run(Office, said("hello", skillId=named))
        assert isinstance(run.outcome, InputRequired)
        assert "There is no skill" in run.said
        assert "trip" in run.said
        assert run.skill is None


async def test_an_only_skill_or_none_needs_no_choice():
    class Single(SkillHandler):
        skills = SKILLS[:1]

        async def on_request(self, task):
            return task.skill

    run = await testing.run(Single, "anything")
    assert (run.said, run.emissions) == ("invoice", [])
    assert isinstance((await testing.run(Single, said("x", skillId="trip"))).outcome, InputRequired)
    assert (await testing.run(lambda task: str(task.skill), said("x", skillId="anything"))).said == "None"


async def test_many_skills_without_a_rule_are_left_to_on_request_or_asked_for():
    class Open(SkillHandler):
        skills = SKILLS

        def on_request(self, task):
            return f"skill {task.skill}"

    class Methods(SkillHandler):
        @skill()
        def one(self, task): ...

        @skill()
        def two(self, task): ...

    assert (await testing.run(Open, "hello")).said == "skill None"
    assert (await testing.run(Methods, "hello")).outcome.schema == {
        "type": "string",
        "oneOf": [{"const": "one", "title": "One"}, {"const": "two", "title": "Two"}],
    }


async def test_the_answer_to_the_question_takes_up_the_request_that_was_unclear():
    asked = await testing.run(Office, "Do it on Sunday")
    assert isinstance(asked.outcome, InputRequired)
    history = Thread().add("user", "earlier").add("user", "Do it on Sunday").add("agent", "who?")
    by_name = await testing.run(Office, "plan a trip", slot=asked.outcome.slot, history=history)
    assert (by_name.said, by_name.skill) == ("trip: Do it on Sunday", "trip")
    by_form = await testing.run(Office, answer_of("trip"), slot=asked.outcome.slot, history=history)
    assert by_form.said == by_name.said
    by_words_of_it = await testing.run(Office, "the travel thing", slot=asked.outcome.slot, history=history)
    assert by_words_of_it.said == "trip: the travel thing"
    again = await testing.run(Office, "whatever", slot=asked.outcome.slot, history=history)
    assert isinstance(again.outcome, InputRequired)


async def test_once_the_skill_is_known_the_question_for_it_is_forgotten():
    seen = []

    class Looking(Office):
        async def on_request(self, task):
            seen.append((task.slot, dict(task.asked), len(task.history)))

    asked = InputRequired("Which?", "which-skill", {"enum": ["trip"]})
    for text in ("trip", "the travel thing"):
        await testing.run(Looking, text, slot=asked.slot, history=[testing.user_message("Do it")])
    assert seen == [(None, {}, 0), (None, {}, 1)]


async def test_a_task_keeps_its_skill():
    run = await testing.run(Office, "my bill", skill="trip")
    assert (run.said, run.emissions) == ("trip: my bill", [])


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_may_decide_by_itself_in_any_way(is_async):
    threads = []

    def decided(self, message):
        threads.append(threading.current_thread())
        return {"no": Reject("Never."), "hm": Clarify("What?")}.get(message.text, Start("trip"))

    async def awaited(self, message):
        return decided(self, message)

    kind = type("Deciding", (Office,), {"negotiate": awaited if is_async else decided})
    assert isinstance((await testing.run(kind, "no")).outcome, Rejected)
    assert (await testing.run(kind, "hm")).outcome == InputRequired(
        "What?", "which-skill", {"type": "string", "oneOf": CHOICES}, {"error": {"code": "clarify"}}
    )
    assert (await testing.run(kind, "bill")).skill == "trip"
    assert {one is threading.main_thread() for one in threads} == {is_async}
    assert needs_thread(kind()) is not is_async


async def test_a_chooser_may_be_a_method_and_async():
    def choose(self, message, skills):
        return Start(skills[0].id)

    async def choose_async(self, message, skills):
        return Start(skills[0].id)

    for chooser in (choose, choose_async):
        kind = type("Choosing", (Office,), {"choose_skill": chooser})
        assert await decide(kind(), said("x")) == Start("invoice")
        assert await decide(kind(), said("x", skillId="trip")) == Start("trip")


async def test_what_is_no_decision_is_said_so():
    for given, told in (("trip", "gave str"), (None, "gave NoneType"), (Start("x"), "has invoice")):

        class Wrong(Office):
            async def negotiate(self, message, given=given):
                return given

        with pytest.raises(InvalidAnswer, match=told):
            await testing.run(Wrong, "hello")
