"""The bridge recovers from a broken database connection, and passes other errors through."""

from contextlib import nullcontext

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from apps.accounts.models import User
from parley import db

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.services("ends a connection of PostgreSQL's", only=True)
async def test_it_goes_on_after_a_lost_connection(ada):
    for surroundings in (nullcontext, transaction.atomic):
        ended = []

        def end_and_count(surroundings=surroundings, ended=ended):
            with surroundings():
                if not ended:
                    with connection.cursor() as cursor:
                        ended.append(True)
                        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                return User.objects.count()

        assert await db.run(end_and_count) == 1


async def test_statement_errors_are_not_tried_again(ada):
    tried = []

    def fail(error):
        tried.append(error)
        raise error

    for error in (OperationalError("no such table"), IntegrityError("twice"), ValueError("no")):
        with pytest.raises(type(error)):
            await db.run(fail, error)
    assert len(tried) == 3
