"""The files that a workspace uses are counted, in an order in which no two transactions wait for each other."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.conversations import blobs, clearing, intake
from apps.conversations.models import Blob

pytestmark = pytest.mark.django_db


def test_they_are_counted_in_the_same_order_however_they_come(ada):
    parts = [{"stored": {"sha256": letter * 64, "size": 1, "kind": "raw"}} for letter in "bac"]
    with CaptureQueriesContext(
        connection,
    ) as captured:
        blobs.count_uses(ada.personal_workspace.pk, [*parts, parts[0]])
    updates = [query["sql"] for query in captured if query["sql"].startswith("UPDATE")]
    assert list(dict.fromkeys(next(letter for letter in "abc" if letter * 64 in sql) for sql in updates)) == list("abc")
    assert dict(Blob.objects.values_list("sha256", "uses")) == {"a" * 64: 1, "b" * 64: 2, "c" * 64: 1}


def test_a_deleted_session_lets_go_of_them_in_the_same_order(ada, echo, said):
    context = None
    for letter in "bac":
        part = {"stored": {"sha256": letter * 64, "size": 1, "kind": "raw"}}
        sent = intake.accept(ada.principal, echo, said(letter, contextId="talk") | {"parts": [part]})
        context = sent.context
    with CaptureQueriesContext(connection) as captured:
        clearing.clear_session(ada.principal, context)
    updates = [query["sql"] for query in captured if query["sql"].startswith("UPDATE") and "uses" in query["sql"]]
    assert list(dict.fromkeys(next(letter for letter in "abc" if letter * 64 in sql) for sql in updates)) == list("abc")
    assert not Blob.objects.filter(uses__gt=0).exists()
