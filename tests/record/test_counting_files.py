"""Counts of a workspace's files are updated in an order without deadlocks."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.engine import accept
from apps.features.sessions import deletion
from apps.record.content import blobs
from apps.record.models import Blob

pytestmark = pytest.mark.django_db


def order_of(captured):
    updates = [query["sql"] for query in captured if query["sql"].startswith("UPDATE") and "uses" in query["sql"]]
    return list(dict.fromkeys(next(letter for letter in "abc" if letter * 64 in sql) for sql in updates))


def test_they_are_counted_and_let_go_of_in_the_same_order_however_they_come(ada, echo, said):
    parts = [{"stored": {"sha256": letter * 64, "size": 1, "kind": "raw"}} for letter in "bac"]
    with CaptureQueriesContext(connection) as captured:
        blobs.count_uses(ada.personal_workspace.pk, [*parts, parts[0]])
    assert order_of(captured) == list("abc")
    assert dict(Blob.objects.values_list("sha256", "uses")) == {"a" * 64: 1, "b" * 64: 2, "c" * 64: 1}
    Blob.objects.all().delete()
    for part in parts:
        sent = accept.accept(ada.principal, echo, said(contextId="talk") | {"parts": [part]})
    with CaptureQueriesContext(connection) as captured:
        deletion.delete_session(ada.principal, sent.context)
    assert order_of(captured) == list("abc")
    assert not Blob.objects.filter(uses__gt=0).exists()
