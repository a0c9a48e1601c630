"""Agents without code in processes of their own: a change is everywhere at once, a killed turn stays as it began."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import stack
from tests.faults.calling import JSON, Caller, text_of
from tests.faults.conftest import LEASE, PATIENCE
from tests.faults.test_killed_workers import assert_it_is_whole, kill_the_worker
from tests.llm import endpoint as endpoints
from tests.llm.endpoint import Endpoint, hangs, says
from tests.stack import Stack

SOON = 30.0
ONE, TWO, THREE = (f"Answer in {number} sentences." for number in ("one", "two", "three"))
MAY_BE_REPEATED = "from apps.agents.models import Agent; Agent.objects.filter(slug='clerk').update(retry_safe=True)"
NUMBERS = """
from apps.conversations.models import Run
print(*Run.objects.filter(task="{task}").values_list("input__agent__number", "attempt").get())
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with endpoints.running() as running:
        yield running


@pytest.fixture(scope="module")
def office(endpoint: Endpoint) -> Iterator[Stack]:
    model = {"LLM_MODEL": "test-model", "LLM_BASE_URL": endpoint.url, "LLM_API_KEY": "sk-test"}
    with stack.running(RUN_LEASE_SECONDS=str(LEASE), **model) as running:
        yield running


def define(office: Stack, folder: Path, instructions: str) -> None:
    """Register or change the agent, in a process that is neither the server nor the worker."""
    file = folder / "clerk.yaml"
    file.write_text(f"name: Clerk\ndescription: Answers letters.\ninstructions: {instructions}\n")
    office.manage("register_agent", "clerk", "--from", str(file))


def card(office: Stack) -> httpx.Response:
    return httpx.get(f"{office.url}/a2a/clerk/.well-known/agent-card.json")


def answered(clerk: Caller) -> JSON:
    return clerk.ended(clerk.send("Will you?"), within=SOON)


def test_a_change_is_in_every_process_at_once(office: Stack, endpoint: Endpoint, tmp_path: Path) -> None:
    clerk = Caller(office, "clerk")
    seen = []
    for instructions, version in ((ONE, "1.0.0"), (TWO, "1.1.0")):
        define(office, tmp_path, instructions)
        shown = card(office)
        assert shown.json()["version"] == version
        seen.append(shown.headers["ETag"])
        endpoint.replies = [says("Yes.")]
        task = answered(clerk)
        assert [text_of(artifact) for artifact in task["artifacts"]] == ["Yes."], text_of(task["status"]["message"])
        assert endpoint.said()[0] == ("system", instructions)
    assert seen[0] != seen[1]


def test_a_turn_whose_worker_was_killed_goes_by_the_version_that_it_began_with(
    office: Stack, endpoint: Endpoint, tmp_path: Path
) -> None:
    clerk = Caller(office, "clerk")
    define(office, tmp_path, TWO)
    office.manage("shell", "-v0", "-c", MAY_BE_REPEATED)
    endpoint.replies, endpoint.requests[:] = [hangs("Ye"), says("Yes.")], []
    endpoint.hanging.clear()
    task = clerk.send("Will you?")
    assert endpoint.hanging.wait(SOON)
    define(office, tmp_path, THREE)
    kill_the_worker(office)
    done = clerk.ended(task, within=PATIENCE + SOON)
    assert [text_of(artifact) for artifact in done["artifacts"]] == ["Yes."]
    assert [endpoint.said(request)[0][1] for request in (0, 1)] == [TWO, TWO]
    number, attempt = office.manage("shell", "-v0", "-c", NUMBERS.format(task=task["id"])).stdout.split()
    assert attempt == "2"
    assert card(office).json()["version"] == f"1.{int(number)}.0"  # the card is one further
    assert_it_is_whole(office, task)
    endpoint.replies = [says("Yes.")]
    answered(clerk)
    assert endpoint.said()[0] == ("system", THREE)
