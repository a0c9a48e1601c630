"""Writes that belong together are written together, however many there are."""

import pytest

from apps.accounts.models import Workspace
from bridge.statements import Batch

pytestmark = [
    pytest.mark.services("only on PostgreSQL are writes one statement", only=True),
    pytest.mark.django_db(transaction=True),
]
ROWS = 12_000  # at five parameters each: nearly what one statement takes


class Missing(Exception):
    pass


def large_batch():
    """More than one statement can hold."""
    batch = Batch()
    for _ in range(2):
        batch.insert([Workspace(name="one of many") for _ in range(ROWS)])
    return batch


def test_more_than_one_statement_holds_is_written_all_the_same_or_not_at_all_where_a_row_is_missing():
    large_batch().write()
    assert Workspace.objects.count() == 2 * ROWS
    batch = large_batch()
    batch.update(Workspace, {"id": 0}, {"name": "none"}, missing=Missing())
    with pytest.raises(Missing):
        batch.write()
    assert Workspace.objects.count() == 2 * ROWS
