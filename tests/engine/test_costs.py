"""Statements and transactions of the hot path have limits."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentkit import Completed
from apps.engine import accept
from apps.record.reading import task_json
from tests.working import begin, chunk, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("each database has statements of its own")]
CONTROL = re.compile(r"^(BEGIN|COMMIT|SAVEPOINT|RELEASE|ROLLBACK|SET|PRAGMA)")


class Cost:
    def __enter__(self):
        self._queries = CaptureQueriesContext(connection)
        self._queries.__enter__()
        return self

    def __exit__(self, *exception):
        self._queries.__exit__(*exception)
        sent = [query["sql"] for query in self._queries.captured_queries]
        self.transactions = sum(sql.startswith("BEGIN") for sql in sent)
        self.statements = [sql for sql in sent if not CONTROL.match(sql)]


def measured(ada, echo, said):
    """The cost of each step the second time, when all SQL is compiled."""
    costs = {}
    for _ in range(2):
        with Cost() as costs["accept"]:
            sent = accept.accept(ada.principal, echo, said())
        with Cost() as costs["claim"]:
            held = begin(sent.run)
        with Cost() as costs["first words"]:
            say(held, chunk("lines", "1\n", last=False))
        with Cost() as costs["record"]:
            say(held, *(chunk("lines", f"{n}\n", append=True, last=False) for n in range(100)))
        with Cost() as costs["finish"]:
            end(held, Completed("done"))
        with Cost() as costs["show"]:
            task_json.find(sent.task)
    return costs


def test_turn_costs_known_statements_and_transactions(ada, echo, said):
    costs = measured(ada, echo, said)
    together = connection.vendor == "postgresql"  # there a transaction's writes are one statement
    found = {step: len(cost.statements) for step, cost in costs.items()}
    assert found == (ON_POSTGRESQL if together else ON_SQLITE), "\n".join(costs["finish"].statements)
    found = {step: cost.transactions for step, cost in costs.items()}
    assert found == {step: 0 if together or step == "show" else 1 for step in found}


ON_SQLITE = {"accept": 6, "claim": 5, "first words": 5, "record": 3, "finish": 9, "show": 1}
ON_POSTGRESQL = {"accept": 1, "claim": 2, "first words": 2, "record": 1, "finish": 4, "show": 1}
