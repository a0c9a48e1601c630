"""An agent that cannot work tells operators why, and others only that."""

import logging
import sys

import pytest
from django.test import AsyncClient, override_settings

import db as database
from agentkit import HandlerError
from apps.agents.cards import HEALTH_REASONS
from apps.agents.models import Agent, AgentStats, AgentVersion
from apps.agents.registration import register_hosted
from apps.engine import jobs, loading
from apps.features.health.monitoring import examine_agents, observe, record_health
from tests.agents.definitions import clerk
from tests.agents.test_admin_without_code import change
from tests.engine.ailing import Moody
from tests.engine.test_measuring import make_runs

pytestmark = pytest.mark.django_db(transaction=True)


GONE = "The module 'gone_agents' of 'gone_agents:Gone' cannot be imported"
URI = "http://127.0.0.1:8000/ext/health/v1"


@pytest.fixture
def moody(db):
    Moody.missing = ""
    yield register_hosted("moody", "tests.engine.ailing:Moody")
    Moody.missing = ""


def health_of(agent):
    agent.refresh_from_db()
    return agent.health, agent.ailment


def lose_handler(agent):
    Agent.objects.filter(pk=agent.pk).update(handler="gone_agents:Gone")


def test_an_agent_whose_handler_cannot_be_imported_is_unavailable_and_says_why_in_a_sentence(echo, countdown, caplog):
    lose_handler(echo)
    with caplog.at_level(logging.WARNING, "parley.engine"):
        examine_agents()
        examine_agents()
    health, ailment = health_of(echo)
    assert health == "unavailable"
    assert ailment.startswith(GONE)
    assert "\n" not in ailment
    assert caplog.text.count("agent echo is unavailable") == 1
    assert health_of(countdown) == ("ok", "")


