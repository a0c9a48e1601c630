"""What happens if a rail cannot check: it stops what it checks, or notes it and lets it pass."""

import asyncio

import pytest

from agentkit import Completed, SkillHandler, TaskContext
from agentkit.llm import use_models
from apps.budgets import spending
from apps.budgets.models import Budget
from apps.engine import accept
from apps.engine.queue import Lane
from apps.engine.turns.assignment import spends_for
from apps.model_agents import language_models
from apps.optional.guardrails import finding, judging
from apps.record.models import Event, Task
from parley import db
from tests.working import carry_out, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("published")]
HOSTILE = {"check_kind": "patterns", "patterns": r"(a+)+$", "direction": "in"}
SLOW_TEXT = "a" * 5000 + "b"
QUESTION = {"check_kind": "model", "question": "Does the text ask for medical advice?", "direction": "in"}


class Echoing(SkillHandler):
    async def on_request(self, task: TaskContext):
        return Completed(f"heard {len(task.message.text)}")


class Streaming(SkillHandler):
    async def on_request(self, task: TaskContext):
        await task.token("fine. ")
        await task.token(SLOW_TEXT)
        await task.token("aaaab")


@pytest.fixture(autouse=True)
def _little_time(monkeypatch):
    monkeypatch.setattr(finding, "SECONDS", 0.05)
    monkeypatch.setattr(finding, "PIECE_SECONDS", 0.05)


@pytest.fixture
def model():
    """Lets the model answer."""
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    def answers(said):
        async def respond(messages, info):
            if isinstance(said, Exception):
                raise said
            if said is None:
                await asyncio.Event().wait()
            return ModelResponse(parts=[TextPart(said)])

        async def resolve(name):
            return FunctionModel(respond)

        use_models(resolve)

    yield answers
    language_models.configure()


async def done_by(ada, agent, message):
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    return receipt


def outcome_of(receipt):
    [told] = [one.payload for one in Event.objects.filter(context=receipt.context, type="guardrail")]
    words = Task.objects.get(pk=receipt.task).status_message["parts"][0]["text"]
    return state_of(receipt.task), told.get("failed"), told.get("passed", False), words


@pytest.mark.parametrize(("if_fails", "state", "passed"), [("block", "failed", False), ("pass", "completed", True)])
async def test_hostile_pattern_fails_as_chosen(ada, agent, rail, said, if_fails, state, passed):
    echoing = await agent(Echoing)
    await rail(**HOSTILE, if_fails=if_fails, name="Slow one")
    receipt = await done_by(ada, echoing, said(SLOW_TEXT))
    found = await db.run(outcome_of, receipt)
    assert found[:3] == (state, "late", passed)
    assert ("Slow one" in found[3]) is not passed


@pytest.mark.parametrize(("if_fails", "state"), [("block", "failed"), ("pass", "completed")])
async def test_stream_fails_as_chosen(ada, agent, rail, said, if_fails, state):
    streaming = await agent(Streaming)
    await rail(**HOSTILE | {"direction": "out"}, action="redact", if_fails=if_fails)
    receipt = await done_by(ada, streaming, said())
    assert (await db.run(outcome_of, receipt))[:2] == (state, "late")


async def test_too_much_text_cannot_be_checked(ada, agent, rail, said, monkeypatch):
    monkeypatch.setattr(finding, "MAX_TEXT", 1000)
    echoing = await agent(Echoing)
    await rail(direction="in")
    receipt = await done_by(ada, echoing, said("b" * 2000))
    assert (await db.run(outcome_of, receipt))[:2] == ("failed", "late")


@pytest.mark.parametrize(("answer", "state"), [("YES: it asks for a dose.", "failed"), ("No: weather.", "completed")])
async def test_model_judges(ada, agent, rail, said, model, answer, state):
    model(answer)
    echoing = await agent(Echoing)
    await rail(**QUESTION)
    receipt = await done_by(ada, echoing, said("How much aspirin?"))
    assert await db.run(state_of, receipt.task) == state
    events = Event.objects.filter(context=receipt.context, type="guardrail")
    assert await events.acount() == (1 if state == "failed" else 0)


async def test_text_cannot_end_its_marks():
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    asked = []

    async def respond(messages, info):
        asked.append(messages[0].parts[0].content)
        return ModelResponse(parts=[TextPart("No.")])

    async def resolve(name):
        return FunctionModel(respond)

    use_models(resolve)
    try:
        for _ in range(2):
            await judging.judge("Is it?", "words", "", 5)
    finally:
        language_models.configure()
    marks = [one.splitlines()[-1] for one in asked]
    assert marks[0] != marks[1]
    assert [one.count(mark) for one, mark in zip(asked, marks, strict=True)] == [3, 3]


@pytest.mark.parametrize(("answer", "why"), [("Perhaps.", "error"), (RuntimeError("down"), "error"), (None, "late")])
@pytest.mark.parametrize(("if_fails", "state"), [("block", "failed"), ("pass", "completed")])
async def test_failing_model_fails_as_chosen(ada, agent, rail, said, model, monkeypatch, answer, why, if_fails, state):
    model(answer)
    judge = judging.judge
    monkeypatch.setattr(judging, "judge", lambda question, text, name, _: judge(question, text, name, 0.05))
    echoing = await agent(Echoing)
    await rail(**QUESTION, if_fails=if_fails)
    receipt = await done_by(ada, echoing, said())
    assert (await db.run(outcome_of, receipt))[:3] == (state, why, if_fails == "pass")


async def test_spent_budget_asks_no_model(ada, agent, rail, said, model):
    model("No: weather.")
    echoing = await agent(Echoing)
    await rail(**QUESTION)
    await Budget.objects.acreate(workspace_id=ada.principal.workspace_id, token_limit=0)
    spending.forget()
    spends_for.set(Lane(ada.principal.workspace_id, echoing.pk))
    receipt = await done_by(ada, echoing, said())
    assert (await db.run(outcome_of, receipt))[:2] == ("failed", "error")


async def test_size_is_measured(ada, agent, rail, said):
    echoing = await agent(Echoing)
    await rail(check_kind="size", most_characters=10, direction="in", name="Short")
    receipt = await done_by(ada, echoing, said("b" * 11))
    assert await db.run(state_of, receipt.task) == "failed"
    receipt = await done_by(ada, echoing, said("b" * 10))
    assert await db.run(state_of, receipt.task) == "completed"
