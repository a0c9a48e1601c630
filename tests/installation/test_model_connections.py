"""Operators connect language models by one form; agents use them at once."""

import asyncio
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.urls import reverse

from agentkit.llm import LlmFunction, NoModel, has_model
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.agents import options
from apps.agents.definitions import Definition
from apps.agents.registration import register_model
from apps.engine import accept
from apps.health.monitoring import examine_agents
from apps.installation import current
from apps.installation.current import Endpoint as Address
from apps.installation.models import ModelConnection, NetworkAllowance
from apps.model_agents import checks
from apps.model_agents.checks import check
from apps.record.execution import Run
from apps.record.models import Task
from parley import db
from tests.model_agents.endpoint import Endpoint, hangs, refuses, sends
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)

ADD = reverse("web:settings-connect-model")
LIST = reverse("web:settings-models")
KEY = "sk-test-e7a1c0ffee"


def filled(endpoint: Endpoint, **values: str) -> dict[str, str]:
    known = {"provider": "other", "name": "Lab", "base_url": endpoint.url, "key": KEY, "model": "small"}
    return {**known, "act": "save", **values}


def offer(**values: str) -> dict[str, str]:
    forms = {"offers-TOTAL_FORMS": "1", "offers-INITIAL_FORMS": "0"}
    return forms | {f"offers-0-{name}": value for name, value in values.items()}


def change_of(row: ModelConnection) -> str:
    return reverse("web:settings-model", args=[row.pk])


def connect(endpoint: Endpoint, name: str = "Lab", **fields: Any) -> ModelConnection:
    """A connection that may be called."""
    entry = endpoint.url.removeprefix("http://").removesuffix("/v1")
    NetworkAllowance.objects.get_or_create(entry=entry, defaults={"reason": "test"})
    fields = {"slug": name.lower(), "base_url": endpoint.url, "api_key": KEY, "model": "small", **fields}
    return ModelConnection.objects.create(name=name, **fields)


def errors(answer: Any) -> dict[str, list[str]]:
    return answer.context["form"].errors


async def ask(text: str = "Hello", model: str | None = None) -> str:
    return await LlmFunction("Help.", model=model)(None, text)


async def test_connection_is_used_at_once(operator, endpoint):
    assert not await has_model()
    with pytest.raises(NoModel):
        await ask()
    answer = await asyncio.to_thread(operator.post, ADD, filled(endpoint, allow_private="on"))
    assert answer.status_code == 302
    row = await db.run(ModelConnection.objects.get)
    assert (row.slug, row.is_default, row.problem, row.found) == ("lab", True, "", ["large", "small"])
    assert await ask() == "Good day."
    assert endpoint.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert endpoint.requests[-1]["model"] == "small"


async def test_another_process_uses_it_after_a_second(endpoint, monkeypatch):
    current.forget()
    assert not (await current.latest()).endpoints
    monkeypatch.setattr(current, "forget", lambda: None)  # a change by another process does not reach this one
    await db.run(lambda: ModelConnection.objects.bulk_create([ModelConnection(name="Lab", slug="lab", model="small")]))
    assert not (await current.latest()).endpoints
    kept = current.snapshot()
    current.keep(current.Snapshot(kept.endpoints, kept.allowances, kept.read_at - current.REFRESH_SECONDS))
    assert [one.slug for one in (await current.latest()).endpoints] == ["lab"]


def test_a_key_is_encrypted_and_shown_to_nobody(operator, endpoint):
    operator.post(ADD, filled(endpoint, allow_private="on"))
    row = ModelConnection.objects.get()
    change = reverse("admin:installation_modelconnection_change", args=[row.pk])
    pages = [change_of(row), LIST, change, reverse("admin:installation_modelconnection_changelist")]
    shown = "".join(operator.get(page).content.decode() for page in pages)
    log = str(list(LogEntry.objects.values_list("change_message", "object_repr")))
    assert row.api_key == KEY
    assert KEY not in shown + log + repr(current.snapshot())


