"""Agents without code follow their version, which each run names; conversations choose options of agents."""

import pytest

from agentkit import InputRequired, testing
from agentkit import agent as described
from agentkit.llm import LlmWorker
from apps.agents import definitions
from apps.agents.models import Agent, ToolSecret
from apps.conversations.sessions.commands import switch_agent
from apps.credentials import lending
from apps.credentials.models import Credential
from apps.engine import accept
from apps.engine.send import send
from apps.model_agents.tools import calculate, current_time, read_file
from apps.record.errors import InvalidParams
from apps.record.execution import Run
from apps.record.models import Task
from parley import db as database
from tests.agents.definitions import clerk, definition
from tests.engine.delegating import run_of, take_turn, words
from tests.model_agents.conftest import endpoint
from tests.model_agents.endpoint import says
from tests.working import begin, carry_out, end, let_the_lease_run_out, state_of

MEMORY = {"remember", "change_memory", "forget"}
"""Tools of turns in which memory may change."""

__all__ = ["endpoint"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def told(ada, said):
    async def told(agent, text="hello", **fields):
        return await take_turn(ada.principal, agent, said(text, **fields))

    return told


def offered(endpoint, request=-1):
    return {tool["function"]["name"] for tool in endpoint.requests[request].get("tools", [])}


async def test_model_is_told_its_definition(told, endpoint):
    agent = await database.run(
        clerk, model="another-model", temperature=0.5, max_tokens=77, tools=["calculate", "current_time"]
    )
    endpoint.replies = [says("Gladly", ".")]
    task = await told(agent, "Will you?")
    assert (task.state, words(task)) == ("completed", "Gladly.")
    [asked] = endpoint.requests
    assert (asked["model"], asked["temperature"], asked["stream"]) == ("another-model", 0.5, True)
    assert 77 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
    assert offered(endpoint) - MEMORY == {"calculate", "current_time"}
    assert endpoint.said() == [("system", "Answer in one sentence."), ("user", "Will you?")]


async def test_next_message_knows_history_and_newest_version(told, endpoint):
    endpoint.replies = [says("Hello Ada."), says("Ada.")]
    first = await told(await database.run(clerk), "I am Ada.")
    agent = await database.run(clerk, instructions="Answer in two sentences.")
    second = await told(agent, "Who am I?", contextId=first.context.context_id)
    assert endpoint.said()[1:] == [("user", "I am Ada."), ("assistant", "Hello Ada."), ("user", "Who am I?")]
    told_by = [endpoint.said(request)[0][1] for request in (0, 1)]
    assert told_by == ["Answer in one sentence.", "Answer in two sentences."]
    assert [(await run_of(task)).input["agent"]["number"] for task in (first, second)] == [1, 2]


async def test_repeated_attempt_keeps_its_version(ada, said, endpoint):
    agent = await database.run(clerk)
    await database.run(Agent.objects.filter(pk=agent.pk).update, retry_safe=True)
    receipt = await database.run(accept.accept, ada.principal, agent, said())
    lost = await database.run(begin, receipt.run)
    await database.run(let_the_lease_run_out, lost.lease)
    await database.run(clerk, instructions="Answer in two sentences.")
    endpoint.replies = [says("One.")]
    await carry_out(receipt.run)
    assert await database.run(state_of, receipt.task) == "completed"
    assert endpoint.said()[0] == ("system", "Answer in one sentence.")
    run = await database.run(Run.objects.get, pk=receipt.run)
    assert (run.fence, run.input["agent"]["number"]) == (2, 1)


def test_tool_secret_goes_to_its_server_alone(db):
    urls = ["https://a.example.org/mcp", "https://b.example.org/mcp"]
    made = definition(mcp_servers=[{"url": urls[0], "header": "X-Key"}, {"url": urls[1]}])
    agent = clerk()
    ToolSecret.objects.create(agent=agent, url=urls[0], secret="sesame")
    ToolSecret.objects.create(agent=clerk("other"), url=urls[1], secret="not ours")
    assert definitions.tool_server_headers(agent, made) == {urls[0]: {"X-Key": "sesame"}, urls[1]: {}}


# Options


def switched(ada, agent, said, **options):
    """The run of a new conversation in which people chose these options."""
    talk = accept.accept(ada.principal, agent, said())
    switch_agent(ada.principal, talk.context, agent, options)
    return talk


@pytest.mark.parametrize("response_type", ["task", "message"])
async def test_options_reach_handler_and_run(ada, agent, said, response_type):
    @described(response_type=response_type)
    async def options(task):
        return str(dict(task.session.options))

    async def told(talk):
        sent = await send(ada.principal, reader, said(contextId=talk))
        if not sent.task:
            return sent.answer["parts"][0]["text"], sent.context
        run = await Run.objects.select_related("task").aget(task=sent.task)
        await carry_out(run.pk)
        await run.arefresh_from_db()
        text = words(await Task.objects.aget(pk=sent.task))
        assert text == str(run.input.get("options", {}))
        return text, sent.context

    reader = await agent(options)
    before, context = await told("talk")
    await database.run(switch_agent, ada.principal, context, reader, {"tone": "dry"})
    assert (before, (await told("talk"))[0], (await told("other"))[0]) == ("{}", "{'tone': 'dry'}", "{}")


def test_options_are_of_the_turn(ada, echo, countdown, said):
    def asked(run):
        held = begin(run)
        end(held, InputRequired("Which?", slot="word"))
        return held.options

    def answered():
        return accept.accept(ada.principal, echo, said(taskId=str(talk.task))).run

    echo.retry_safe = True
    echo.save()
    talk = switched(ada, echo, said, tone="dry")
    held = begin(talk.run)
    switch_agent(ada.principal, talk.context, echo, {"tone": "warm"})
    let_the_lease_run_out(held.lease)
    assert asked(talk.run) == {"tone": "dry"}, "another attempt has what the first had"
    assert asked(answered()) == {"tone": "warm"}
    switch_agent(ada.principal, talk.context, countdown, {"from": 3})
    assert asked(answered()) == {"tone": "warm"}, "the task keeps those of its agent"
    theirs = accept.accept(ada.principal, countdown, said(contextId=str(talk.context)))
    assert begin(theirs.run).options == {"from": 3}


async def test_people_choose_offered_models(ada, agent, told, endpoint, settings):
    @described(offers_models=True)
    async def advised(task):
        return await LlmWorker("Help.").run(task)

    settings.LLM_MODELS = ["better-model"]
    agents = [await agent(advised), await database.run(clerk, model="own-model", temperature=0.5)]
    for adviser, first in zip(agents, ("test-model", "own-model"), strict=True):
        endpoint.requests.clear()
        endpoint.replies = [says("Yes."), says("No.")]
        task = await told(adviser)
        chosen = {"model": "better-model"} | ({"settings": {"temperature": 0}} if first == "own-model" else {})
        await database.run(switch_agent, ada.principal, task.context_id, adviser, chosen)
        await told(adviser, contextId=str(task.context_id))
        assert [one["model"] for one in endpoint.requests] == [first, "better-model"]
        with pytest.raises(InvalidParams, match=f"Choose one of these: {first}"):
            await database.run(switch_agent, ada.principal, task.context_id, adviser, {"model": "dear-model"})
    assert [one["temperature"] for one in endpoint.requests] == [0.5, 0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": ""}, "model: "),
        ({"settings": {"temperature": 3}}, "less than or equal to 2"),
        ({"tone": ""}, "tone: "),
    ],
)
def test_unfit_options_are_refused(ada, said, endpoint, settings, options, sentence):
    agent = clerk(model="own-model")
    talk = accept.accept(ada.principal, agent, said())
    with pytest.raises(InvalidParams, match=sentence):
        switch_agent(ada.principal, talk.context, agent, options)
    settings.LLM_MODELS = ["*"]
    assert switch_agent(ada.principal, talk.context, agent, {"model": "dear-model"})


