"""The number of queries does not grow with the number of results."""

from __future__ import annotations

import uuid

import pytest

from apps.agents.models import Agent
from apps.plans.running.runs import begin_run
from apps.record.models import Context, Task
from parley import db
from tests.clients.counting import statements

pytestmark = pytest.mark.django_db(transaction=True)


async def test_lists_take_constant_queries(ada_calls, made):
    first, works = await made.delivered(), await made.sent()
    session = f"/sessions/{first.context}"
    same = {"contextId": (await Context.objects.aget(pk=first.context)).context_id}
    addresses = {
        "/agents?limit=100": "items",
        "/agents/search?q=echo": "items",
        f"/artifacts?session={first.context}&limit=100": "items",
        "/tasks?limit=100": "items",
        "/sessions?limit=100": "items",
        f"{session}/messages?limit=100": "items",
        f"{session}/events?limit=100": "items",
        session: "messages",
        f"/sessions/{works.context}/queue": "items",
    }

    def register() -> None:
        of = {"handler": made.agent.handler, "workspace": made.agent.workspace, "skills": made.agent.skills}
        Agent.objects.create(slug=uuid.uuid4().hex, name="Echo", description="Echo.", **of)

    async def shown() -> dict[str, tuple[int, int]]:
        """By address, the number of results and queries."""
        found = {}
        for path, of in addresses.items():
            await ada_calls.get(path)  # notes the key's use, and reads the registry
            with statements() as asked:
                answer = await ada_calls.get(path)
            found[path] = len(answer.body[of]), len(asked)
        return found

    seen = []
    for number in (2, 9):
        for _ in range(number):
            await made.delivered(**same)
            await made.delivered()
            await ada_calls.post(f"/sessions/{works.context}/queue", {"text": "more"})
            await db.run(register)
        seen.append(await shown())
    for path, (few, cost) in seen[0].items():
        assert seen[1][path] > (few + 8, 0), path
        assert seen[1][path][1] == cost > 0, path


async def test_runs_take_constant_queries_for_steps(ada_calls, plan):
    counts = []
    for number in (1, 12):
        agent = await db.run(plan, {f"s{one}": {"agent": "loud", "message": f"{one}"} for one in range(number)})
        run = (await ada_calls.post("/plans/runs", {"plan": "plan"})).body["run"]["id"]
        await db.run(lambda run=run, agent=agent: begin_run(Task.objects.get(pk=run), agent.current_version))
        with statements() as asked:
            assert len((await ada_calls.get(f"/plans/runs/{run}")).body["steps"]) == number
        counts.append(len(asked))
    assert counts[0] == counts[1]
