"""Each branch of an imported conversation is a fork, within bounds."""

import pytest

from apps.conversations.forks import branches
from apps.optional.transfers.formats import shape
from apps.optional.transfers.importing import import_file
from apps.record import lineage, projection
from apps.record.models import Context
from tests.transfers import samples

pytestmark = pytest.mark.django_db


def words(context):
    return [one.parts[0]["text"] for one in lineage.messages(context).order_by("index")]


def tree(**before):
    """A chat of Open WebUI whose messages say their names."""
    messages = {
        name: {"id": name, "parentId": parent, "role": "assistant" if name.isupper() else "user", "content": name}
        for name, parent in before.items()
    }
    return {"title": "Tree", "chat": {"history": {"messages": messages, "currentId": list(messages)[-1]}}}


def test_each_leaf_is_a_path_current_the_session(ada, echo):
    chat = tree(z=None, Z="z", a=None, A="a", b="A", B="b", c="B", C="c", B2="b", d="B2", D="d")
    [result] = import_file(ada.principal, echo, samples.as_bytes(chat)).results
    session = Context.objects.get(pk=result.session)
    assert words(session) == ["a", "A", "b", "B2", "d", "D"]
    forks = Context.objects.exclude(pk=session.pk)
    assert sorted(map(words, forks)) == [["a", "A", "b", "B", "c", "C"], ["z", "Z"]]
    assert (result.branches, result.skipped) == (2, {})
    assert [projection.differences(one.pk) for one in (session, *forks)] == [[]] * 3
    points = branches.branch_points(ada.principal, session)
    assert [(one.position, len(one.branches)) for one in points] == [(1, 2), (1, 2)]


def test_damaged_and_surplus_branches_are_counted(ada, echo, monkeypatch):
    monkeypatch.setattr(shape, "MAX_BRANCHES", 2)
    chat = tree(a=None, A1="a", A2="a", A3="a", A="a")
    del chat["chat"]["history"]["messages"]["A1"]["content"]
    [result] = import_file(ada.principal, echo, samples.as_bytes(chat)).results
    assert result.skipped == {"other_branches": 2}
    assert Context.objects.count() == 2
