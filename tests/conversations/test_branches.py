"""The tree of a conversation's forks, those that begin at the same place, and the leaf that each person is at."""

import pytest

from agentkit import Completed
from apps.conversations import clearing, intake, lineage
from apps.conversations.archives.cooling import cool
from apps.conversations.archives.warming import warm
from apps.conversations.branches import choose, choose_leaf, siblings, tree
from apps.conversations.errors import ContextNotFound, InvalidParams
from apps.conversations.forking import fork
from apps.conversations.models import ChosenLeaf, Context, Message
from tests.conversations.archiving import put_away
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def say(ada, echo, said):
    """Says something in a conversation, which is answered."""

    def say(text, context):
        sent = intake.accept(ada.principal, echo, said(text, contextId=context.context_id if context else "talk"))
        end(begin(sent.run), Completed(f"to {text}"))
        return Context.objects.get(pk=sent.context)

    return say


@pytest.fixture
def talk(say):
    return say("two", say("one", None))


@pytest.fixture
def edit(ada, say):
    """Says something else in the place of what was said."""

    def edit(context, old, new):
        index = place(context, old)
        return say(new, fork(ada.principal, context, index - 1, reason="edit"))

    return edit


def place(context, text):
    return next(row.index for row in lineage.messages(context) if row.parts[0]["text"] == text)


def texts(context, text):
    return [one.message.parts[0]["text"] for one in siblings(context, place(context, text))]


def clear(ada, echo, context):
    clearing.clear(ada.principal, echo, context.context_id)


