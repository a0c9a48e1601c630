"""What models cost is summed by month, and a budget's hard limit ends the calls."""

import asyncio
import datetime
import uuid

import pytest
from django.core import mail
from django.core.exceptions import ValidationError

import db
from agentkit.emissions import Usage
from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import ApiKey
from apps.accounts.principals import ANONYMOUS
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.engine.send import send, wait_until_settled
from apps.features.budgets import spending
from apps.features.budgets.jobs import watch
from apps.features.budgets.models import Budget, Spending, first_of_month
from apps.features.sessions import deletion
from apps.installation.models import ModelConnection, NetworkAllowance
from apps.record import wire
from apps.record.errors import BudgetSpent
from apps.record.execution import Run
from apps.record.models import Task
from apps.record.runs import UsageTotals
from tests.llm.endpoint import Endpoint, calls, says

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("sums and upserts are the database's")]

ONE_ANSWER = 0.04  # by `priced`: 20 tokens in and 5 out
TOKENS = 25


@pytest.fixture
def priced(endpoint: Endpoint):
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
    return register_hosted("helper", "tests.llm.agents:Helper")


@pytest.fixture
def settled(ada, said, worker):
    async def sent(agent, text="hello", **fields):
        receipt = await send(ada.principal, agent, said(text, **fields))
        async with asyncio.timeout(30):
            await wait_until_settled(receipt.context, receipt.task, receipt.index, wire.load_task)
        return await db.run(Task.objects.get, pk=receipt.task)

    return sent


def key_of(person):
    key, _ = ApiKey.issue(person, "one")
    return key, key.principal


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


async def test_a_run_s_cost_is_recorded_and_outlives_its_session(priced, helper, settled, ada):
    priced.replies = [says("Hello.")]
    task = await settled(helper)
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


@pytest.mark.parametrize("scope", ["workspace", "agent", "both", "all"])
async def test_a_spent_budget_refuses_the_agent_s_next_message(scope, ada, bob, echo, helper, said):
    def prepare():
        spend(5.0, ada, helper)
        scopes = {
            "workspace": {"workspace": ada.personal_workspace},
            "agent": {"agent": helper},
            "both": {"workspace": ada.personal_workspace, "agent": helper},
            "all": {},
        }
        limit(5.0, **scopes[scope])

    await db.run(prepare)
    first = said()
    with pytest.raises(BudgetSpent, match="is spent for this month"):
        await send(ada.principal, helper, first)
    assert not await db.run(Task.objects.exists)
    await send(ada.principal, echo, said())  # it calls no models
    if scope in ("workspace", "both"):
        await send(bob.principal, helper, said())
    else:
        with pytest.raises(BudgetSpent):
            await send(bob.principal, helper, said())
    await db.run(lambda: (Budget.objects.update(hard_limit=6.0), spending.forget()))
    assert (await send(ada.principal, helper, first)).task


@pytest.mark.parametrize("with_agent", [False, True])
def test_a_key_s_budget_refuses_that_key_alone(with_agent, ada, helper):
    key, other = ApiKey.issue(ada, "one")[0], ApiKey.issue(ada, "other")[0]
    spend(5.0, ada, helper, key=str(key))
    spend(5.0, ada, helper)
    limit(6.0, api_key=other)
    spending.check_budget(key.principal, helper)
    limit(5.0, api_key=key, agent=helper if with_agent else None)
    with pytest.raises(BudgetSpent):
        spending.check_budget(key.principal, helper)
    for principal in (other.principal, ada.principal):
        spending.check_budget(principal, helper)


@pytest.mark.parametrize("scope", ["workspace", "key", "agent", "all"])
def test_tokens_are_limited_in_and_out_whatever_they_cost(scope, ada, helper):
    key = ApiKey.issue(ada, "one")[0]
    spend(0.0, ada, helper, key=str(key), input_tokens=90, output_tokens=10)
    scopes = {"workspace": {"workspace": ada.personal_workspace}, "key": {"api_key": key}, "agent": {"agent": helper}}
    budget = limit(tokens=101, **scopes.get(scope, {}))
    spending.check_budget(key.principal, helper)
    Budget.objects.filter(pk=budget.pk).update(token_limit=100)
    spending.forget()
    with pytest.raises(BudgetSpent, match="tokens"):
        spending.check_budget(key.principal, helper)


