"""An agent from another package is registered by path."""

import sys

import pytest
from django.core.management import CommandError, call_command

import db
from apps.agents.models import Agent
from apps.engine import accept
from apps.record import wire
from apps.record.models import Task
from tests.agents.test_admin_registry import add, errors
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)

AGENTS = """
from agentkit import Completed, SkillHandler, load_skills
from mypkg.words import GREETING

class MyAgent(SkillHandler):
    skills = load_skills("SKILL.md", beside=__file__)

    async def on_request(self, task):
        return Completed(f"{GREETING}, {task.message.text}")
"""
SKILL_MD = "---\nname: Greet\ndescription: Greets people.\n---\nBe kind.\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "mypkg"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "words.py").write_text("GREETING = 'Good day'")
    (folder / "agents.py").write_text(AGENTS)
    (folder / "SKILL.md").write_text(SKILL_MD)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypkg"]:
        del sys.modules[name]


async def test_it_is_registered_by_its_path_and_runs(package, ada, said):
    await db.run(call_command, "register_agent", "my", "--handler", "mypkg.agents:MyAgent")
    agent = await db.run(Agent.objects.get, slug="my")
    assert (agent.name, agent.skills[0]["description"]) == ("MyAgent", "Greets people.")
    receipt = await db.run(accept.accept, ada.principal, agent, said("Ada"))
    await carry_out(receipt.run)
    task = await db.run(lambda: wire.load_task(Task.objects.select_related("context").get(pk=receipt.task)))
    assert task["history"][-1]["parts"] == [{"text": "Good day, Ada"}]


@pytest.mark.parametrize(
    ("file", "source", "told"),
    [
        ("agents.py", "import not_installed", "No module named 'not_installed'"),
        ("agents.py", "", "has no 'MyAgent'"),
        ("SKILL.md", "---\nname: Greet\n---", "SKILL.md: description is missing"),
    ],
)
def test_what_is_wrong_is_one_sentence_in_the_command_and_in_admin(package, admin_client, file, source, told):
    (package / file).write_text(source)
    with pytest.raises(CommandError) as refused:
        call_command("register_agent", "my", "--handler", "mypkg.agents:MyAgent")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypkg"]:
        del sys.modules[name]
    [message] = errors(add(admin_client, slug="my", handler="mypkg.agents:MyAgent"))["handler"]
    assert message == str(refused.value)
    assert not Agent.objects.exists()
