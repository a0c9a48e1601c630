"""What language models took: added up by model, over attempts and turns, and shown to operators."""

import pytest

from agentkit import Completed, Usage
from apps.accounts.models import User
from apps.conversations import intake
from apps.conversations.models import Run
from apps.conversations.usage import Spent
from tests.working import begin, end


def spent(*told: Usage) -> Spent:
    added = Spent()
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


def test_where_no_model_was_asked_there_is_nothing():
    assert Spent().as_json == {}
    assert Spent.of([{}, {}]).lines == []


def test_turns_are_added_up():
    turns = [spent(Usage("large", 1, 1000, 2)).as_json, {}, spent(Usage("large", 1, 234, 3)).as_json]
    assert Spent.of(turns).lines == ["large: 2 requests, 1,234 tokens in, 5 out"]


@pytest.mark.django_db
@pytest.mark.parametrize("page", ["run", "task"])
def test_operators_see_it_on_the_pages_of_run_and_task(client, ada, echo, said, page):
    held = begin(intake.accept(ada.principal, echo, said()).run)
    end(held, Completed("done"), usage=spent(Usage("<large>", 1, 1000, 2)).as_json)
    run = Run.objects.get()
    client.force_login(User.objects.create_superuser("root@example.org", "correct horse"))
    key = run.pk if page == "run" else run.task_id
    shown = client.get(f"/admin/conversations/{page}/{key}/", follow=True).content.decode()
    assert "&lt;large&gt;: 1 request, 1,000 tokens in, 2 out" in shown
