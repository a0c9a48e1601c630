"""Agents without code in several processes: changes apply everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.faults.calling import Caller, text_of
from tests.faults.conftest import PATIENCE, kill_the_worker, rows, standing
from tests.llm import endpoint as endpoints
from tests.llm.endpoint import Endpoint, hangs, says
from tests.stack import Stack

pytestmark = pytest.mark.services("several processes, one of which is killed", only=True)
ONE, TWO = (f"Answer in {number} sentences." for number in ("one", "two"))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with endpoints.running() as running:
        yield running


@pytest.fixture
def office(endpoint: Endpoint) -> Iterator[Stack]:
    with standing(LLM_MODEL="test-model", LLM_BASE_URL=endpoint.url, LLM_API_KEY="sk-test") as own:
        yield own


def define(office: Stack, folder: Path, instructions: str) -> httpx.Response:
    """Register or change the agent in a separate process; returns its card."""
    file = folder / "clerk.yaml"
    file.write_text(f"name: Clerk\ndescription: Answers letters.\ninstructions: {instructions}\n")
    office.manage("register_agent", "clerk", "--from", str(file))
    return httpx.get(f"{office.url}/a2a/clerk/.well-known/agent-card.json")


def test_a_change_is_in_every_process_at_once_and_a_killed_turn_goes_by_the_version_that_it_began_with(
    office: Stack, endpoint: Endpoint, tmp_path: Path
) -> None:
    clerk = Caller(office, "clerk")
    first = define(office, tmp_path, ONE)
    with psycopg.connect(office.environment["DATABASE_URL"]) as connection:
        connection.execute("UPDATE agents_agent SET retry_safe = true WHERE slug = 'clerk'")
    endpoint.replies = [hangs("Ye"), says("Yes.")]
    task = clerk.send("Will you?")
    assert endpoint.hanging.wait(PATIENCE)
    second = define(office, tmp_path, TWO)
    assert [card.json()["version"] for card in (first, second)] == ["1.0.0", "1.1.0"]
    assert first.headers["ETag"] != second.headers["ETag"]
    kill_the_worker(office)
    done = clerk.ended(task, within=2 * PATIENCE)
    assert [text_of(artifact) for artifact in done["artifacts"]] == ["Yes."]
    assert rows(office, "SELECT attempt FROM record_run WHERE task_id = %s", task["id"]) == [(2,)]
    endpoint.replies = [says("Yes.")]
    clerk.ended(clerk.send("Will you?"), within=PATIENCE)
    assert [endpoint.said(request)[0] for request in range(3)] == [("system", said) for said in (ONE, ONE, TWO)]
