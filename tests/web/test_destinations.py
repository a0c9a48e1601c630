"""A page says which model or remote agent each session went to."""

import pytest

from apps.agents.models import Agent
from apps.engine import accept
from apps.features.budgets.models import Spending, first_of_month
from apps.features.sessions.titles import title_key
from apps.plans.definitions import PlanDefinition
from apps.plans.models import PlanRun, Step
from apps.plans.registry import register_plan
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Context

pytestmark = pytest.mark.django_db(transaction=True)


def test_session_names_models_and_remote_agents(ada, bob_browser, ada_browser, echo, said, settings):
    settings.EMBEDDING_MODEL, settings.ROUTER_AGENT = "small-embeddings", "echo"
    receipt = accept.accept(ada.principal, echo, said("Where does this go?"))
    context = Context.objects.get(pk=receipt.context)
    page = ada_browser.get("/settings/destinations").content.decode()
    assert "small-embeddings" in page
    settings.EMBEDDING_MODEL = ""
    assert "No model or remote agent is recorded" in ada_browser.get("/settings/destinations").content.decode()
    for key, model in [(receipt.run, "answering-model"), (title_key(context.pk), "title-model")]:
        Spending.objects.create(run=key, model=model, month=first_of_month(), context=context.pk)
    Run.objects.filter(pk=receipt.run).update(input={"sent": {}})
    Agent.objects.filter(pk=echo.pk).update(kind=Agent.Kind.REMOTE, name="Far away")
    page = ada_browser.get("/settings/destinations").content.decode()
    for said_there in (
        "Where does this go?",
        "Model: <bdi>answering-model",
        "title: <bdi>title-model",
        "<bdi>Far away",
    ):
        assert said_there in page
    assert "answering-model" not in bob_browser.get("/settings/destinations").content.decode()


def test_models_of_answers_without_a_task_are_named(ada, ada_browser, echo, said):
    receipt = accept.accept(ada.principal, echo, said("Now a word."))
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Yes."}]}
    message |= {"contextId": str(receipt.context), "metadata": {"models": ["answering-model", 7]}}
    with ledger.writing(receipt.context) as log:
        log.add(EventType.AGENT_MESSAGE, {"message": message, "agent": echo.pk})
    assert "Model: <bdi>answering-model" in ada_browser.get("/settings/destinations").content.decode()


def test_plans_that_choose_an_agent_name_embeddings(ada, ada_browser, echo, said, settings):
    settings.EMBEDDING_MODEL = "small-embeddings"
    steps = {"by_name": {"agent": "echo", "message": "Go"}, "by_skill": {"find": "repeats", "message": "Go"}}
    plan = register_plan("plan", PlanDefinition.read({"name": "Plan", "description": "Tries.", "steps": steps}))
    receipt = accept.accept(ada.principal, plan, said("Begin"))
    run = PlanRun.objects.create(task_id=receipt.task, version_id=plan.current_version_id)
    step = Step.objects.create(run=run, key="by_name", agent="echo")
    assert "small-embeddings" not in ada_browser.get("/settings/destinations").content.decode()
    Step.objects.filter(pk=step.pk).update(key="by_skill")
    assert "small-embeddings" in ada_browser.get("/settings/destinations").content.decode()
