"""The default language model names a person's session after its second answer, and that is counted."""

import asyncio
import dataclasses

import pytest

from agentkit import Completed
from apps.engine import accept
from apps.features.budgets import spending
from apps.features.budgets.models import Budget, Spending
from apps.features.sessions import commands, titles
from apps.record import projection
from apps.record.models import Context
from tests.llm.endpoint import Endpoint, refuses, says
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def answered(ada, echo, said):
    """A session whose first two messages have answers."""
    return talked(ada.principal, echo, said)


def talked(principal, agent, said):
    receipt = accept.accept(principal, agent, said("How do I **grow** tomatoes on a balcony? I have little sun."))
    end(begin(receipt.run), Completed("In pots."))
    context = Context.objects.get(pk=receipt.context)
    again = accept.accept(principal, agent, said("Which sort?", contextId=context.context_id))
    end(begin(again.run), Completed("Small ones."))
    return context


def named(context: Context) -> str:
    asyncio.run(titles.suggest_title(context.pk))
    context.refresh_from_db()
    return context.title


def test_a_session_gets_the_models_title_once(answered, endpoint: Endpoint):
    assert answered.title == "How do I grow tomatoes on a balcony?"
    endpoint.replies += [says('"**Balcony tomatoes**."\n\nMore words'), says("Another title")]
    assert named(answered) == "Balcony tomatoes"
    assert named(answered) == "Balcony tomatoes"
    assert len(endpoint.requests) == 1
    assert projection.differences(answered.pk) == []


def test_a_name_that_a_person_gave_is_kept(ada, answered, endpoint: Endpoint):
    commands.rename_session(ada.principal, answered.pk, "Mine")
    endpoint.replies.append(says("Another title"))
    assert named(answered) == "Mine"
    assert endpoint.requests == []


@pytest.mark.parametrize(
    "reply", [refuses(500, "broken"), says(""), says("A title " * 40)], ids=["error", "empty", "too long"]
)
def test_without_a_usable_title_the_first_words_stay(answered, endpoint: Endpoint, reply):
    endpoint.replies += [reply] * 4
    assert named(answered) == "How do I grow tomatoes on a balcony?"


def test_without_a_model_the_first_words_stay(answered, settings):
    settings.LLM_MODEL = ""
    assert named(answered) == "How do I grow tomatoes on a balcony?"


def test_the_second_answer_asks_for_a_title(ada, echo, said, settings, monkeypatch, endpoint: Endpoint):
    settings.MODEL_TITLES, asked, named_context = True, [], {}
    monkeypatch.setattr(titles.db, "later", lambda function, *args: function(*args))
    monkeypatch.setattr(titles.current_app, "send_task", lambda name, args: asked.append((name, *args)))
    for number in range(3):
        receipt = accept.accept(ada.principal, echo, said(f"message {number}", **named_context))
        named_context = {"contextId": Context.objects.get(pk=receipt.context).context_id}
        end(begin(receipt.run), Completed("In pots."))
        assert asked == [(titles.SUGGEST_TITLE, str(receipt.context))] * (number > 0)


def test_a_title_is_counted_as_spent(answered, monkeypatch, endpoint: Endpoint):
    counted = []
    monkeypatch.setattr(titles, "count_usage", lambda model, counts: counted.append(counts["requests"]))
    endpoint.replies.append(says("Balcony tomatoes"))
    named(answered)
    [spent] = Spending.objects.filter(context=answered.pk)
    assert (spent.requests, spent.input_tokens, spent.output_tokens) == (1, 20, 5)
    assert counted == [1]


def test_no_title_is_bought_beyond_a_budget(answered, endpoint: Endpoint):
    Budget.objects.create(workspace=answered.workspace, token_limit=0)
    spending.forget()
    assert named(answered) == "How do I grow tomatoes on a balcony?"
    assert endpoint.requests == []


def test_a_programs_sessions_cost_no_title(ada, echo, said, endpoint: Endpoint):
    by_program = dataclasses.replace(ada.principal, key="k1")
    assert named(talked(by_program, echo, said)) == "How do I grow tomatoes on a balcony?"
    assert endpoint.requests == []