def test_a_stored_key_goes_to_no_other_host(operator, endpoint):
    row = connect(endpoint)
    elsewhere = {"base_url": "https://models.example.org/v1", "key": "", "allow_private": "on"}
    for act in ("test", "save"):
        assert "key" in errors(operator.post(change_of(row), filled(endpoint, act=act, **elsewhere)))
    assert endpoint.requests == []
    row.refresh_from_db()
    assert row.base_url == endpoint.url
    assert operator.post(change_of(row), filled(endpoint, key="", model="large")).status_code == 302
    row.refresh_from_db()
    assert (row.api_key, row.model) == (KEY, "large")
    operator.post(change_of(row), filled(endpoint, key="", forget_key="on"))
    row.refresh_from_db()
    assert row.api_key == ""


def test_a_test_lists_the_models_and_saves_nothing(operator, endpoint):
    bare = endpoint.url.removesuffix("/v1")
    answer = operator.post(ADD, filled(endpoint, base_url=bare, model="", act="test", allow_private="on"))
    assert answer.context["form"].fields["model"].widget.choices == [("large", "large"), ("small", "small")]
    assert not ModelConnection.objects.exists()
    assert not NetworkAllowance.objects.exists()
    operator.post(ADD, filled(endpoint, base_url=bare, allow_private="on"))
    assert ModelConnection.objects.get().base_url == endpoint.url  # /v1 is found


def test_allowance_is_saved_with_its_connection(operator, endpoint):
    assert "base_url" in errors(operator.post(ADD, filled(endpoint)))
    assert endpoint.headers == []
    operator.post(ADD, filled(endpoint, allow_private="on"))
    row = NetworkAllowance.objects.get()
    assert (row.entry, row.expires_at) == (endpoint.url.removeprefix("http://").removesuffix("/v1"), None)
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {AuditAction.ALLOWANCE_CREATED, "admin.created"} <= actions
    assert LogEntry.objects.filter(content_type__model__in=["modelconnection", "networkallowance"]).count() == 2


def test_the_form_refuses_what_cannot_work(operator, endpoint):
    for values, field in (
        ({"base_url": ""}, "base_url"),
        ({"base_url": "http://user:pass@models.example.org"}, "base_url"),
        ({"key": "two words"}, "key"),
        ({"slug": "2nd"}, "slug"),
        ({"provider": "openai", "key": ""}, "key"),
    ):
        assert field in errors(operator.post(ADD, filled(endpoint, **values))), values
    assert not ModelConnection.objects.exists()


def test_only_operators_with_the_permission_connect_models(client, ada, endpoint, settings):
    row = connect(endpoint)
    pages = [ADD, LIST, change_of(row), reverse("web:settings-try-model", args=[row.pk])]
    client.force_login(ada)
    assert {client.post(page, filled(endpoint)).status_code for page in pages} == {403}
    ada.is_staff = True
    ada.save()
    ada.user_permissions.set(Permission.objects.filter(codename="view_modelconnection"))
    assert [client.get(page).status_code for page in pages[:3]] == [403, 200, 403]
    assert client.post(ADD, filled(endpoint)).status_code == 403
    ada.user_permissions.add(Permission.objects.get(codename="add_modelconnection"))
    NetworkAllowance.objects.all().delete()  # ada may not allow another
    assert "base_url" in errors(client.post(ADD, filled(endpoint, name="Other", allow_private="on")))
    settings.MFA_FOR_OPERATORS = True
    assert client.get(ADD).url == reverse("web:settings-security")
    assert endpoint.headers == []


async def test_an_agent_names_a_model_of_any_connection(endpoint):
    await db.run(connect, endpoint, "Lab")
    await db.run(connect, endpoint, "Other", api_key="sk-other", model="large")
    for name, model, key in (
        (None, "small", KEY),
        ("tiny", "tiny", KEY),
        ("tiny@other", "tiny", "sk-other"),
        ("a@b/c@other", "a@b/c", "sk-other"),
    ):
        await ask(model=name)
        assert (endpoint.requests[-1]["model"], endpoint.headers[-1]["authorization"]) == (model, f"Bearer {key}")


def test_removed_default_connection_is_replaced(endpoint):
    first, second = connect(endpoint, "First"), connect(endpoint, "Second", is_default=True)
    first.refresh_from_db()
    assert (first.is_default, second.is_default) == (False, True)
    second.delete()
    first.refresh_from_db()
    assert first.is_default
    assert current.snapshot().default.slug == "first"


def definition(**fields: Any) -> Definition:
    return Definition.read({"name": "Clerk", "description": "Helps.", "instructions": "Help.", **fields})