async def test_conversation_may_leave_out_credentials(ada, echo, said):
    def give():
        kept = {"agent": echo, "user": ada, "service": "calendar", "auth_type": "api_key", "secret": "s3cret"}
        Credential.objects.create(**kept)
        chosen = [{}, {"credentials": ["calendar", "mail"]}, {"credentials": ["mail"]}]
        return [begin(switched(ada, echo, said, **options).run) for options in chosen]

    lent = [await lending.lend(run, "calendar") for run in await database.run(give)]
    assert [one and one.secret for one in lent] == ["s3cret", "s3cret", None]


# Built-in tools


def test_arithmetic_is_calculated(subtests):
    for expression, result in (
        ("1 + 2 * 3", "7"),
        ("(3 + 4.5) * 2 ** 10", "7680.0"),
        ("-7 // 2 + 7 % 4", "-1"),
        ("round(sqrt(2) ** 2, 9)", "2.0"),
        ("2 ** 100", str(2**100)),
        ("round(5, -1000000000)", "5"),
    ):
        with subtests.test(expression):
            assert calculate(expression) == result


def test_what_is_no_arithmetic_is_refused(subtests):
    for expression, sentence in (
        ("two plus two", "This is no arithmetic expression"),
        ("(" * 300, "This is no arithmetic expression"),
        ("1" * 501, "longer than 500 characters"),
        ("1 / 0", "cannot be calculated: division by zero"),
        ("(-8) ** 0.5", "no real number"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 4000 * 2 ** 4000", "too large"),
        ("10.0 ** 400", "too large"),
        ("__import__('os')", "nothing that can be calculated"),
        ("(1).__class__", "nothing that can be calculated"),
        ("True", "nothing that can be calculated"),
        ("round(number=2)", "nothing that can be calculated"),
        ("'a' * 100", "nothing that can be calculated"),
    ):
        with subtests.test(expression), pytest.raises(ValueError, match=sentence):
            calculate(expression)


def test_files_of_the_conversation_are_read():
    files = {"long.txt": b"a" * 20_000 + b"b" * 10, "a.png": b"\x89PNG\xff"}
    history = [testing.user_message("before", {"notes.txt": "Früher".encode()})]
    task = testing.task_for(testing.user_message("look", files), testing.Recorder(), history=history)
    assert "notes.txt (text/plain, 7 bytes)" in read_file(task).splitlines()
    assert read_file(task, "notes.txt") == "Characters 0 to 6 of 6:\nFrüher"
    assert read_file(task, "long.txt", start=-5).startswith("Characters 0 to 20000 of 20010:\naaa")
    assert read_file(task, "long.txt", start=20_000) == "Characters 20000 to 20010 of 20010:\nbbbbbbbbbb"
    for name, sentence in (("b.txt", "No file is named 'b.txt'"), ("a.png", "no text")):
        with pytest.raises(ValueError, match=sentence):
            read_file(task, name)


def test_time_is_told_in_the_asked_zone():
    assert current_time("Asia/Tokyo").endswith("(Asia/Tokyo)")
    for zone in ("Nowhere/Land", "../../etc/passwd", ""):
        with pytest.raises(ValueError, match="Write one such as Europe/Paris"):
            current_time(zone)
