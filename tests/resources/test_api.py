"""What the client API promises of each resource, from its declaration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.urls import URLPattern

from apps.accounts.models import ApiKey, Membership, User
from apps.accounts.permissions import NEEDED_FOR_SCOPE, Permission, Role
from apps.accounts.principals import READ, WRITE
from apps.accounts.resources import Act
from tests.clients import promises
from tests.clients.calling import JSON, Answer, Caller
from tests.isolation import features
from tests.isolation.features import ViewSet
from tests.resources import samples
from tests.resources.declared import changed, everything

VIEWSETS = {one: found for one, found in features.all_viewsets().items() if not one.rights}
"""Without those of operators, who have rights of their own: `tests/deployments/test_api.py` has them."""
VERBS = ("get", "post", "put", "patch", "delete")


@dataclass
class Api:
    """A resource, called by its owner unless another caller is named."""

    viewset: ViewSet
    patterns: list[URLPattern]
    person: User
    owner: Caller

    def ask(self, method: str, path: str, body: Any = None, caller: Caller | None = None) -> Answer:
        answer: Answer = async_to_sync((caller or self.owner).ask)(method, path, body)
        return answer

    @property
    def list(self) -> str:
        return next(f"/{one.pattern}" for one in self.patterns if "<" not in str(one.pattern))

    def at(self, key: str) -> str:
        return f"{self.list}/{key}"

    def addresses(self, key: str) -> dict[str, dict[str, str]]:
        """The list, a row and what is below it, each with its methods and what they are in the viewset."""
        found = {}
        for one in self.patterns:
            start, _, end = f"/{one.pattern}".partition("<")
            if "<" not in end:
                place = f"{start}{key}{end.partition('>')[2]}" if end else start
                found[place] = {verb: done for verb, done in one.callback.actions.items() if verb != "head"}
        return found

    def writes(self, key: str) -> list[tuple[str, str, str]]:
        verbs = [(path, *one) for path, actions in self.addresses(key).items() for one in actions.items()]
        return [(path, verb.upper(), done) for path, verb, done in verbs if verb != "get"]

    def create(self) -> JSON:
        answer = self.ask("POST", self.list, samples.body_of(self.viewset))
        assert answer.status in (201, 202), answer.content
        inside = samples.sample_of(self.viewset).inside
        made: JSON = answer.body[inside] if inside else answer.body
        return made

    def ready(self) -> str:
        """The key of a row whose acts are possible."""
        key: str = self.create()["id"]
        samples.sample_of(self.viewset).ready(key)
        return key

    def do(self, act: Act[Any], key: str) -> Answer:
        is_delete = act.name == self.viewset.deletes
        return self.ask("DELETE", self.at(key)) if is_delete else self.ask("POST", f"{self.at(key)}/{act.name}")

    def row(self, key: str) -> Any:
        """As its owner sees it now."""
        by = "prefix" if self.viewset.converter == "str" else "pk"
        rows = self.viewset.resource.model._default_manager.visible_to(self.person.principal)
        return rows.filter(**{by: key}).first()

    def listed(self, caller: Caller | None = None, most: int = 2) -> list[str]:
        """The keys of all pages."""
        found, more = list[str](), f"{self.list}?limit={most}"
        while more:
            answer = self.ask("GET", more, caller=caller).body
            assert len(answer["items"]) <= most
            found += [one["id"] for one in answer["items"]]
            more = answer["nextCursor"] and f"{self.list}?limit={most}&cursor={answer['nextCursor']}"
        return found

    def shape(self, verb: str, *, of_row: bool = True) -> JSON:
        """Of a body in the reference, or of what GET answers."""
        place = re.compile(f"/api/v1{self.list}" + (r"/{\w+}" if of_row else ""))
        operation = next(verbs[verb] for path, verbs in promises.schema()["paths"].items() if place.fullmatch(path))
        told = operation["responses"]["200"] if verb == "get" else operation.get("requestBody")
        named = told["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2] if told else ""
        found: JSON = promises.schema()["components"]["schemas"].get(named, {})
        return found


@pytest.fixture(params=VIEWSETS, ids=lambda one: one.resource.name)
def api(request, transactional_db, ada, echo):
    samples.register_the_plan()
    return Api(request.param, VIEWSETS[request.param], ada, Caller(ApiKey.issue(ada, "test")[1]))


def test_row_is_created_and_read(api):
    made = api.create()
    read = api.ask("GET", api.at(made["id"])).body
    assert read == {name: value for name, value in made.items() if name in read}
    given = samples.body_of(api.viewset)
    assert {name: read[name] for name in given if name in read} == {k: v for k, v in given.items() if k in read}


def test_list_has_pages_newest_first(api):
    made = [api.ready() for _ in range(3)]
    kept = [key for key in reversed(made) if api.ask("GET", api.at(key)).status == 200]
    assert kept
    assert [key for key in api.listed() if key in made] == kept


def test_wrong_body_saves_nothing(api):
    if not (shape := api.shape("post", of_row=False)):
        pytest.skip("no body creates it")
    before, body = everything(), samples.body_of(api.viewset)
    for required in shape.get("required", []):
        refused = api.ask("POST", api.list, {name: value for name, value in body.items() if name != required})
        assert (refused.status, refused.fields) == (422, [required])
    others = {"surprise", *api.shape("get")["properties"]} - set(shape["properties"])
    refused = api.ask("POST", api.list, body | dict.fromkeys(others, 1))
    assert (refused.status, set(refused.fields)) == (422, others)
    assert not changed(before)


def test_partial_change_keeps_the_rest(api):
    if "update" not in api.viewset.usual:
        pytest.skip("it does not change")
    made, shape = api.create(), api.shape("patch")
    path = api.at(made["id"])
    was = api.ask("GET", path).body
    texts = [name for name, field in shape["properties"].items() if field.get("type") == "string" and name in was]
    text = "name" if "name" in texts else texts[0]
    now = api.ask("PATCH", path, {text: "Another"}).body
    assert {name for name in was if now[name] != was[name]} - {"updatedAt"} == {text}
    before = everything()
    others = {"surprise", *was} - set(shape["properties"])
    refused = api.ask("PATCH", path, {text: "Third"} | dict.fromkeys(others, 1))
    assert (refused.status, set(refused.fields)) == (422, others)
    assert not changed(before)


def test_acts_are_done_once(api):
    key, offered = api.ready(), []
    for act in api.viewset.resource.acts:
        may_conflict = {409} & set(api.viewset.refuses.get(act.name, ()))
        for _ in range(2):
            before = everything()
            is_offered = (row := api.row(key)) is not None and act.is_offered(row)
            answer = api.do(act, key)
            if is_offered:
                offered.append(act.name)
                assert answer.status == (204 if act.name == api.viewset.deletes else 200)
                assert act.name in api.viewset.answers or changed(before)
            else:
                assert answer.status in {200, 404 if row is None else 204, *may_conflict}
                assert not changed(before)
    assert set(offered) == {act.name for act in api.viewset.resource.acts}


def test_deleted_row_is_gone(api):
    if api.viewset.deletes != "delete" or api.viewset.resource.act("delete") is None:
        pytest.skip("it cannot be deleted")
    key = api.ready()
    assert api.ask("DELETE", api.at(key)).status == 204
    assert key not in api.listed()
    for path, verb, _ in [(api.at(key), "GET", ""), *api.writes(key)]:
        assert path == api.list or api.ask(verb, path).code == "not_found"


def test_others_find_nothing(api, ada, bob):
    key = api.ready()
    callers = [Caller(ApiKey.issue(bob, "bob")[1])]
    if getattr(api.viewset.resource.model._default_manager.all(), "agent", ""):
        callers.append(Caller(ApiKey.issue(ada, "limited", agents=["countdown"])[1]))
    before = everything()
    for caller in callers:
        assert key not in api.listed(caller)
        for path, verb, _ in [(api.at(key), "GET", ""), *api.writes(key)]:
            assert path == api.list or api.ask(verb, path, {}, caller).code == "not_found"
    assert not changed(before)


def test_key_that_reads_writes_nothing(api, ada):
    key, reader = api.ready(), Caller(ApiKey.issue(ada, "reads", scopes=[READ])[1])
    before = everything()
    for path, verb, _ in api.writes(key):
        assert api.ask(verb, path, samples.body_of(api.viewset), reader).code == "forbidden", (verb, path)
    assert not changed(before)


def test_viewer_does_only_what_is_declared(api):
    resource, key = api.viewset.resource, api.ready()
    Membership.objects.filter(user=api.person).update(role=Role.VIEWER)
    before = everything()
    for path, verb, done in api.writes(key):
        act, scope = resource.act(done.removeprefix("act_")), api.viewset.scopes.get(verb, WRITE)
        if act is not None:
            needed = act.permission or NEEDED_FOR_SCOPE.get(act.scope, Permission.READ)
        else:
            is_save = done in ("create", "update")
            needed = resource.permission if is_save else NEEDED_FOR_SCOPE.get(scope, Permission.READ)
        if needed != Permission.READ:
            assert api.ask(verb, path, samples.body_of(api.viewset)).code == "forbidden", (verb, path)
            assert not changed(before)
        elif act is None or act.name != api.viewset.deletes:
            assert api.ask(verb, path, {}).status != 403, (verb, path)
            before = everything()


def test_no_address_has_other_verbs(api):
    key = api.ready()
    before = everything()
    for path, actions in api.addresses(key).items():
        for verb in set(VERBS) - set(actions):
            assert api.ask(verb.upper(), path, {}).status == 405, (verb, path)
    assert not changed(before)