def test_what_was_said_instead_is_a_sibling_wherever_one_looks_from(talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(second, "zwei", "deux")
    assert texts(talk, "two") == texts(second, "zwei") == texts(third, "deux") == ["two", "zwei", "deux"]
    assert [one.context for one in siblings(third, place(third, "deux"))] == [talk, second, third]
    assert texts(talk, "one") == texts(third, "one") == ["one"]


def test_the_first_message_has_siblings_too(talk, edit):
    second = edit(talk, "one", "eins")
    third = edit(second, "eins", "un")
    assert texts(talk, "one") == texts(third, "un") == ["one", "eins", "un"]


def test_an_edit_of_the_shared_past_is_a_sibling_of_it_in_every_fork(talk, edit, say):
    second = edit(say("three", talk), "three", "drei")
    third = edit(second, "two", "zwei")
    assert texts(talk, "two") == texts(second, "two") == texts(third, "zwei") == ["two", "zwei"]


def test_what_a_fork_began_with_has_the_same_siblings_in_the_forks_of_that(talk, edit, say):
    second = say("three", edit(talk, "two", "zwei"))
    third = edit(second, "three", "drei")
    fourth = edit(third, "zwei", "deux")
    assert fourth.forked_at == second.forked_at
    assert texts(third, "zwei") == texts(fourth, "deux") == ["two", "zwei", "deux"]
    assert texts(talk, "two") == ["two", "zwei", "deux"]


def test_a_fork_in_which_nothing_was_said_yet_is_no_sibling(ada, talk, say):
    child = fork(ada.principal, talk, place(talk, "two") - 1, reason="fork")
    assert texts(talk, "two") == ["two"]
    say("zwei", child)
    assert texts(talk, "two") == ["two", "zwei"]


def test_siblings_that_were_cleared_are_gone(ada, echo, talk, edit):
    second, third = edit(talk, "two", "zwei"), edit(talk, "two", "deux")
    clear(ada, echo, second)
    assert texts(talk, "two") == ["two", "deux"]
    clear(ada, echo, talk)
    assert texts(third, "deux") == ["deux"]
    assert texts(edit(third, "deux", "dos"), "dos") == ["deux", "dos"]
    assert texts(edit(third, "one", "uno"), "uno") == ["one", "uno"]


@pytest.mark.parametrize("index", [0, -1, 1000])
def test_a_place_that_there_is_not_has_no_siblings(talk, index):
    with pytest.raises(InvalidParams, match="There is no event"):
        siblings(talk, index)


def drawn(ada, context):
    return [
        (node.context.pk, node.context.parent_id, node.messages, node.is_gap)
        for node in tree(ada.principal, context.pk).nodes
    ]


def test_the_tree_is_the_same_from_everywhere_in_it(ada, talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(talk, "one", "eins")
    fourth = edit(second, "to zwei", "?")
    expected = [
        (talk.pk, None, 4, False),
        (second.pk, talk.pk, 4, False),
        (fourth.pk, second.pk, 5, False),
        (third.pk, talk.pk, 2, False),
    ]
    for context in (talk, second, third, fourth):
        assert drawn(ada, context) == expected
        assert lineage.messages(context).count() == next(n for key, _, n, _ in expected if key == context.pk)


def test_what_was_cleared_is_a_gap_as_long_as_something_goes_on_from_it(ada, echo, talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(second, "to zwei", "?")
    clear(ada, echo, second)
    clear(ada, echo, talk)
    assert [(key, n, gap) for key, _, n, gap in drawn(ada, third)] == [
        (talk.pk, 0, True),
        (second.pk, 0, True),
        (third.pk, 5, False),
    ]
    other = edit(third, "one", "eins")
    assert {key for key, *_ in drawn(ada, other)} == {talk.pk, second.pk, third.pk, other.pk}
    clear(ada, echo, third)
    assert drawn(ada, other)[-1][0] == other.pk
    with pytest.raises(ContextNotFound):
        tree(ada.principal, third.pk)


def test_a_tree_takes_four_queries_however_large(ada, talk, edit, django_assert_num_queries):
    for context in (talk, edit(talk, "two", "zwei")):
        with django_assert_num_queries(4):
            [node.context.agent.slug for node in tree(ada.principal, context.pk).nodes]
        for number in range(5):
            edit(context, "one", f"one {number}")
    with django_assert_num_queries(4):
        assert len(tree(ada.principal, talk.pk).nodes) == 12


def test_a_long_chain_of_forks_is_a_tree_too(ada, talk):
    last = talk
    for _ in range(30):
        last = fork(ada.principal, last, last.last_event, reason="fork")
    nodes = tree(ada.principal, talk.pk).nodes
    assert [node.messages for node in nodes] == [4] * 31
    assert nodes[-1].context == last


def test_somebody_elses_tree_is_not_found(bob, talk):
    with pytest.raises(ContextNotFound):
        tree(bob.principal, talk.pk)


def test_the_leaf_that_was_chosen_is_kept_for_each_tree(ada, bob, echo, talk, edit):
    second = edit(talk, "two", "zwei")
    assert tree(ada.principal, talk.pk).chosen is None
    choose(ada.principal, second)
    assert tree(ada.principal, talk.pk).chosen == second.pk
    choose_leaf(ada.principal, second.pk, talk.pk)
    assert tree(ada.principal, second.pk).chosen == talk.pk
    assert ChosenLeaf.objects.count() == 1
    choose_leaf(ada.principal, talk.pk, second.pk)
    clear(ada, echo, second)
    assert tree(ada.principal, talk.pk).chosen is None
    with pytest.raises(InvalidParams, match="no such session"):
        choose_leaf(ada.principal, talk.pk, second.pk)
    with pytest.raises(ContextNotFound):
        choose_leaf(bob.principal, talk.pk, talk.pk)


def test_a_leaf_of_another_tree_is_refused(ada, talk, edit, echo, said):
    elsewhere = intake.accept(ada.principal, echo, said()).context
    with pytest.raises(InvalidParams, match="no such session"):
        choose_leaf(ada.principal, talk.pk, elsewhere)
    assert Message.objects.filter(context=elsewhere).count() == 1


def test_what_is_in_cold_storage_is_counted_and_comes_back_as_a_sibling(ada, talk, edit):
    second = edit(talk, "two", "zwei")
    for context in (second, talk):
        cool(put_away(context).pk)
    assert [node.messages for node in tree(ada.principal, talk.pk).nodes] == [4, 4]
    assert texts(warm(Context.objects.get(pk=talk.pk)), "two") == ["two", "zwei"]
    assert [node.messages for node in tree(ada.principal, talk.pk).nodes] == [4, 4]
