"""At every address of the client API, a key that may only read changes nothing."""

from __future__ import annotations

import re

from django.test import Client

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ
from apps.notifications import push
from tests.clients import promises
from tests.isolation.addresses import Address, ids_of
from tests.isolation.asking import Caller
from tests.resources.declared import changed, everything

FOR_READERS = {"POST keys/leaked", "POST plans/check", "POST schedules/preview", "POST prompts/{prompt}/render"}
NOT_FOR_READERS = re.compile("keys|exports|deployments|agents/{slug}/(secrets|versions|release)")


def test_key_that_reads_changes_nothing(ours):
    push.push_key()  # made when somebody asks for it first
    key = ApiKey.issue(ours.owner, "reads", workspace_id=ours.workspace.pk, scopes=[READ])[1]
    reader, ids, before = Caller("reads", Client(), key), ids_of(ours), everything()
    for path, verbs in promises.schema()["paths"].items():
        address = Address(path.lstrip("/"), "")
        named = {name: ids[kind] for name, kind in address.kinds().items()}
        place = path.removeprefix("/api/v1/")
        for verb in map(str.upper, verbs):
            needs_more = verb != "GET" or bool(NOT_FOR_READERS.match(place))
            status = reader.ask(verb, address.path(named), {}).status
            assert (status == 403) == (needs_more and f"{verb} {place}" not in FOR_READERS), (verb, place, status)
    assert not changed(before)
