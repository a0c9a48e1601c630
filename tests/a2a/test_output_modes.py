"""A message that could only lead to what its sender cannot use is refused before anything is stored."""

import pytest

import bridge
from apps.conversations.models import Context
from tests.a2a.calling import message

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reporter(countdown):
    """An agent that makes text, and with one of its skills a PDF."""
    countdown.output_modes = ["text/plain", "text/markdown"]
    countdown.skills[0]["outputModes"] = ["application/pdf"]
    countdown.save()
    return countdown


@pytest.mark.parametrize(
    "accepted",
    [
        [],
        ["text/plain"],
        ["TEXT/Markdown; charset=utf-8"],
        ["image/png", "application/pdf"],
        ["text/*"],
        ["*/*"],
        ["text"],
        ["image/png", "file"],
    ],
    ids=str,
)
async def test_what_the_agent_makes_is_accepted(worker, ada_at, reporter, accepted):
    answer = await ada_at("countdown").send(message("1"), acceptedOutputModes=accepted)
    assert answer.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("accepted", [["image/png"], ["audio/*", "image/*"], ["text/html"], ["plain/text"]], ids=str)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_what_the_agent_does_not_make_is_refused(ada_at, reporter, accepted, method):
    sent = {"message": message("1"), "configuration": {"acceptedOutputModes": accepted}}
    answer = await ada_at("countdown").call(method, sent)
    assert (answer.code, answer.reason) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")
    assert "text/plain, text/markdown" in answer.error["message"]
    assert not await bridge.run(Context.objects.exists)


async def test_an_agent_that_makes_anything_suits_everybody(worker, ada_at, echo):
    answer = await ada_at("echo").send(message("hi"), acceptedOutputModes=["image/png"])
    assert answer.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