def test_an_agent_open_to_all_spends_its_own_workspace_s_budget(ada, helper):
    helper.workspace = ada.personal_workspace
    spend(5.0, ada, helper)
    limit(5.0, workspace=ada.personal_workspace)
    with pytest.raises(BudgetSpent) as refused:
        spending.check_budget(ANONYMOUS, helper)
    assert "used" not in refused.value.exceeded.data, "nobody outside learns amounts"


def test_a_deleted_key_s_spending_still_counts_for_its_workspace(ada, helper):
    key = ApiKey.issue(ada, "one")[0]
    spend(5.0, ada, helper, key=str(key))
    limit(100.0, api_key=key)
    kept = limit(5.0, workspace=ada.personal_workspace)
    name = str(key)
    key.delete()
    spending.forget()
    with pytest.raises(BudgetSpent):
        spending.check_budget(ada.principal, helper)
    assert list(Budget.objects.all()) == [kept]
    assert spending.sums(Spending.objects.all(), "key") == [(name, 5.0)]


async def test_what_a_key_s_task_has_other_agents_do_counts_for_the_key(priced, helper, ada, said, worker):
    key, caller = await db.run(key_of, ada)
    calling = await db.run(register_hosted, "asks-helper", "tests.llm.agents:AsksHelper")
    priced.replies = [says("Hello.")]
    receipt = await send(caller, calling, said())
    async with asyncio.timeout(30):
        await wait_until_settled(receipt.context, receipt.task, receipt.index, wire.load_task)
    row = await db.run(Spending.objects.get)
    assert (row.agent_id, row.key) == (helper.pk, str(key))


async def test_a_repeated_message_gets_its_answer_although_the_budget_is_spent(ada, helper, said):
    message = said()
    receipt = await send(ada.principal, helper, message)
    await db.run(spend, 5.0, ada, helper)
    await db.run(limit, 5.0)
    again = await send(ada.principal, helper, message)
    assert (again.task, again.repeated) == (receipt.task, True)


async def test_within_a_turn_no_further_request_is_sent(priced, helper, settled, ada):
    await db.run(limit, ONE_ANSWER)
    priced.replies = [calls(("double", {"number": 4})), says("8.")]
    task = await settled(helper)
    assert task.state == "failed"
    assert len(priced.requests) == 1
    assert "is spent for this month" in task.status_message["parts"][0]["text"]
    assert (await db.run(Run.objects.get)).error["code"] == "budget_spent"
    assert (await db.run(Spending.objects.get)).cost == pytest.approx(ONE_ANSWER)


async def test_within_a_turn_tokens_and_the_key_count_too(priced, helper, ada, said, worker):
    key, caller = await db.run(key_of, ada)
    await db.run(lambda: limit(tokens=TOKENS, api_key=key))
    priced.replies = [calls(("double", {"number": 4})), says("8.")]
    receipt = await send(caller, helper, said())
    async with asyncio.timeout(30):
        await wait_until_settled(receipt.context, receipt.task, receipt.index, wire.load_task)
    assert len(priced.requests) == 1
    assert (await db.run(Run.objects.get)).error["code"] == "budget_spent"
    assert (await db.run(Spending.objects.get)).key == str(key)


def test_another_month_s_cost_does_not_count(ada, helper):
    spend(5.0, ada, helper, month=datetime.date(2020, 1, 1))
    limit(5.0)
    spending.check_budget(ada.principal, helper)


def test_notices_are_sent_once_per_month_and_level(ada, helper, settings):
    settings.ADMINS, settings.EMAIL_URL = ["ops@example.org"], "smtp://localhost:25"
    limit(10.0, workspace=ada.personal_workspace)
    for spent, told in ((7.9, 0), (0.1, 1), (1.0, 1), (1.0, 2), (5.0, 2)):
        spend(spent, ada, helper)
        watch()
        watch()
        assert len(mail.outbox) == told, spent
    assert mail.outbox[0].to == ["ops@example.org", ada.email]
    assert "80 %" in mail.outbox[0].subject


