"""What models cost is summed by month, and a budget's hard limit ends the calls."""

import datetime
import uuid

import pytest
from django.core import mail

from agentkit.content.emissions import Usage
from apps.accounts.models import ApiKey
from apps.accounts.principals import ANONYMOUS
from apps.agents.registration import register_hosted
from apps.budgets import spending
from apps.budgets.models import Budget, Spending, first_of_month
from apps.budgets.watching import watch
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.engine.send import send
from apps.engine.turns.recorder import count_usage
from apps.installation.models import ModelConnection, NetworkAllowance
from apps.record.errors import BudgetSpent
from apps.record.execution import Run
from apps.record.models import Task
from apps.record.runs import UsageTotals
from parley import db
from parley.faces.cells import money
from parley.telemetry import metrics
from tests.engine.delegating import done, words
from tests.model_agents.endpoint import calls, says

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("sums and upserts are the database's")]

ONE_ANSWER = 0.04  # by `priced`: 20 tokens in and 5 out
TOKENS = 25


@pytest.fixture
def priced(endpoint):
    """The endpoint as the default connection, with prices."""
    entry = endpoint.url.removeprefix("http://").removesuffix("/v1")
    NetworkAllowance.objects.create(entry=entry, reason="test")
    offer = {"name": "test-model", "input_price": 1_000.0, "output_price": 4_000.0, "is_choice": False}
    ModelConnection.objects.create(
        name="Lab", slug="lab", base_url=endpoint.url, model="test-model", offers=[offer], is_default=True
    )
    return endpoint


@pytest.fixture
def helper(db):
    return register_hosted("helper", "tests.model_agents.agents:Helper")


@pytest.fixture
def key(ada):
    return ApiKey.issue(ada, "one")[0]


def limit(amount=None, tokens=None, **scope):
    budget = Budget(hard_limit=amount, token_limit=tokens, **scope)
    budget.full_clean()
    budget.save()
    spending.forget()
    return budget


def spend(cost, ada, agent, month=None, **fields):
    Spending.objects.create(
        run=uuid.uuid4(), model="m", month=month or first_of_month(), workspace=ada.personal_workspace, agent=agent,
        context=uuid.uuid4(), cost=cost, **fields,
    )  # fmt: skip
    spending.forget()


async def test_a_runs_cost_outlives_its_session(priced, helper, ada, said, worker):
    priced.replies = [says("Hello.")]
    task = await done(ada.principal, helper, said())
    row = await db.run(Spending.objects.get)
    run = await db.run(Run.objects.get)
    assert (row.run, row.agent_id, row.workspace_id) == (run.pk, helper.pk, ada.personal_workspace.pk)
    assert row.cost == run.usage["cost"] == pytest.approx(ONE_ANSWER)
    await db.run(deletion.delete_session, ada.principal, task.context_id)
    assert await db.run(Spending.objects.count) == 1


def test_a_repeated_run_is_counted_once(ada, echo, said):
    receipt = accept.accept(ada.principal, echo, said())
    task = Task.objects.get(pk=receipt.task)
    for cost in (1.0, 2.5):
        totals = UsageTotals()
        totals.add(Usage("m", 1, 10, 10, cost))
        spending.record_usage(receipt.run, task, echo.pk, totals.as_json)
    assert spending.sums(Spending.objects.all(), "model") == [("m", 2.5)]


async def test_a_spent_budget_refuses_the_next_message(ada, echo, helper, said):
    first, second = said(), said()
    receipt = await send(ada.principal, helper, first)
    await db.run(spend, 5.0, ada, helper)
    await db.run(limit, 5.0)
    again = await send(ada.principal, helper, first)
    assert (again.task, again.repeated) == (receipt.task, True)
    with pytest.raises(BudgetSpent, match="is spent for this month"):
        await send(ada.principal, helper, second)
    assert await db.run(Task.objects.count) == 1
    await send(ada.principal, echo, said())  # it calls no models
    await db.run(lambda: (Budget.objects.update(hard_limit=6.0), spending.forget()))
    assert (await send(ada.principal, helper, second)).task


@pytest.mark.parametrize("limited", ["hard_limit", "token_limit"])
@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        (("workspace",), {"key", "other key", "ada"}),
        (("agent",), {"key", "other key", "ada", "bob"}),
        (("workspace", "agent"), {"key", "other key", "ada"}),
        (("api_key",), {"key"}),
        ((), {"key", "other key", "ada", "bob"}),
    ],
    ids=lambda one: " and ".join(one) or "all" if isinstance(one, tuple) else "",
)
def test_a_budget_refuses_those_of_its_scope(limited, scope, refused, ada, bob, key, helper):
    other = ApiKey.issue(ada, "other")[0]
    scopes = {"workspace": ada.personal_workspace, "agent": helper, "api_key": key}
    spend(50.0, ada, helper, month=datetime.date(2020, 1, 1), key=str(key), input_tokens=1000)
    spend(5.0, ada, helper, key=str(key), input_tokens=90, output_tokens=10)
    budget = limit(5.01, 101, **{name: scopes[name] for name in scope})
    callers = {"key": key.principal, "other key": other.principal, "ada": ada.principal, "bob": bob.principal}
    for principal in callers.values():
        spending.check_budget(principal, helper)
    Budget.objects.filter(pk=budget.pk).update(**{limited: {"hard_limit": 5.0, "token_limit": 100}[limited]})
    spending.forget()
    found = set()
    for name, principal in callers.items():
        try:
            spending.check_budget(principal, helper)
        except BudgetSpent:
            found.add(name)
    assert found == refused


