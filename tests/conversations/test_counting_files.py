"""The files that a workspace uses are counted, in an order in which no two transactions wait for each other."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.conversations import blobs
from apps.conversations.models import Blob

pytestmark = pytest.mark.django_db


def test_they_are_counted_in_the_same_order_however_they_come(ada):
    parts = [{"stored": {"sha256": letter * 64, "size": 1, "kind": "raw"}} for letter in "bac"]
    with CaptureQueriesContext(
        connection,
    ) as captured:
        blobs.count_uses(ada.personal_workspace.pk, [*parts, parts[0]])
    updates = [query["sql"] for query in captured if query["sql"].startswith("UPDATE")]
    assert [next(letter for letter in "abc" if letter * 64 in sql) for sql in updates] == ["a", "b", "c"]
    assert dict(Blob.objects.values_list("sha256", "uses")) == {"a" * 64: 1, "b" * 64: 2, "c" * 64: 1}