def test_it_is_well_again_as_soon_as_its_module_is(echo, tmp_path, monkeypatch):
    lose_handler(echo)
    examine_agents()
    assert health_of(echo)[0] == "unavailable"
    (tmp_path / "gone_agents.py").write_text("def Gone(text):\n    return text\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        examine_agents()
        assert health_of(echo) == ("ok", "")
    finally:
        sys.modules.pop("gone_agents", None)
        loading.forget()


def test_registering_finds_out_at_once(echo):
    lose_handler(echo)
    examine_agents()
    with pytest.raises(HandlerError):
        register_hosted("echo", "gone_agents:Gone")
    assert health_of(echo)[0] == "unavailable"
    register_hosted("echo", "examples.agents.echo:Echo")
    assert health_of(echo) == ("ok", "")


def test_a_handler_may_say_itself_what_is_missing(moody):
    Moody.missing = "No language model is configured. Set LLM_MODEL."
    examine_agents()
    assert health_of(moody) == ("unavailable", "No language model is configured. Set LLM_MODEL.")
    Moody.missing = "raise"
    examine_agents()
    assert "could not say whether it can work: RuntimeError('no mood')" in health_of(moody)[1]
    Moody.missing = ""
    examine_agents()
    assert health_of(moody) == ("ok", "")


@pytest.mark.parametrize(
    ("succeeded", "failed", "health"),
    [(10, 10, "ok"), (9, 11, "degraded"), (0, 4, "ok"), (2, 3, "degraded")],
)
def test_an_agent_that_fails_more_often_than_not_is_degraded(ada, echo, succeeded, failed, health):
    if succeeded + failed == 20:
        make_runs(ada, echo, *[("done", 0, 1.0)] * 100)
    turns = [("done", 0, 1.0)] * succeeded + [("failed", 0, 1.0)] * failed
    make_runs(ada, echo, *turns, at=ada.date_joined)
    observe()
    found, ailment = health_of(echo)
    assert found == health
    assert ailment == (f"{failed} of its last {succeeded + failed} turns failed." if health == "degraded" else "")


def test_an_agent_that_is_switched_off_is_left_alone(echo):
    lose_handler(echo)
    Agent.objects.filter(pk=echo.pk).update(is_enabled=False)
    examine_agents()
    assert health_of(echo) == ("ok", "")


def test_a_process_looks_at_its_start(echo):
    lose_handler(echo)
    with jobs.embedded_worker(grace=1):
        assert health_of(echo)[0] == "unavailable"
        assert AgentStats.objects.filter(agent=echo).exists()


async def test_the_card_tells_everybody_how_the_agent_is_and_nobody_why(echo):
    client = AsyncClient()

    async def told():
        response = await client.get("/a2a/echo/.well-known/agent-card.json")
        [extension] = [one for one in response.json()["capabilities"]["extensions"] if one["uri"] == URI]
        return response, extension["params"]

    before, params = await told()
    assert params == {"status": "ok"}
    await database.run(lose_handler, echo)
    await database.run(examine_agents)
    after, params = await told()
    assert params == {"status": "unavailable", "reason": HEALTH_REASONS["unavailable"]}
    assert "gone_agents" not in after.content.decode()
    assert after["ETag"] != before["ETag"]
    page = await client.get("/ext/health/v1")
    assert "/ext/health/v1" in page.content.decode()


@pytest.fixture(autouse=True)
def _with_model(settings):
    settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "test-model", "http://127.0.0.1:1/v1", ""


def examined(agent) -> tuple[str, str]:
    examine_agents()
    agent.refresh_from_db()
    return agent.health, agent.ailment


def test_without_code_one_that_lacks_something_is_unavailable_and_says_what(settings):
    lacking = [
        ({"LLM_MODEL": ""}, "No language model is connected"),
        ({"LLM_BASE_URL": ""}, "The language model test-model cannot be reached. Set LLM_API_KEY"),
        ({"AGENT_TOOLS": ["tests.agents.another_clock"]}, "There is no tool calculate here"),
        ({"AGENT_TOOLS": ["nowhere.tools"]}, "The module 'nowhere.tools' of AGENT_TOOLS cannot be imported"),
    ]
    agent = clerk(tools=["calculate"])
    assert examined(agent) == ("ok", "")
    for missing, sentence in lacking:
        with override_settings(**missing):
            health, ailment = examined(agent)
        assert (health, ailment.startswith(sentence)) == ("unavailable", True), ailment
    settings.LLM_MODEL = ""
    assert examined(clerk(model="its-own")) == ("ok", "")


def test_without_code_one_without_a_version_says_what_to_do():
    agent = clerk()
    Agent.objects.filter(pk=agent.pk).update(current_version=None)
    assert examined(agent) == ("unavailable", "The agent clerk has no version: save it once more in admin.")


def test_without_code_a_version_that_cannot_be_read_is_told_and_holds_up_no_other_agent(echo):
    agent = clerk()
    AgentVersion.objects.filter(agent=agent).update(content={"kind": "model", "name": "Clerk"})
    Agent.objects.filter(pk=echo.pk).update(handler="gone_agents:Gone")
    health, ailment = examined(agent)
    assert health == "unavailable"
    assert ailment.startswith("Its version 1 cannot be read: save it once more in admin.")
    echo.refresh_from_db()
    assert echo.health == "unavailable"


def test_without_code_looking_after_agents_takes_as_many_queries_for_many(django_assert_num_queries):
    for number in range(5):
        clerk(f"clerk-{number}")
    with django_assert_num_queries(2):
        examine_agents()


def test_without_code_it_is_well_as_soon_as_an_operator_has_mended_it(admin_client, settings):
    agent = clerk(tools=["calculate"])
    settings.AGENT_TOOLS = ["tests.agents.another_clock"]
    assert examined(agent)[0] == "unavailable"
    answer = change(admin_client, agent, tools=[])
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    agent.refresh_from_db()
    assert (agent.health, agent.ailment) == ("ok", "")


def test_without_code_what_was_changed_meanwhile_is_not_called_ill_for_what_it_was(settings):
    agent = clerk(tools=["calculate"])
    settings.AGENT_TOOLS = ["tests.agents.another_clock"]
    clerk(tools=[])
    record_health(agent, None)
    agent.refresh_from_db()
    assert agent.health == "ok"
