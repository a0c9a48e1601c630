"""The tree of forks, branch points, and each person's current leaf."""

import pytest

from agentkit import Completed
from apps.conversations.forks import branches
from apps.conversations.forks.branches import choose_leaf, save_chosen_leaf, siblings, tree
from apps.conversations.forks.forking import fork
from apps.conversations.forks.models import ChosenLeaf
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.optional.archive.archiving import move_to_cold_storage
from apps.record import lineage
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.models import Context
from apps.record.reading.lookup import restored
from tests.archive.archiving import put_away
from tests.record.lineages import place, place_before
from tests.working import begin, end

pytestmark = [pytest.mark.django_db, pytest.mark.services("forks are found by SQL that walks a tree")]


@pytest.fixture
def say(ada, echo, said):
    def say(text, context):
        sent = accept.accept(ada.principal, echo, said(text, contextId=context.context_id if context else "talk"))
        end(begin(sent.run), Completed(f"to {text}"))
        return Context.objects.get(pk=sent.context)

    return say


@pytest.fixture
def talk(say):
    return say("three", say("two", say("one", None)))


@pytest.fixture
def edit(ada, say):
    return lambda context, old, new: say(new, fork(ada.principal, context, place_before(context, old), reason="edit"))


def texts(context, text):
    """The texts of a message's versions, by session."""
    return [one.message.parts[0]["text"] for one in siblings(context.owner.principal, context, place(context, text))]


def ways(context):
    """The choices at each branch point, with the current one."""
    said = {one.index: one.parts[0]["text"] for one in lineage.messages(context)}
    found = branches.branch_points(context.owner.principal, context)
    assert all(one.branches[one.position - 1].first_message == one.index for one in found)
    return {said[one.index]: (one.position, [branch.session for branch in one.branches]) for one in found}


def test_versions_are_known_from_everywhere(talk, edit):
    second, third = edit(talk, "two", "zwei"), edit(talk, "two", "deux")
    fourth = edit(second, "zwei", "dos")
    family = {"two": talk, "zwei": second, "deux": third, "dos": fourth}
    for number, (text, context) in enumerate(family.items(), start=1):
        found = siblings(context.owner.principal, context, place(context, text))
        assert [one.context for one in found] == list(family.values())
        assert [one.message.parts[0]["text"] for one in found] == list(family)
        assert ways(context) == {text: (number, [one.pk for one in family.values()])}
        assert texts(context, "one") == ["one"]
    for index in (0, -1, 1000):
        with pytest.raises(InvalidParams, match="There is no event"):
            siblings(talk.owner.principal, talk, index)


def test_deleted_versions_lead_nowhere(ada, talk, edit):
    second, third = edit(talk, "two", "zwei"), edit(talk, "two", "deux")
    deletion.delete_session(ada.principal, second.pk)
    assert texts(talk, "two") == ["two", "deux"]
    assert ways(talk) == {"two": (1, [talk.pk, third.pk])}
    deletion.delete_session(ada.principal, third.pk)
    assert ways(talk) == {}
    last = edit(talk, "two", "dva")
    deletion.delete_session(ada.principal, talk.pk)
    assert texts(last, "dva") == ["dva"]
    assert texts(edit(last, "dva", "dos"), "dos") == ["dva", "dos"]
    assert texts(edit(last, "one", "uno"), "uno") == ["one", "uno"]


def drawn(ada, context):
    return [
        (node.context.pk, node.context.parent_id, node.messages, node.is_gap)
        for node in tree(ada.principal, context.pk).nodes
    ]


def test_tree_is_the_same_from_everywhere(ada, talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(talk, "one", "eins")
    fourth = edit(second, "to zwei", "?")
    expected = [
        (talk.pk, None, 6, False),
        (second.pk, talk.pk, 4, False),
        (fourth.pk, second.pk, 5, False),
        (third.pk, talk.pk, 2, False),
    ]
    for context in (talk, second, third, fourth):
        assert drawn(ada, context) == expected
        assert lineage.messages(context).count() == next(n for key, _, n, _ in expected if key == context.pk)
    for context in (fourth, second, third, talk):
        move_to_cold_storage(put_away(context).pk)
    assert drawn(ada, talk) == expected, "also in cold storage"
    assert texts(restored(Context.objects.get(pk=talk.pk)), "two") == ["two", "zwei"]


def test_chosen_leaf_is_kept_for_its_owner(ada, bob, echo, talk, edit, said):
    second = edit(talk, "two", "zwei")
    elsewhere = accept.accept(ada.principal, echo, said()).context
    assert tree(ada.principal, talk.pk).chosen is None
    save_chosen_leaf(ada.principal, second)
    assert tree(ada.principal, talk.pk).chosen == second.pk
    choose_leaf(ada.principal, second.pk, talk.pk)
    assert tree(ada.principal, second.pk).chosen == talk.pk
    assert ChosenLeaf.objects.count() == 1
    choose_leaf(ada.principal, talk.pk, second.pk)
    deletion.delete_session(ada.principal, second.pk)
    assert tree(ada.principal, talk.pk).chosen is None
    for leaf in (second.pk, elsewhere):
        with pytest.raises(InvalidParams, match="no such session"):
            choose_leaf(ada.principal, talk.pk, leaf)
    with pytest.raises(ContextNotFound):
        choose_leaf(bob.principal, talk.pk, talk.pk)
    with pytest.raises(ContextNotFound):
        tree(bob.principal, talk.pk)
