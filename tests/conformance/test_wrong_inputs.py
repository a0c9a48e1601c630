"""Wrong input gets its error over both bindings, and stores nothing."""

import json
import re
from typing import Any

import httpx
import pytest
from django.apps import apps
from django.contrib.auth.models import Group

from apps.accounts.audit_models import AuditEntry
from apps.accounts.models import ApiKey
from apps.accounts.principals import READ
from apps.agents.models import Agent, AgentStats
from apps.agents.registration import register_hosted
from apps.conversations.search.models import Indexed, SearchEntry, SearchWords
from apps.housekeeping.models import PeriodicJob, ServerProcess
from apps.optional.knowledge.models import PassageWords
from apps.record.models import Context
from parley import db
from parley.asgi import application
from tests.a2a.calling import Caller, details_of
from tests.clients import telling
from tests.conformance import wrong_inputs
from tests.conformance.sending import Sent
from tests.conformance.wrong_inputs import NOWHERE, PARAMS, WRONG_INPUTS, Error, WrongInput, asked, sending

pytestmark = pytest.mark.django_db(transaction=True)

INSIDE = re.compile(
    rb"Traceback|File \"|\.py\b|/tmp/|site-packages|SELECT |INSERT |UPDATE |psycopg|sqlite|django", re.I
)
DOMAIN = "a2a-protocol.org"

Scene = dict[str, str]

FROM_BEHIND = (AgentStats, AuditEntry, Indexed, PassageWords, PeriodicJob, SearchEntry, SearchWords, ServerProcess)


@pytest.fixture
async def scene(ada, ada_key, bob, bob_key, countdown, echo, quiet):
    """Ada and Bob have finished tasks; one agent is private, one switched off."""
    await db.run(_register_the_hidden)
    adas = await db.run(lambda: telling.finished(ada, countdown, messageId="ADAS"))
    echos = await db.run(telling.finished, ada, echo)
    bobs, _ = [await db.run(telling.finished, bob, countdown) for _ in range(2)]
    names = {one.pk: one.context_id async for one in Context.objects.all()}
    token = (await Caller("countdown", bob_key).call("ListTasks", {"pageSize": 1})).result["nextPageToken"]
    return {
        "READING-KEY": (await db.run(ApiKey.issue, ada, "reading", scopes=[READ]))[1],
        "ADAS-KEY": ada_key,
        wrong_inputs.ADAS_TASK: str(adas.task),
        wrong_inputs.ADAS_CONTEXT: names[adas.context],
        wrong_inputs.ADAS_MESSAGE: "ADAS",
        wrong_inputs.ECHOS_TASK: str(echos.task),
        wrong_inputs.ECHOS_CONTEXT: names[echos.context],
        wrong_inputs.BOBS_TASK: str(bobs.task),
        wrong_inputs.BOBS_CONTEXT: names[bobs.context],
        wrong_inputs.BOBS_TOKEN: token,
    }


def _register_the_hidden() -> None:
    club = register_hosted("club", "examples.agents.echo:Echo", access=Agent.Access.GROUPS)
    club.groups.add(Group.objects.create(name="club"))
    register_hosted("gone", "examples.agents.echo:Echo", is_enabled=False)


@pytest.fixture
async def http():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as client:
        yield client


async def ask(http: httpx.AsyncClient, row: WrongInput, sent: Sent, scene: Scene) -> httpx.Response:
    """Sends as Ada by default."""
    named = {"A2A-Version": "1.0", "Authorization": "Bearer ADAS-KEY"} | sent.headers
    headers = {name: filled(text, scene).encode() for name, text in named.items() if text is not None}
    body = filled(sent.body.decode("latin-1"), scene).encode("latin-1")
    path = filled(f"/a2a/{row.at}{sent.below}" if row.at else f"/a2a{sent.below}", scene)
    return await http.request(sent.verb, path, content=body, headers=headers)


def filled(text: str, scene: Scene) -> str:
    """The text with the scene's names filled in."""
    for name, value in scene.items():
        text = text.replace(name, value)
    return text


async def counts() -> dict[str, int]:
    """Row counts, except of measurements, indexes, heartbeats and refused callers."""
    models = [model for model in apps.get_models() if model.__module__.startswith("apps.") and model not in FROM_BEHIND]
    return await db.run(lambda: {model.__name__: model.objects.count() for model in models})


def check_details(details: list[Any], row: WrongInput, reason: str, fields: tuple[str, ...]) -> None:
    assert [one["reason"] for one in details_of(details, "ErrorInfo")] == [reason] * bool(reason)
    assert all(one["domain"] == DOMAIN for one in details_of(details, "ErrorInfo"))
    told = details_of(details, "BadRequest")
    assert tuple(violation["field"] for one in told for violation in one["fieldViolations"]) == fields


@pytest.mark.services("PostgreSQL refuses what SQLite would store")
async def test_over_json_rpc(scene, http, subtests):
    before = await counts()
    for row in WRONG_INPUTS:
        with subtests.test(row.name):
            answer = await ask(http, row, row.rpc, scene)
            assert not INSIDE.search(answer.content)
            assert answer.status_code == row.error.rpc_status, answer.content
            document = answer.json()
            if row.error is not NOWHERE:
                assert set(document) == {"jsonrpc", "id", "error"}
                assert (document["jsonrpc"], document["id"]) == ("2.0", row.rpc_id)
            error = document["error"]
            assert error["code"] == row.error.code, error
            assert error["message"]
            check_details(error.get("data", error.get("details", [])), row, row.error.reason, row.fields)
    assert await counts() == before


def of_each_kind() -> list[WrongInput]:
    """A row for each HTTP+JSON error and method, and all rows with other errors there."""
    kinds: dict[tuple[Error, str], WrongInput] = {}
    for row in WRONG_INPUTS:
        kinds.setdefault((row.due_of_rest[0], row.rest.verb), row)
    return [row for row in WRONG_INPUTS if row in kinds.values() or row.rest_error]


@pytest.mark.parametrize(
    "chosen",
    [of_each_kind(), pytest.param(WRONG_INPUTS, marks=pytest.mark.slow("the whole table again"))],
    ids=["", "all"],
)
async def test_over_http_and_json(scene, http, chosen, subtests):
    before = await counts()
    for row in chosen:
        with subtests.test(row.name):
            due, fields = row.due_of_rest
            answer = await ask(http, row, row.rest, scene)
            assert not INSIDE.search(answer.content)
            assert answer.status_code == due.status, answer.content
            assert answer.headers["Content-Type"] in ("application/a2a+json", "application/json")
            document = answer.json()
            assert set(document) == {"error"}
            error = document["error"]
            assert (error["code"], error["status"]) == (due.status, due.name), error
            assert error["message"]
            check_details(error["details"], row, due.reason, fields)
    assert await counts() == before


async def test_the_input_that_is_right_is_taken(worker, scene, http):
    """The corpus proves something only if its requests are valid apart from their one error."""
    row = asked("nothing wrong", "SendMessage", sending(), PARAMS)
    for number, sent in enumerate((row.rpc, row.rest)):
        fresh = sent.encoded(lambda body, number=number: body.replace(b'"m"', b'"m%d"' % number))
        answer = await ask(http, row, fresh, scene)
        assert answer.status_code == 200
        task = json.loads(answer.content)
        assert task.get("result", task)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
