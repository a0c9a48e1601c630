"""Parley keeps the state of a served agent, whose process may end at any time."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from agentkit import SkillHandler, TaskContext, as_handler
from agentkit.command.packing import pack_folder
from agentkit.serving import application
from agentkit.serving.protocol import card_of
from agentkit.serving.state import URI
from apps.agents.models import Agent
from apps.conversations.forks import forking
from apps.conversations.sessions import deletion
from apps.deployments import registering
from apps.deployments.processes import Place
from apps.record.models import Event, Task
from apps.remote.models import AgentState
from parley import db
from tests.agentkit.test_serving import Travel, reply
from tests.deployments import folder
from tests.remote.conversing import Talk, is_whole, remote_agent, run_of, until, words
from tests.remote.scripted import serving_app

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker", "outward")]


class Processes:
    """Processes of one agent, one after the other, at the same port."""

    def __init__(self, handler: SkillHandler) -> None:
        self._running = ExitStack()
        self._start(handler, 0)
        self.card = card_of(handler, self.url)

    def _start(self, handler: SkillHandler, port: int) -> None:
        self.url = self._running.enter_context(serving_app(application(handler), port))

    async def replace(self, handler: SkillHandler) -> None:
        port = int(self.url.rstrip("/").rpartition(":")[2])
        await asyncio.to_thread(self.end)
        self._start(handler, port)

    def end(self) -> None:
        self._running.close()


@contextmanager
def processes(handler: SkillHandler) -> Iterator[Processes]:
    of_agent = Processes(handler)
    try:
        yield of_agent
    finally:
        of_agent.end()


@pytest.mark.services("the state is JSON with nulls of two kinds")
async def test_question_survives_the_agents_process(ada):
    with processes(Travel()) as agent:
        talk = Talk(ada, await db.run(remote_agent, agent.card))
        asked = await talk.ask("A trip")
        await agent.replace(Travel())
        done = await talk.ask("Rome", task=asked)
        assert (done.state, words(done)) == ("completed", "Booked: Rome.")
        await agent.replace(Travel())
        assert words(await talk.ask("Another trip")) == "Where to? (question 2)"
        assert await db.run(is_whole, done)


class Baker(SkillHandler):
    """Bakes. The first process ends after two steps."""

    name = "baker"

    def __init__(self, hangs_at: str = "", *, retry_safe: bool = True) -> None:
        self.retry_safe, self.hangs_at = retry_safe, hangs_at
        self.ran: list[str] = []
        self.hangs = asyncio.Event()

    async def on_request(self, task: TaskContext) -> str:
        task.session.memory["breads"] = breads = task.session.memory.get("breads", 0) + 1
        made = [await task.step(name, self.work, name) for name in ("mix", "knead", "bake")]
        return f"{breads}: {' '.join(made)}"

    async def work(self, name: str) -> str:
        if name == self.hangs_at:
            await asyncio.Event().wait()
        self.ran.append(name)
        return f"{name}!"


def has_steps(number: int) -> bool:
    return any(
        len([one for one in state.steps.values() if "result" in one]) >= number for state in AgentState.objects.all()
    )


@pytest.mark.services("the state is JSON with nulls of two kinds")
async def test_turn_goes_on_after_its_last_finished_step(ada):
    first, second = Baker("bake"), Baker()
    with processes(first) as agent:
        talk = Talk(ada, await db.run(remote_agent, agent.card))
        working = await talk.say("bread")
        await until(lambda: has_steps(2))
        await agent.replace(second)
        done = await talk.settled(working)
        assert (done.state, words(done)) == ("completed", "1: mix! knead! bake!")
        assert (first.ran, second.ran) == (["mix", "knead"], ["bake"])
        assert await db.run(is_whole, done)


async def test_unsafe_turn_is_not_repeated(ada):
    first, second = Baker("bake", retry_safe=False), Baker(retry_safe=False)
    with processes(first) as agent:
        talk = Talk(ada, await db.run(remote_agent, agent.card))
        working = await talk.say("bread")
        await until(lambda: has_steps(2))
        await agent.replace(second)
        assert (await talk.settled(working)).state == "failed"
        assert second.ran == []


@pytest.mark.parametrize("handler", [Travel(), as_handler(reply)], ids=["task", "message"])
async def test_state_is_shown_to_nobody(ada, handler):
    with processes(handler) as agent:
        talk = Talk(ada, await db.run(remote_agent, agent.card))
        asked = await talk.ask("A trip")

        def seen() -> list[Any]:
            run = run_of(asked)
            return [*Event.objects.values_list("payload", flat=True), run.remote, run.input]

        assert await db.run(AgentState.objects.exists)
        assert URI not in str(await db.run(seen))


async def test_deleted_session_leaves_no_state(ada):
    with processes(Travel()) as agent:
        talk = Talk(ada, await db.run(remote_agent, agent.card))
        asked = await talk.ask("A trip")
        assert await db.run(AgentState.objects.count) == 1
        await db.run(deletion.delete_session, ada.principal, asked.context_id)
        assert await db.run(AgentState.objects.count) == 0


@pytest.mark.services("the state is JSON with nulls of two kinds")
async def test_fork_begins_with_the_state_there(ada):
    with processes(Baker()) as agent:
        talk = Talk(ada, await db.run(remote_agent, agent.card))
        await talk.ask("bread")
        end = (await talk.ask("bread")).status_event
        forks = [await db.run(fork_at, ada, talk, at) for at in (end, 3)]
        said = [words(await Talk(ada, talk.agent, fork).ask("bread")) for fork in forks]
        assert [one.partition(":")[0] for one in said] == ["3", "1"], "what came after the branch point does not count"


def fork_at(ada: Any, talk: Talk, at: int) -> str:
    found = Task.objects.filter(context__context_id=talk.context_id).first()
    assert found is not None
    return str(forking.fork(ada.principal, found.context, at, reason="fork").context_id)


MORTAL = """
import os
from pathlib import Path
from agentkit import InputRequired, SkillHandler

RAN = Path.home() / "ran"


class Baker(SkillHandler):
    retry_safe = True

    async def on_request(self, task):
        for name in ("knead", "bake"):
            await task.step(name, self.work, name)
        return InputRequired(f"With butter? {os.getpid()}")

    async def on_input_received(self, task):
        return f"Bread: {task.message.text}."

    def work(self, name):
        with RAN.open("a") as file:
            file.write(name + " ")
        if RAN.read_text() == "knead bake ":
            os.kill(os.getpid(), 9)
"""


async def test_killed_process_of_a_folder_loses_nothing(ada, tmp_path):
    at = folder.write(tmp_path / "baker")
    (at / "agent.py").write_text(MORTAL)
    (at / "agent.yaml").write_text((at / "agent.yaml").read_text().replace("agent:Loud", "agent:Baker"))
    packed = pack_folder(at)
    ran = Place("baker", packed.digest).home / "home" / "ran"  # where alone it may write
    deployment = await db.run(registering.begin, "baker", packed, access="authenticated")
    await registering.deploy(deployment.pk)
    talk = Talk(ada, await db.run(Agent.objects.select_related("current_version").get, slug="baker"))
    asked = await talk.ask("Bake")
    assert (asked.state, ran.read_text()) == ("input-required", "knead bake bake "), "one step had finished"
    os.kill(int(words(asked).split()[-1]), signal.SIGKILL)
    assert words(await talk.ask("yes", task=asked)) == "Bread: yes."
