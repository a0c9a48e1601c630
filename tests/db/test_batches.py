"""Any number of related rows is written in batches."""

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from parley.db.sql import Update, write, write_transaction

pytestmark = [
    pytest.mark.services("only on PostgreSQL are writes one statement", only=True),
    pytest.mark.django_db(transaction=True),
]
ROWS = 20_000  # three parameters each: nearly a statement's limit


class Missing(Exception):
    pass


def many_rows(name, count=2 * ROWS):
    now = timezone.now()
    return [Session(session_key=f"{name}-{number}", session_data="", expire_date=now) for number in range(count)]


def test_write_changes_nothing_without_its_row():
    kept, lost = many_rows("kept", 2)
    write([kept])
    there = Update(Session, {"session_key": kept.session_key}, {"session_data": "new"}, missing=Missing())
    nowhere = Update(Session, {"session_key": "none"}, {"session_data": "x"}, missing=Missing())
    with pytest.raises(Missing):
        write([lost], [there, nowhere], alone=True)
    assert [row.session_data for row in Session.objects.all()] == [""]
    write([lost], [there], alone=True)
    assert {row.session_data for row in Session.objects.all()} == {"", "new"}


def test_write_that_may_be_lost_leaves_others_durable():
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        write(many_rows("lost", 1), alone=True, may_be_lost=True)
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)
        cursor.execute("RESET synchronous_commit")
    assert Session.objects.count() == 1


def test_many_statements_write_all_or_nothing():
    with write_transaction():
        write(many_rows("first"))
    nowhere = Update(Session, {"session_key": "none"}, {"session_data": "x"}, missing=Missing())
    with pytest.raises(Missing), write_transaction():
        write(many_rows("second"), [nowhere])
    assert Session.objects.count() == 2 * ROWS
