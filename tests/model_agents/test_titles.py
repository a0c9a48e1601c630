"""The default language model names a person's session after its second answer, and that is counted."""

import asyncio
import dataclasses

import pytest

from agentkit import Completed
from apps.budgets import spending
from apps.budgets.models import Budget, Spending
from apps.conversations.sessions import commands, titles
from apps.engine import accept
from apps.record import ledger, projection
from apps.record.events import EventType
from apps.record.models import Context
from tests.model_agents.endpoint import says
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)
FIRST_WORDS = "How do I grow tomatoes on a balcony?"


def talked(principal, agent, said):
    """A session whose first two messages have answers."""
    receipt = accept.accept(principal, agent, said("How do I **grow** tomatoes on a balcony? I have little sun."))
    end(begin(receipt.run), Completed("In pots."))
    context = Context.objects.get(pk=receipt.context)
    again = accept.accept(principal, agent, said("Which sort?", contextId=context.context_id))
    end(begin(again.run), Completed("Small ones."))
    return context


@pytest.fixture
def answered(ada, echo, said):
    return talked(ada.principal, echo, said)


def named(context: Context) -> str:
    asyncio.run(titles.suggest_title(context.pk))
    context.refresh_from_db()
    return context.title


def test_a_session_gets_the_models_title_once(answered, monkeypatch, endpoint):
    counted = []
    monkeypatch.setattr(titles, "count_usage", lambda model, counts: counted.append(counts["requests"]))
    assert answered.title == FIRST_WORDS
    endpoint.replies += [says('"**Balcony tomatoes**."\n\nMore words'), says("Another title")]
    assert (named(answered), named(answered), len(endpoint.requests)) == ("Balcony tomatoes", "Balcony tomatoes", 1)
    assert projection.differences(answered.pk) == []
    [spent] = Spending.objects.filter(context=answered.pk)
    assert (spent.requests, spent.input_tokens, spent.output_tokens, counted) == (1, 20, 5, [1])


def test_no_model_is_asked_without_need(ada, echo, said, answered, endpoint, settings):
    settings.LLM_MODEL = ""
    assert named(answered) == FIRST_WORDS
    settings.LLM_MODEL = "test-model"
    assert named(talked(dataclasses.replace(ada.principal, key="k1"), echo, said)) == FIRST_WORDS, "of a program"
    Budget.objects.create(workspace=answered.workspace, token_limit=0)
    spending.forget()
    assert named(answered) == FIRST_WORDS, "beyond a budget"
    Budget.objects.all().delete()
    spending.forget()
    commands.rename_session(ada.principal, answered.pk, "Mine")
    assert named(answered) == "Mine"
    assert endpoint.requests == []


def test_no_model_reads_guarded_words(answered, endpoint):
    noted = {"rail": str(answered.pk), "name": "Rail", "direction": "in", "action": "redact", "counts": {}, "ms": 1}
    with ledger.writing(answered.pk) as log:
        log.add(EventType.GUARDRAIL, noted)
    assert (named(answered), endpoint.requests) == (FIRST_WORDS, [])


def test_the_second_answer_asks_for_a_title(ada, echo, said, settings, monkeypatch, endpoint):
    settings.MODEL_TITLES, asked, named_context = True, [], {}
    monkeypatch.setattr(titles.db, "later", lambda function, *args: function(*args))
    monkeypatch.setattr(titles, "send_job", lambda *job: asked.append(job))
    for number in range(3):
        receipt = accept.accept(ada.principal, echo, said(f"message {number}", **named_context))
        named_context = {"contextId": Context.objects.get(pk=receipt.context).context_id}
        end(begin(receipt.run), Completed("In pots."))
        assert asked == [(titles.SUGGEST_TITLE, str(receipt.context))] * (number > 0)
