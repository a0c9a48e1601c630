"""Usage of language models, summed by model over attempts and turns, for operators."""

import pytest

from agentkit import Completed, Usage
from apps.accounts.models import User
from apps.engine import accept
from apps.record.execution import Run
from apps.record.runs import UsageTotals
from tests.working import begin, end


def spent(*told: Usage) -> UsageTotals:
    added = UsageTotals()
    for usage in told:
        added.add(usage)
    return added


def test_what_is_told_is_added_up_by_model():
    added = spent(Usage("large", 1, 10, 2), Usage("small", 2, 5, 1), Usage("large", 1, 100, 20))
    assert added.as_json == {
        "requests": 4, "inputTokens": 115, "outputTokens": 23,
        "models": {
            "large": {"requests": 2, "inputTokens": 110, "outputTokens": 22},
            "small": {"requests": 2, "inputTokens": 5, "outputTokens": 1},
        },
    }  # fmt: skip
    assert added.lines == ["large: 2 requests, 110 tokens in, 22 out", "small: 2 requests, 5 tokens in, 1 out"]


def test_turns_are_added_up_and_where_no_model_was_asked_there_is_nothing():
    assert UsageTotals().as_json == {}
    assert UsageTotals.of([{}, {}]).lines == []
    turns = [spent(Usage("large", 1, 1000, 2)).as_json, {}, spent(Usage("large", 1, 234, 3)).as_json]
    assert UsageTotals.of(turns).lines == ["large: 2 requests, 1,234 tokens in, 5 out"]


@pytest.mark.django_db
def test_operators_see_it_on_the_pages_of_run_and_task(client, ada, echo, said):
    held = begin(accept.accept(ada.principal, echo, said()).run)
    end(held, Completed("done"), usage=spent(Usage("<large>", 1, 1000, 2)).as_json)
    run = Run.objects.get()
    client.force_login(User.objects.create_superuser("root@example.org", "correct horse"))
    for page in (f"run/{run.pk}", f"task/{run.task_id}"):
        shown = client.get(f"/admin/record/{page}/", follow=True).content.decode()
        assert "&lt;large&gt;: 1 request, 1,000 tokens in, 2 out" in shown


def test_what_is_no_count_is_not_added_up():
    for odd in (-1, 10**30, 2.5, float("nan"), "many", None, True):
        counted = spent(Usage("model", 1, 2, odd)).as_json["outputTokens"]
        assert (counted, type(counted)) == (2 if odd == 2.5 else 0, int), odd
