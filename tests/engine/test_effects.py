"""Outside effects happen at most once and finished steps once, however often a turn starts again."""

import asyncio
from functools import partial
from typing import ClassVar

import pytest

from agentkit import EffectUnknown, Failed, NotDone, SkillHandler, SyncTaskContext, TaskContext, testing
from agentkit.effects import Claim, RememberedEffects
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.engine.turns.effects import TaskEffects
from apps.engine.turns.recorder import Recorder
from apps.engine.turns.turn import execute_turn
from apps.record.execution import Effect
from apps.record.models import Event, Task
from apps.record.runs import LeaseLost
from parley import db
from tests.working import begin, let_the_lease_run_out


class Charging(SkillHandler):
    """Charges a card once; its first attempt hangs where `hangs` says."""

    retry_safe = True
    hangs = ""
    charged = 0
    hanging = asyncio.Event()

    async def on_request(self, task: TaskContext) -> str:
        try:
            receipt = await task.effect("charge", "order-7", self.charge)
        except EffectUnknown as unknown:
            return f"Please look whether {unknown.key} was charged."
        await self.hang("after")
        return f"Charged: receipt {receipt['number']}"

    async def charge(self) -> dict[str, int]:
        Charging.charged += 1
        await self.hang("during")
        return {"number": Charging.charged}

    async def hang(self, where: str) -> None:
        if Charging.hangs == where:
            Charging.hanging.set()
            await asyncio.Event().wait()


@pytest.fixture
def sent(transactional_db, ada, said):
    Charging.charged, Charging.hanging = 0, asyncio.Event()
    agent = register_hosted("charging", "tests.engine.test_effects:Charging")
    return accept.accept(ada.principal, agent, said())


async def killed(run, where):
    """An attempt whose process is gone while it hangs there."""
    Charging.hangs = where
    first = await db.run(begin, run)
    attempt = asyncio.create_task(execute_turn(first, lambda: False))
    await Charging.hanging.wait()
    attempt.cancel()
    await asyncio.wait({attempt})
    await db.run(let_the_lease_run_out, first.lease)
    Charging.hangs = ""
    return first


async def tried_again(sent):
    second = await db.run(begin, sent.run)
    await execute_turn(second, lambda: False)
    task = await db.run(Task.objects.get, pk=sent.task)
    return task.status_message["parts"][0]["text"]


@pytest.mark.services("the unique constraint is each database's own")
async def test_stored_result_survives_a_kill(sent):
    await killed(sent.run, "after")
    assert await tried_again(sent) == "Charged: receipt 1"
    assert Charging.charged == 1
    events = Event.objects.filter(task=sent.task, payload__name="charge").order_by("index")
    assert await db.run(lambda: list(events.values_list("type", flat=True))) == ["agent_tool_call", "agent_tool_result"]


@pytest.mark.services("the unique constraint is each database's own")
async def test_cut_off_effect_is_unknown_and_not_repeated(sent):
    first = await killed(sent.run, "during")
    assert await tried_again(sent) == "Please look whether order-7 was charged."
    assert Charging.charged == 1
    late = TaskEffects(first, Recorder(first))
    with pytest.raises(LeaseLost):
        await late.claim("charge", "order-8")
    claim = Claim(str((await db.run(Effect.objects.get)).claim), "charge", "new")
    with pytest.raises(LeaseLost):  # yet what it did is a fact
        await late.settle(claim, {"number": 1})
    assert await db.run(lambda: Effect.objects.get().result) == {"number": 1}


@pytest.mark.parametrize("is_async", [True, False])
async def test_effect_that_was_not_done_runs_again(is_async):
    def pay(text):
        if text != "pay":
            raise RuntimeError("the line broke")
        return "paid"

    def find():
        raise NotDone

    async def in_task(task):
        return await task.effect("pay", "1", partial(asyncio.to_thread, pay, task.message.text), find=find_later)

    async def find_later():
        find()

    def in_thread(task):
        return task.effect("pay", "1", partial(pay, task.message.text), find=find)

    handler, effects = in_task if is_async else in_thread, RememberedEffects()
    with pytest.raises(RuntimeError):
        await testing.run(handler, "break", effects=effects)
    for _ in range(2):
        assert (await testing.run(handler, "pay", effects=effects)).said == "paid"


async def test_declined_effect_fails_its_task_and_is_released():
    async def declined() -> None:
        raise NotDone("The card was declined.")

    async def shop(task: TaskContext) -> str:
        return str(await task.effect("charge", "1", declined))

    effects = RememberedEffects()
    for _ in range(2):
        outcome = (await testing.run(shop, "pay", effects=effects)).outcome
        assert outcome == Failed("The card was declined.", "not_done")


class Stepping(SkillHandler):
    """Works in steps; its first attempt hangs in the second."""

    retry_safe = True
    ran: ClassVar[list[str]] = []

    async def on_request(self, task: TaskContext) -> str:
        found = [await task.step("read", self.read, name) for name in ("a", "b")]
        return " ".join([*found, await task.step("sum", self.sum, found)])

    def read(self, name: str) -> str:
        Stepping.ran.append(name)
        return name.upper()

    async def sum(self, found: list[str]) -> str:
        Stepping.ran.append("sum")
        await Charging.hang(Charging(), "during")
        return "".join(found)


async def test_killed_turn_repeats_no_finished_step(transactional_db, ada, said):
    Stepping.ran, Charging.hanging = [], asyncio.Event()
    agent = await db.run(register_hosted, "stepping", "tests.engine.test_effects:Stepping")
    sent = await db.run(accept.accept, ada.principal, agent, said())
    await killed(sent.run, "during")
    assert await tried_again(sent) == "A B AB"
    assert Stepping.ran == ["a", "b", "sum", "sum"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_steps_are_remembered_within_a_message(is_async):
    ran = []

    def work(text):
        ran.append(text)
        if text == "fails once" and ran.count(text) == 1:
            raise RuntimeError("the line broke")
        return [text]

    async def in_task(task: TaskContext) -> str:
        return str([await task.step("work", work, text) for text in ("first", task.message.text)])

    def in_thread(task: SyncTaskContext) -> str:
        return str([task.step("work", work, text) for text in ("first", task.message.text)])

    handler, effects = in_task if is_async else in_thread, RememberedEffects()
    message = testing.user_message("fails once")
    with pytest.raises(RuntimeError):
        await testing.run(handler, message, effects=effects)
    assert (await testing.run(handler, message, effects=effects)).said == "[['first'], ['fails once']]"
    assert ran == ["first", "fails once", "fails once"]
    await testing.run(handler, "another", effects=effects)
    assert ran[3:] == ["first", "another"]