async def test_agents_of_removed_connections_use_the_default(endpoint, ada, said):
    await db.run(connect, endpoint, "Lab")
    gone = await db.run(connect, endpoint, "Gone", model="large")
    agent = await db.run(register_model, "clerk", definition(model="large@gone"))
    await db.run(gone.delete)
    receipt = await db.run(accept.accept, ada.principal, agent, said("Hello"))
    await carry_out(receipt.run)
    task = await db.run(Task.objects.get, pk=receipt.task)
    assert (task.state, endpoint.requests[-1]["model"]) == ("completed", "small")
    await db.run(examine_agents)
    await db.run(agent.refresh_from_db)
    assert agent.health == "degraded"
    assert "gone was removed" in agent.ailment


def test_people_choose_the_models_that_operators_offer(endpoint, settings):
    settings.LLM_MODELS = ["of-the-environment"]
    offers = [{"name": "small", "is_choice": True}, {"name": "large", "is_choice": False}]
    connect(endpoint, "Lab", offers=offers)
    connect(endpoint, "Other", model="large", offers=[{"name": "large", "is_choice": True}])
    agent = register_model("clerk", definition())
    assert options.model_choices(agent) == ["small", "large@other"]
    assert options.read_options(agent, {"model": "large@other"}) == {"model": "large@other"}
    with pytest.raises(ValidationError):
        options.read_options(agent, {"model": "large"})


async def test_prices_give_the_cost_of_a_run(operator, endpoint, ada, said):
    row = await db.run(connect, endpoint)
    prices = reverse("admin:installation_modelconnection_change", args=[row.pk])
    await asyncio.to_thread(operator.post, prices, offer(name="small", input_price="2.5", output_price="10"))
    agent = await db.run(register_model, "clerk", definition())
    receipt = await db.run(accept.accept, ada.principal, agent, said("Hello"))
    await carry_out(receipt.run)
    run = await db.run(Run.objects.get, task=receipt.task)
    assert run.usage["cost"] == run.usage["models"]["small"]["cost"] == pytest.approx((20 * 2.5 + 5 * 10) / 1e6)
    page = await asyncio.to_thread(operator.get, reverse("admin:record_run_change", args=[run.pk]))
    assert "0.0001" in page.content.decode()


async def test_environment_is_used_until_a_connection(endpoint, settings):
    settings.LLM_MODEL, settings.LLM_BASE_URL = "of-the-environment", endpoint.url
    await ask()
    assert endpoint.requests[-1]["model"] == "of-the-environment"
    await db.run(connect, endpoint)
    await ask()
    assert endpoint.requests[-1]["model"] == "small"


@pytest.fixture
def address(endpoint):
    connect(endpoint)
    return Address("Lab", "lab", endpoint.url, KEY, "small", {})


async def sentence_of(address: Address, endpoint: Endpoint, reply: Any) -> str:
    endpoint.replies = [reply]
    found = await check(address, "other")
    assert not found.is_ok
    assert KEY not in found.sentence
    return found.sentence


@pytest.mark.django_db(transaction=True)
def test_the_errors_of_an_endpoint_are_sentences(address, endpoint, monkeypatch):
    async def all_of_them() -> None:
        quota = "You exceeded your current quota."
        for status, words in (
            (401, f"Incorrect API key provided: {KEY}."),
            (404, "The model `small` does not exist."),
            (429, quota),
            (400, "This model is deprecated."),
            (503, "Overloaded."),
        ):
            sentence = await sentence_of(address, endpoint, refuses(status, words))
            assert words.replace(KEY, "***") in sentence
            assert sentence[0].isupper()
        beyond = "x" * (checks.MAX_MESSAGE_LENGTH - 4) + KEY
        assert KEY[:4] not in await sentence_of(address, endpoint, refuses(401, beyond))
        assert "base URL" in await sentence_of(address, endpoint, lambda asking: asking.respond(404, b"<html>"))
        assert "base URL" in await sentence_of(address, endpoint, sends(b"<html>", "text/html"))
        assert "base URL" in await sentence_of(address, endpoint, sends(b"[1]"))
        monkeypatch.setattr(checks, "CALL_LIMITS", checks.Limits(seconds=0.2))
        assert "in time" in await sentence_of(address, endpoint, hangs())

    asyncio.run(all_of_them())
