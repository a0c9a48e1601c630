"""A conversation's options reach each turn, and each run keeps a snapshot."""

import pytest

import db
from agentkit import Completed, InputRequired
from apps.engine import accept
from apps.engine.claim import claim
from apps.engine.send import send
from apps.features.credentials import lending
from apps.features.credentials.models import Credential
from apps.features.sessions.commands import switch_agent
from apps.record.errors import InvalidParams
from apps.record.execution import Run
from apps.record.models import Task
from tests.agents.definitions import clerk
from tests.llm.conftest import endpoint
from tests.llm.endpoint import says
from tests.working import begin, carry_out, end, let_the_lease_run_out

__all__ = ["endpoint"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def options(agent_at):
    return await agent_at("tests.engine.forms:options")


async def talk(ada, agent, said, **options):
    receipt = await db.run(accept.accept, ada.principal, agent, said(contextId="talk"))
    await carry_out(receipt.run)
    await db.run(switch_agent, ada.principal, receipt.context, agent, options)


async def told(ada, agent, message):
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    task = await db.run(Task.objects.get, pk=receipt.task)
    run = await db.run(Run.objects.get, task=receipt.task)
    return task.status_message["parts"][0]["text"], run.input.get("options")


async def test_a_handler_reads_them_and_the_run_keeps_them(ada, options, said):
    await talk(ada, options, said, tone="dry")
    assert await told(ada, options, said(contextId="talk")) == ("{'tone': 'dry'}", {"tone": "dry"})
    assert await told(ada, options, said(contextId="other")) == ("{}", None)


async def test_a_handler_cannot_change_them(ada, agent_at, said):
    agent = await agent_at("tests.engine.forms:setting_options")
    receipt = await db.run(accept.accept, ada.principal, agent, said())
    await carry_out(receipt.run)
    run = await db.run(Run.objects.get, pk=receipt.run)
    assert (run.state, "TypeError" in run.error["message"]) == ("failed", True)


async def test_an_agent_that_answers_at_once_reads_them_too(ada, agent_at, said):
    agent = await agent_at("tests.engine.forms:Answering")
    await send(ada.principal, agent, said(contextId="talk"))
    first = await send(ada.principal, agent, said(contextId="talk"))
    await db.run(switch_agent, ada.principal, first.context, agent, {"tone": "dry"})
    sent = await send(ada.principal, agent, said(contextId="talk"))
    assert (first.answer["parts"], sent.answer["parts"]) == ([{"text": "{}"}], [{"text": "{'tone': 'dry'}"}])


def test_another_attempt_of_a_turn_has_what_the_first_had(ada, echo, said):
    talk = accept.accept(ada.principal, echo, said(contextId="talk"))
    end(begin(talk.run), Completed("done"))
    switch_agent(ada.principal, talk.context, echo, {"tone": "dry"})
    sent = accept.accept(ada.principal, echo, said(contextId="talk"))
    held = begin(sent.run)
    switch_agent(ada.principal, talk.context, echo, {"tone": "warm"})
    let_the_lease_run_out(held.lease)
    echo.retry_safe, echo.attempts = True, 2
    echo.save()
    assert begin(sent.run).options == {"tone": "dry"}


def test_the_next_turn_of_a_task_has_the_new_ones_and_keeps_them_when_the_conversation_goes_elsewhere(
    ada, echo, countdown, said
):
    talk = accept.accept(ada.principal, echo, said())
    switch_agent(ada.principal, talk.context, echo, {"tone": "dry"})
    assert _asked(talk.run).options == {"tone": "dry"}
    switch_agent(ada.principal, talk.context, echo, {"tone": "warm"})
    assert _asked(_answered(ada, echo, talk, said)).options == {"tone": "warm"}
    switch_agent(ada.principal, talk.context, countdown, {"from": 3})
    assert _asked(_answered(ada, echo, talk, said)).options == {"tone": "warm"}
    theirs = accept.accept(ada.principal, countdown, said(contextId=str(talk.context)))
    assert claim(theirs.run, "worker").options == {"from": 3}


def _asked(run):
    held = begin(run)
    end(held, InputRequired("Which?", slot="word"))
    return held


def _answered(ada, agent, talk, said):
    return accept.accept(ada.principal, agent, said(taskId=str(talk.task))).run


async def test_people_choose_the_model_of_a_hosted_agent_that_lets_them(ada, agent_at, said, endpoint, settings):
    settings.LLM_MODELS = ["better-model"]
    agent = await agent_at("tests.engine.forms:Advised")
    endpoint.replies = [says("Yes."), says("No.")]
    await talk(ada, agent, said, model="better-model")
    await told(ada, agent, said(contextId="talk"))
    assert [one["model"] for one in endpoint.requests] == ["test-model", "better-model"]
    with pytest.raises(InvalidParams, match="Choose one of these: test-model, better-model"):
        await talk(ada, agent, said, model="dear-model")


async def test_the_model_and_its_settings_are_those_of_the_conversation(ada, said, endpoint, settings):
    settings.LLM_MODELS = ["better-model"]
    agent = await db.run(clerk, model="own-model", temperature=0.5, max_tokens=77)
    endpoint.replies = [says("Yes."), says("No.")]
    await talk(ada, agent, said, model="better-model", settings={"temperature": 0})
    await told(ada, agent, said(contextId="talk"))
    first, second = endpoint.requests
    assert (first["model"], first["temperature"]) == ("own-model", 0.5)
    assert (second["model"], second["temperature"]) == ("better-model", 0)
    assert 77 in (second.get("max_tokens"), second.get("max_completion_tokens"))


def test_an_agent_without_code_takes_what_its_definition_could_have(ada, said, endpoint, settings):
    agent = clerk(model="own-model")
    talk = accept.accept(ada.principal, agent, said())
    wrong = [
        ({"model": "dear-model"}, "Choose one of these: own-model, test-model"),
        ({"model": ""}, "model: "),
        ({"settings": {"temperature": 3}}, "less than or equal to 2"),
        ({"settings": {"temperature": "1"}}, "settings: temperature"),
        ({"settings": {"seed": 1}}, "settings: seed"),
        ({"tone": "dry"}, "tone: "),
    ]
    for options, sentence in wrong:
        with pytest.raises(InvalidParams, match=sentence):
            switch_agent(ada.principal, talk.context, agent, options)
    settings.LLM_MODELS = ["*"]
    assert switch_agent(ada.principal, talk.context, agent, {"model": "dear-model"})


async def test_a_conversation_may_do_without_some_credentials(ada, echo, said):
    def begun(**options):
        talk = accept.accept(ada.principal, echo, said())
        switch_agent(ada.principal, talk.context, echo, options)
        return begin(talk.run)

    def give():
        kept = {"agent": echo, "user": ada, "service": "calendar", "auth_type": "api_key", "secret": "s3cret"}
        Credential.objects.create(**kept)
        return [begun(), begun(credentials=["calendar", "mail"]), begun(credentials=["mail"]), begun(credentials=[])]

    with_all, with_both, without, with_none = [await lending.lend(run, "calendar") for run in await db.run(give)]
    assert (with_all.secret, with_both.secret, without, with_none) == ("s3cret", "s3cret", None, None)


def test_who_stands_in_for_an_agent_has_none_of_its_options(ada, echo, countdown, said):
    talk = accept.accept(ada.principal, echo, said())
    switch_agent(ada.principal, talk.context, echo, {"tone": "dry"})
    Run.objects.filter(pk=talk.run).update(agent=countdown)
    held = begin(talk.run)
    assert (held.agent, held.options) == (countdown, {})