def test_a_public_agent_spends_its_own_workspaces_budget(ada, helper):
    helper.workspace = ada.personal_workspace
    spend(5.0, ada, helper)
    limit(5.0, workspace=ada.personal_workspace)
    with pytest.raises(BudgetSpent) as refused:
        spending.check_budget(ANONYMOUS, helper)
    assert "used" not in refused.value.exceeded.data, "nobody outside learns amounts"


async def test_delegated_work_counts_for_the_key(priced, helper, key, said, worker):
    calling = await db.run(register_hosted, "asks-helper", "tests.model_agents.agents:AsksHelper")
    priced.replies = [says("Hello.")]
    await done(await db.run(lambda: key.principal), calling, said())
    row = await db.run(Spending.objects.get)
    assert (row.agent_id, row.key) == (helper.pk, str(key))


@pytest.mark.parametrize(
    ("handler", "reply", "limits"),
    [
        ("Helper", calls(("double", {"number": 4})), {"amount": ONE_ANSWER}),
        ("Twice", says("One."), {"tokens": TOKENS}),
    ],
    ids=["cost", "two functions"],
)
async def test_a_turn_sends_no_request_beyond_a_budget(priced, key, said, worker, handler, reply, limits):
    agent = await db.run(register_hosted, "agent", f"tests.model_agents.agents:{handler}")
    await db.run(lambda: limit(**limits, api_key=key))
    priced.replies = [reply, says("8.")]
    task = await done(await db.run(lambda: key.principal), agent, said())
    assert (task.state, len(priced.requests)) == ("failed", 1)
    assert "is spent for this month" in words(task)
    assert (await db.run(Run.objects.get)).error["code"] == "budget_spent"
    spent = await db.run(Spending.objects.get)
    assert (spent.key, spent.cost) == (str(key), pytest.approx(ONE_ANSWER))


@pytest.fixture
def _mailed(settings):
    settings.ADMINS, settings.EMAIL_URL = ["ops@example.org"], "smtp://localhost:25"


@pytest.mark.usefixtures("_mailed")
def test_notices_are_sent_once_per_month_and_level(ada, key, helper):
    limit(tokens=100, api_key=key)
    for spent, told in ((79, 0), (1, 1), (10, 1), (10, 2), (50, 2)):
        spend(spent / 10, ada, helper, key=str(key), input_tokens=spent)
        watch()
        watch()
        assert len(mail.outbox) == told, spent
    assert mail.outbox[0].to == ["ops@example.org", ada.email]
    assert "80 %" in mail.outbox[0].subject


@pytest.mark.usefixtures("_mailed")
def test_an_unsent_notice_is_sent_later(ada, monkeypatch):
    limit(0.0)

    def refuse(*_, **__):
        raise ConnectionRefusedError

    with monkeypatch.context() as away:
        away.setattr("apps.limits.notices.send_mail", refuse)
        watch()
    assert not mail.outbox
    watch()
    assert len(mail.outbox) == 2, "80 % of nothing, and all of it"


def test_workspaces_and_operators_see_what_was_spent(client, admin_client, ada, bob, key, helper):
    spend(1.25, ada, helper)
    limit(1.5, tokens=100, workspace=ada.personal_workspace)
    limit(tokens=7, api_key=key)
    client.force_login(ada)
    shown = client.get("/settings/usage")
    assert shown.context["total"] == 1.25
    budgets = [(one.of, one.used, one.limit, one.is_near) for one in shown.context["budgets"]]
    assert budgets == [("Workspace", 1.25, 1.5, True), ("Workspace", 0, 100, False), ("one", 0, 7, False)]
    client.force_login(bob)
    shown = client.get("/settings/usage")
    assert (shown.context["total"], shown.context["budgets"]) == (0, [])
    added = admin_client.post("/admin/budgets/budget/add/", {"agent": helper.pk, "hard_limit": "1.3"})
    assert (added.status_code, b"Nearly spent" in admin_client.get("/admin/budgets/budget/").content) == (302, True)
    shown = admin_client.get("/admin/budgets/spending/?q=helper")
    assert shown.context["sums"]["By agent"] == [("Helper", "1.25 USD")]


@pytest.mark.usefixtures("_mailed")
def test_amounts_say_their_currency_everywhere(client, admin_client, ada, helper, settings):
    settings.CURRENCY = "EUR"
    spend(0.0125, ada, helper)
    spend(1234.5, ada, helper)
    limit(1300, workspace=ada.personal_workspace)
    watch()
    client.force_login(ada)
    count_usage("priced", {"requests": 1, "inputTokens": 1, "outputTokens": 1, "cost": 0.5})
    told, _ = metrics.exposition("")
    assert 'parley_model_cost_total{currency="EUR",model="priced"} 0.5' in told.decode()
    said = {
        "usage": client.get("/settings/usage").content.decode(),
        "spending": admin_client.get("/admin/budgets/spending/").content.decode(),
        "budgets": admin_client.get("/admin/budgets/budget/").content.decode(),
        "mail": mail.outbox[0].body,
    }
    assert [where for where, text in said.items() if "1,234.51 EUR" not in text] == []
    assert "0.013 EUR" in said["spending"]


@pytest.mark.parametrize(
    ("amount", "words"),
    [(None, "–"), (0.0, "0.00 USD"), (0.00001, "0.00001 USD"), (0.0042, "0.0042 USD"), (1250, "1,250.00 USD")],
)
def test_small_amounts_keep_their_digits(amount, words):
    assert money(amount) == words
