"""The tree of forks, branch points, and each person's current leaf."""

import pytest

from agentkit import Completed
from apps.engine import accept
from apps.features.archive.archiving import move_to_cold_storage
from apps.features.forks import branches
from apps.features.forks.branches import choose_leaf, save_chosen_leaf, siblings, tree
from apps.features.forks.forking import fork
from apps.features.forks.models import ChosenLeaf
from apps.features.sessions import commands, deletion
from apps.record import lineage
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.lookup import restored
from apps.record.models import Context, Message
from tests.record.archiving import put_away
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


def test_what_was_said_instead_is_known_wherever_one_looks_from(talk, edit):
    second, third = edit(talk, "two", "zwei"), edit(talk, "two", "deux")
    fourth = edit(second, "zwei", "dos")
    family = {"two": talk, "zwei": second, "deux": third, "dos": fourth}
    for number, (text, context) in enumerate(family.items(), start=1):
        assert texts(context, text) == list(family)
        found = siblings(context.owner.principal, context, place(context, text))
        assert [one.context for one in found] == list(family.values())
        assert ways(context) == {text: (number, [one.pk for one in family.values()])}
        assert texts(context, "one") == ["one"]


def test_the_first_message_may_be_another_too(talk, edit):
    second = edit(talk, "one", "eins")
    third = edit(second, "eins", "un")
    assert texts(talk, "one") == texts(third, "un") == ["one", "eins", "un"]
    everybody = [talk.pk, second.pk, third.pk]
    assert (ways(talk), ways(third)) == ({"one": (1, everybody)}, {"un": (3, everybody)})


def test_an_edit_of_the_shared_past_is_known_in_every_fork_and_what_lies_beyond_it_is_not(talk, edit):
    late = edit(talk, "three", "drei")
    early = edit(late, "two", "zwei")
    assert texts(talk, "two") == texts(late, "two") == texts(early, "zwei") == ["two", "zwei"]
    assert ways(talk) == {"two": (1, [talk.pk, early.pk]), "three": (1, [talk.pk, late.pk])}
    assert ways(late) == {"two": (1, [talk.pk, early.pk]), "drei": (2, [talk.pk, late.pk])}
    assert ways(early) == {"zwei": (2, [talk.pk, early.pk])}


def test_what_a_fork_began_with_has_the_same_siblings_in_the_forks_of_that(talk, edit, say):
    second = say("vier", edit(talk, "two", "zwei"))
    third = edit(second, "vier", "quatre")
    fourth = edit(third, "zwei", "deux")
    assert fourth.forked_at == second.forked_at
    assert texts(third, "zwei") == texts(fourth, "deux") == ["two", "zwei", "deux"]
    assert texts(talk, "two") == ["two", "zwei", "deux"]


