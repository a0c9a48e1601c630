"""Statements that PostgreSQL prepares answer as psycopg's cursors do."""

import datetime
import uuid

import pytest
from django.db import IntegrityError, connection, transaction

from apps.accounts.models import User
from parley.db.sql import execute

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("only PostgreSQL prepares statements", only=True),
]
TIMES = 5  # of which the last ones are prepared
VALUES = ["é", None, 7, 2**40, 1.5, True, uuid.UUID(int=1), datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC), b"\0"]
TYPES = ("text", "text", "int", "bigint", "float8", "bool", "uuid", "timestamptz", "bytea")
SELECT = "SELECT " + ", ".join(f"%s::{kind}" for kind in TYPES)


def test_prepared_statement_gives_the_same_values():
    for _ in range(TIMES):
        assert execute(SELECT, VALUES).fetchall() == [tuple(VALUES)]
    # The pool's connection may have prepared others' statements, too.
    found = execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s", ["SELECT $1::text, $2::text%"]
    )
    assert found.fetchone() == (1,)


def test_prepared_statement_raises_the_same_error(ada, bob):
    rename = "UPDATE accounts_user SET email = %s WHERE id = %s"
    for _ in range(TIMES):
        assert execute(rename, [bob.email, bob.pk]).rowcount == 1
        with pytest.raises(IntegrityError, match="unique"):
            execute(rename, [ada.email, bob.pk])
    assert User.objects.get(pk=bob.pk).email == bob.email


def test_forgotten_statement_is_prepared_again():
    for forget in (False, True, False):
        if forget:
            with connection.cursor() as cursor:
                cursor.execute("DEALLOCATE ALL")
        for _ in range(TIMES):
            assert execute("SELECT %s::int", [3]).fetchone() == (3,)


def test_transaction_undoes_prepared_statements(ada):
    rename = "UPDATE accounts_user SET name = %s WHERE id = %s"
    for _ in range(TIMES):
        execute(rename, ["Ada", ada.pk])
    with transaction.atomic():
        execute(rename, ["Eve", ada.pk])
        transaction.set_rollback(True)
    ada.refresh_from_db()
    assert ada.name == "Ada"
