"""Writes that belong together are written together, however many there are."""

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from db.sql import Batch, write_transaction

pytestmark = [
    pytest.mark.services("only on PostgreSQL are writes one statement", only=True),
    pytest.mark.django_db(transaction=True),
]
ROWS = 20_000  # at three parameters each: nearly what one statement takes


class Missing(Exception):
    pass


def large_batch(name):
    """More than one statement can hold."""
    batch, now = Batch(), timezone.now()
    for half in "ab":
        keys = (f"{name}-{half}-{number}" for number in range(ROWS))
        batch.insert(*[Session(session_key=key, session_data="", expire_date=now) for key in keys])
    return batch


def test_more_than_one_statement_holds_is_written_all_the_same_or_not_at_all_where_a_row_is_missing():
    with write_transaction():
        large_batch("first").write()
    assert Session.objects.count() == 2 * ROWS
    batch = large_batch("second")
    batch.update(Session, {"session_key": "none"}, {"session_data": "x"}, missing=Missing())
    with pytest.raises(Missing), write_transaction():
        batch.write()
    assert Session.objects.count() == 2 * ROWS
