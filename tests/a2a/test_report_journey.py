"""The journey of the house, with the SDK's client: a file in, a question answered, a report out, then a shorter one."""

import pytest
from a2a.types import a2a_pb2 as a2a

from tests.a2a.talking import answer, kinds, request, states, text_of, updates

CSV = b"city,temperature\nOslo,4.5\nRome,18\nCairo,\nLima,19.5\n"


def table() -> a2a.Part:
    return a2a.Part(raw=CSV, filename="cities.csv", media_type="text/csv")


async def test_blocking_a_report_is_asked_for_made_and_refined(talk):
    async with talk("report", streaming=False) as agent:
        asked = (await answer(agent, request("make a report", table()))).task
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        assert "PDF, HTML or Markdown" in text_of(asked.status.message)
        assert not asked.artifacts

        made = (await answer(agent, request("PDF", task_id=asked.id))).task
        assert made.id == asked.id
        assert made.status.state == a2a.TASK_STATE_COMPLETED
        report = made.artifacts[0]
        assert report.name == "report.pdf"
        assert report.parts[0].raw.startswith(b"%PDF")
        assert [said.role for said in made.history] == [a2a.ROLE_USER, a2a.ROLE_AGENT] * 2

        shorter = (await answer(agent, request("Make it shorter", context_id=made.context_id))).task
        assert shorter.id != made.id
        assert shorter.status.state == a2a.TASK_STATE_COMPLETED
        assert shorter.artifacts[0].name == report.name
        assert shorter.artifacts[0].artifact_id != report.artifact_id
        assert shorter.artifacts[0].parts[0].raw.startswith(b"%PDF")
        assert shorter.artifacts[0].parts[0].raw != report.parts[0].raw


async def test_streaming_a_report_is_asked_for_made_and_refined(talk):
    async with talk("report") as agent:
        asked = await updates(agent, request("make a report", table()))
        assert states(asked) == [a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING, a2a.TASK_STATE_INPUT_REQUIRED]
        task = asked[0].task
        assert "PDF, HTML or Markdown" in text_of(asked[-1].status_update.status.message)

        made = await updates(agent, request("Markdown", task_id=task.id, context_id=task.context_id))
        assert made[0].task.id == task.id
        assert states(made) == [a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED]
        progress = [text_of(one.status_update.status.message) for one in made if one.status_update.status.message.parts]
        assert any("statistics" in said for said in progress)
        reports = [one.artifact_update.artifact for one in made if one.WhichOneof("payload") == "artifact_update"]
        assert [report.name for report in reports] == ["report.md", "chart.png"]
        assert "temperature" in text_of(reports[0])

        named = request("Make it shorter", reference_task_ids=[task.id], context_id=task.context_id)
        shorter = await updates(agent, named)
        assert shorter[0].task.id != task.id
        assert states(shorter)[-1] == a2a.TASK_STATE_COMPLETED
        again = [one.artifact_update.artifact for one in shorter if one.WhichOneof("payload") == "artifact_update"]
        assert again[0].name == "report.md"
        assert again[0].artifact_id != reports[0].artifact_id


async def test_what_is_no_table_is_asked_for_again(talk):
    async with talk("report", streaming=False) as agent:
        wrong = a2a.Part(raw=b"\x00\x01\x02", filename="a.csv", media_type="text/csv")
        asked = (await answer(agent, request("make a report", wrong))).task
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        right = (await answer(agent, request("here, as HTML", table(), task_id=asked.id))).task
        assert right.status.state == a2a.TASK_STATE_COMPLETED
        assert right.artifacts[0].name == "report.html"


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_may_answer_with_a_message(talk, streaming):
    async with talk("hello", streaming=streaming) as agent:
        heard = await updates(agent, request("I am Ada"))
        assert kinds(heard) == ["message"]
        assert heard[0].message.role == a2a.ROLE_AGENT
        assert "I am Ada" in text_of(heard[0].message)
        assert heard[0].message.context_id
