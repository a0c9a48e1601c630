"""An agent from another package is registered by path, and answers by its changed code without a restart."""

import sys

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from agentkit import SkillHandler
from apps.agents.models import Agent
from apps.engine.turns import handlers
from parley import db
from tests.engine.delegating import take_turn, words

pytestmark = pytest.mark.django_db(transaction=True)

AGENTS = """
from agentkit import SkillHandler, load_skills
from {package}.words import word

class MyAgent(SkillHandler):
    skills = load_skills("SKILL.md", beside=__file__)

    async def on_request(self, task):
        return f"{{word}}, {{task.message.text}}"
"""
SKILL_MD = "---\nname: Greet\ndescription: Greets people.\n---\nBe kind.\n"


def forget(package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path, monkeypatch, settings):
    settings.EMBEDDED = True
    folder = tmp_path / "config"  # any name is free for authors
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "words.py").write_text("word = 'Good day'\n")
    (folder / "agents.py").write_text(AGENTS.format(package="config"))
    (folder / "SKILL.md").write_text(SKILL_MD)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    handlers.forget()
    forget("config")


async def registered(package):
    await db.run(call_command, "register_agent", "my", "--handler", f"{package.name}.agents:MyAgent")
    return await Agent.objects.aget(slug="my")


async def test_registered_package_works(package, ada, said):
    agent = await registered(package)
    assert (agent.name, agent.skills[0]["description"]) == ("MyAgent", "Greets people.")
    assert words(await take_turn(ada.principal, agent, said("Ada"))) == "Good day, Ada"


@pytest.mark.parametrize(
    ("file", "source", "told"),
    [
        ("agents.py", "import not_installed", "No module named 'not_installed'"),
        ("agents.py", "", "has no 'MyAgent'"),
        ("SKILL.md", "---\nname: Greet\n---", "SKILL.md: description is missing"),
    ],
)
async def test_broken_package_is_refused_in_a_sentence(package, file, source, told):
    (package / file).write_text(source)
    with pytest.raises(CommandError) as refused:
        await registered(package)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not await Agent.objects.aexists()


@pytest.mark.parametrize("is_embedded", [True, False])
async def test_changed_code_is_loaded_when_registered(package, settings, is_embedded):
    settings.EMBEDDED = is_embedded
    agent = await registered(package)
    old = await handlers.handler_of(agent)
    (package / "words.py").write_text("word = 'Good night'\n")
    assert await handlers.handler_of(agent) is old  # nobody registered it
    agent = await registered(package)
    new = await handlers.handler_of(agent)
    if not is_embedded:
        assert new is old  # services keep their code until a restart
        return
    assert new is not old
    assert sys.modules[f"{package.name}.words"].word == "Good night"
    assert await handlers.handler_of(agent) is new
    for file, broken in (
        ("words.py", "word = 'thr"),
        ("agents.py", f"{AGENTS.format(package='config')}\n    skills = 3\n"),
    ):
        before = (package / file).read_text()
        (package / file).write_text(broken)
        await agent.asave()
        assert await handlers.handler_of(agent) is new  # what is broken replaces nothing
        assert sys.modules[f"{package.name}.words"].word == "Good night"
        (package / file).write_text(before)


class Plain(SkillHandler):
    async def on_request(self, task):
        return "Good day"


class Growing(Plain):
    @property
    def skills(self):
        return []


class Own(Plain):
    def __init__(self):
        self.skills = []


@pytest.mark.parametrize("kind", [Plain, Growing, Own])
def test_varying_skills_are_asked_at_each_message(kind):
    assert handlers.Loaded(kind(), {}, timezone.now()).always_task is (kind is Plain)
