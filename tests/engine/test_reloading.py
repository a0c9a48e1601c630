"""An agent that is registered again answers by its changed code, without a restart."""

import sys

import pytest

import db
from apps.agents.registration import register_hosted
from apps.engine import loading

pytestmark = pytest.mark.django_db(transaction=True)
CODE = "from loud_agents.words import word\n\n\ndef Loud(text):\n    return word\n"


@pytest.fixture
def package(tmp_path, monkeypatch, settings):
    """Of an agent, whose helper module has what it says."""
    settings.EMBEDDED = True
    folder = tmp_path / "loud_agents"
    folder.mkdir()
    (folder / "loud.py").write_text(CODE)
    (folder / "words.py").write_text("word = 'one'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    loading.forget()
    for name in [name for name in sys.modules if name.startswith("loud_agents")]:
        del sys.modules[name]


async def test_changed_code_is_loaded_when_it_is_registered(package):
    def register():
        return register_hosted("loud", "loud_agents.loud:Loud")

    agent = await db.run(register)
    old = await loading.handler_of(agent)
    (package / "words.py").write_text("word = 'two'\n")
    assert await loading.handler_of(agent) is old  # nobody registered it
    agent = await db.run(register)
    new = await loading.handler_of(agent)
    assert new is not old
    assert sys.modules["loud_agents.words"].word == "two"
    assert await loading.handler_of(agent) is new
    (package / "words.py").write_text("word = 'thr")
    await db.run(agent.save)
    assert await loading.handler_of(agent) is new  # what is broken replaces nothing
    assert sys.modules["loud_agents.words"].word == "two"


async def test_services_keep_their_code_until_a_restart(package, settings):
    settings.EMBEDDED = False
    agent = await db.run(register_hosted, "loud", "loud_agents.loud:Loud")
    old = await loading.handler_of(agent)
    (package / "words.py").write_text("word = 'four'\n")
    await db.run(agent.save)
    assert await loading.handler_of(agent) is old
