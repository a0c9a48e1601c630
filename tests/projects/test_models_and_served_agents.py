"""Language models and agents of other processes get the project by themselves."""

import pytest

from agentkit import File, Project, SkillHandler, TaskContext, as_handler, testing
from agentkit.content.projects import URI
from agentkit.llm import LlmFunction, LlmWorker
from agentkit.serving.protocol import Agent, Refused, card_of
from tests.agentkit.test_serving import sent
from tests.model_agents.agents import handler_of
from tests.model_agents.conftest import endpoint  # noqa: F401 fixture
from tests.model_agents.endpoint import calls, says
from tests.projects.agents import told

SMALL = File({"text": "At most 900 euros.", "filename": "budget.txt", "mediaType": "text/plain"})
LARGE = File({"text": "dune " * 5_000, "filename": "book.txt", "mediaType": "text/plain"})
TRIP = Project("1", "Trip", "Prices are in euros.", [SMALL, LARGE])


def system_of(endpoint):  # noqa: F811
    return " ".join(str(content) for role, content in endpoint.said() if role == "system")


async def test_model_has_instructions_and_small_files_at_once(endpoint):  # noqa: F811
    endpoint.replies = [says("Yes.")]
    await testing.run(handler_of(LlmWorker("Help.")), "hello", project=TRIP)
    system = system_of(endpoint)
    assert system.index("Help.") < system.index("Prices are in euros.")
    assert "At most 900 euros." in system
    assert "dune dune" not in system


async def test_model_reads_large_files_by_a_tool(endpoint):  # noqa: F811
    endpoint.replies = [calls(("read_project_file", {"name": "book.txt", "start": 20_000})), says("Dunes.")]
    await testing.run(handler_of(LlmWorker("Help.")), "hello", project=TRIP)
    [found] = [str(content) for role, content in endpoint.said() if role == "tool"]
    assert found.count("dune") == 1_000


async def test_typed_function_has_the_instructions(endpoint):  # noqa: F811
    endpoint.replies = [says("Good day.")]

    async def greets(task: TaskContext) -> str:
        return await LlmFunction("Greet.")(task)

    await testing.run(greets, "hello", project=TRIP)
    assert "Prices are in euros." in system_of(endpoint)


async def test_without_project_nothing_is_added(endpoint):  # noqa: F811
    endpoint.replies = [says("Yes.")]
    await testing.run(handler_of(LlmWorker("Help.")), "hello")
    assert "tools" not in endpoint.requests[-1]


class Asks(SkillHandler):
    """Asks for projects."""

    takes_projects = True

    async def on_request(self, task: TaskContext) -> str:
        return f"{told(task)}; {[one.metadata for one in task.history]}"


def message(project, **fields):
    return sent("hello", extensions=[URI], metadata={URI: project}, **fields)


async def test_served_agent_asks_by_its_card_and_keeps_no_project():
    served = Agent(as_handler(Asks))
    assert URI in [one["uri"] for one in card_of(as_handler(Asks), "http://x")["capabilities"]["extensions"]]
    assert URI not in str(card_of(as_handler(told), "http://x"))
    project = {"id": "1", "name": "Trip", "instructions": "In euros.", "files": [SMALL.part]}
    first = (await served.call("SendMessage", message(project)))["task"]
    assert first["artifacts"][0]["parts"][0]["text"] == "Trip In euros. At most 900 euros.; []"
    second = (await served.call("SendMessage", sent("again", contextId=first["contextId"])))["task"]
    assert "euros" not in second["artifacts"][0]["parts"][0]["text"].partition(";")[2]


async def test_served_agent_refuses_what_is_no_project():
    with pytest.raises(Refused, match="list of parts"):
        await Agent(as_handler(Asks)).call("SendMessage", message({"files": "none"}))
