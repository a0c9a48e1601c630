"""Two rows that have nothing to do with each other are read together as they are read one by one."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.a2a.callers import AGENT
from apps.accounts.credentials import KEY
from apps.accounts.models import ApiKey
from db.selections import one_of_each

pytestmark = [pytest.mark.django_db, pytest.mark.services("one statement of a shape of its own")]


def values(row):
    """All that a row holds, and its user's values where it has one."""
    if row is None:
        return None
    own = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return own | ({"user": values(row.user)} if isinstance(row, ApiKey) else {})


def test_each_that_is_there_is_found_and_the_other_is_none(ada, echo, subtests):
    key, _ = ApiKey.issue(ada, "a key", scopes=["tasks:read"])
    for prefix in (key.prefix, "none"):
        for slug in ("echo", "none", ""):
            with subtests.test(prefix=prefix, slug=slug), CaptureQueriesContext(connection) as queries:
                found = one_of_each(KEY, prefix, AGENT, slug)
                assert len(queries) == 1
                assert list(map(values, found)) == [values(KEY.one(prefix)), values(AGENT.one(slug))]