def test_notices_about_tokens_go_to_the_key_s_workspace(ada, helper, settings):
    settings.ADMINS, settings.EMAIL_URL = ["ops@example.org"], "smtp://localhost:25"
    key = ApiKey.issue(ada, "one")[0]
    limit(tokens=100, api_key=key)
    for tokens, told in ((79, 0), (1, 1), (20, 2)):
        spend(0.0, ada, helper, key=str(key), input_tokens=tokens)
        watch()
        assert len(mail.outbox) == told, tokens
    assert mail.outbox[0].to == ["ops@example.org", ada.email]


def test_contradictory_and_repeated_budgets_are_refused(ada, echo):
    key = ApiKey.issue(ada, "one")[0]
    limit(1.0, agent=echo)
    limit(tokens=1, agent=echo, api_key=key)
    for fields in (
        {"agent": echo, "hard_limit": 2.0},
        {"agent": echo, "api_key": key, "hard_limit": 2.0},
        {"workspace": ada.personal_workspace, "api_key": key, "hard_limit": 2.0},
        {"soft_limit": 3.0, "hard_limit": 2.0},
        {},
        {"hard_limit": -1.0},
    ):
        with pytest.raises(ValidationError):
            Budget(**fields).full_clean()


def test_a_workspace_sees_its_own_spending(client, ada, bob, helper):
    spend(1.25, ada, helper)
    limit(1.5, tokens=100, workspace=ada.personal_workspace)
    limit(tokens=7, api_key=ApiKey.issue(ada, "one")[0])
    client.force_login(ada)
    shown = client.get("/settings/usage")
    assert shown.context["total"] == 1.25
    budgets = [(one.title, one.used, one.limit, one.is_near) for one in shown.context["budgets"]]
    assert budgets == [("Workspace", 1.25, 1.5, True), ("Workspace", 0, 100, False), ("one", 0, 7, False)]
    assert client.get("/settings/usage?month=nonsense").status_code == 200
    client.force_login(bob)
    shown = client.get("/settings/usage")
    assert (shown.context["total"], shown.context["budgets"]) == (0, [])


def test_operators_set_budgets_and_see_what_was_spent(admin_client, ada, helper):
    spend(1.25, ada, helper)
    added = admin_client.post("/admin/budgets/budget/add/", {"agent": helper.pk, "hard_limit": "1.3"})
    assert added.status_code == 302
    entry = AuditEntry.objects.order_by("-number").first()
    assert (entry.object_type, entry.action) == ("budgets.budget", "admin.created")
    assert b"Nearly spent" in admin_client.get("/admin/budgets/budget/").content
    assert admin_client.get(f"/admin/budgets/budget/{Budget.objects.get().pk}/change/").status_code == 200
    shown = admin_client.get("/admin/budgets/spending/?q=helper")
    assert shown.context["sums"]["By agent"] == [("Helper", "1.25")]


async def test_uses_of_one_turn_are_added_up(priced, settled, ada):
    agent = await db.run(register_hosted, "twice", "tests.llm.agents:Twice")
    await db.run(limit, ONE_ANSWER)
    priced.replies = [says("One."), says("Two.")]
    task = await settled(agent)
    assert (task.state, len(priced.requests)) == ("failed", 1)


def test_a_notice_that_could_not_be_sent_is_sent_later(ada, helper, settings, monkeypatch):
    settings.ADMINS, settings.EMAIL_URL = ["ops@example.org"], "smtp://localhost:25"
    limit(0.0)

    def refuse(*_, **__):
        raise ConnectionRefusedError

    with monkeypatch.context() as away:
        away.setattr("apps.limits.notices.send_mail", refuse)
        watch()
    assert not mail.outbox
    watch()
    assert len(mail.outbox) == 2, "80 % of nothing, and all of it"