def test_a_family_of_edits_of_edits_agrees(talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(second, "one", "uno")
    fourth = edit(edit(talk, "three", "drei"), "two", "deux")
    assert ways(fourth) == {"one": (1, [talk.pk, third.pk]), "deux": (3, [talk.pk, second.pk, fourth.pk])}
    assert ways(third) == {"uno": (2, [talk.pk, third.pk])}


def test_a_fork_counts_from_when_something_is_said_in_it(ada, talk, say):
    child = fork(ada.principal, talk, place_before(talk, "two"), reason="fork")
    assert (texts(talk, "two"), ways(talk), ways(child)) == (["two"], {}, {})
    child = say("zwei", child)
    assert texts(talk, "two") == ["two", "zwei"]
    assert ways(talk) == {"two": (1, [talk.pk, child.pk])}
    assert ways(child) == {"zwei": (2, [talk.pk, child.pk])}


def test_forks_at_the_end_are_no_parting_until_both_go_on(ada, talk, say):
    child = say("four in a fork", fork(ada.principal, talk, talk.last_event, reason="fork"))
    assert (ways(talk), ways(child)) == ({}, {})
    talk = say("four", talk)
    assert ways(talk) == {"four": (1, [talk.pk, child.pk])}
    assert ways(child) == {"four in a fork": (2, [talk.pk, child.pk])}


def test_what_is_recorded_between_two_messages_makes_no_second_place(ada, echo, talk, say):
    task = Message.objects.filter(parts=[{"text": "to three"}]).get().task_id
    after = fork(ada.principal, talk, place(talk, "to three"), reason="fork")
    commands.give_feedback(ada.principal, echo, str(task), commands.parse_feedback("5", ""))
    talk = say("four", talk)
    before = fork(ada.principal, talk, place_before(talk, "four"), reason="edit")
    after, before = say("after the answer", after), say("before the next", before)
    everybody = [talk.pk, after.pk, before.pk]
    assert ways(talk) == {"four": (1, everybody)}
    assert ways(after) == {"after the answer": (2, everybody)}
    assert ways(before) == {"before the next": (3, everybody)}


def test_what_was_deleted_leads_nowhere(ada, talk, edit):
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


def test_a_place_that_there_is_not_has_no_siblings(talk):
    for index in (0, -1, 1000):
        with pytest.raises(InvalidParams, match="There is no event"):
            siblings(talk.owner.principal, talk, index)


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
        (talk.pk, None, 6, False),
        (second.pk, talk.pk, 4, False),
        (fourth.pk, second.pk, 5, False),
        (third.pk, talk.pk, 2, False),
    ]
    for context in (talk, second, third, fourth):
        assert drawn(ada, context) == expected
        assert lineage.messages(context).count() == next(n for key, _, n, _ in expected if key == context.pk)


def test_what_was_cleared_is_a_gap_as_long_as_something_goes_on_from_it(ada, talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(second, "to zwei", "?")
    for gone in (second, talk):
        deletion.delete_session(ada.principal, gone.pk)
    assert [(key, n, gap) for key, _, n, gap in drawn(ada, third)] == [
        (talk.pk, 0, True),
        (second.pk, 0, True),
        (third.pk, 5, False),
    ]
    other = edit(third, "one", "eins")
    assert {key for key, *_ in drawn(ada, other)} == {talk.pk, second.pk, third.pk, other.pk}
    deletion.delete_session(ada.principal, third.pk)
    assert drawn(ada, other)[-1][0] == other.pk
    with pytest.raises(ContextNotFound):
        tree(ada.principal, third.pk)


def test_a_tree_and_its_partings_take_four_queries_however_many_and_deep(ada, talk, edit, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert branches.branch_points(ada.principal, talk) == []
    for number in range(2):
        last = edit(talk, "two", f"other {number}")
        for context in (talk, last):
            with django_assert_num_queries(4):
                branches.branch_points(ada.principal, context)
            with django_assert_num_queries(4):
                [node.context.agent.slug for node in tree(ada.principal, context.pk).nodes]
    for _ in range(12):
        last = fork(ada.principal, last, last.last_event, reason="fork")
    with django_assert_num_queries(4):
        nodes = tree(ada.principal, talk.pk).nodes
    assert [node.messages for node in nodes] == [6, 4, *[4] * 13]
    assert nodes[-1].context == last


def test_the_leaf_that_was_chosen_is_kept_for_each_tree_by_its_owner(ada, bob, echo, talk, edit, said):
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


def test_what_is_in_cold_storage_is_counted_and_comes_back_as_a_sibling(ada, talk, edit):
    second = edit(talk, "two", "zwei")
    for context in (second, talk):
        move_to_cold_storage(put_away(context).pk)
    assert [node.messages for node in tree(ada.principal, talk.pk).nodes] == [6, 4]
    assert texts(restored(Context.objects.get(pk=talk.pk)), "two") == ["two", "zwei"]
    assert [node.messages for node in tree(ada.principal, talk.pk).nodes] == [6, 4]
