"""At which messages ways part, which of them a conversation took, and whither the others lead."""

import pytest

from agentkit import Completed
from apps.conversations import clearing, feedback, intake, lineage, partings
from apps.conversations.forking import fork
from apps.conversations.models import Context, Message
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
    return say("three", say("two", say("one", None)))


@pytest.fixture
def edit(ada, say):
    """Says something else in the place of what was said."""

    def edit(context, old, new):
        return say(new, fork(ada.principal, context, place(context, old) - 1, reason="edit"))

    return edit


def place(context, words):
    return next(one.index for one in lineage.messages(context) if one.parts == [{"text": words}])


def ways(context):
    """What is said at each parting, and which of the sessions it leads to has what one reads."""
    texts = {one.index: one.parts[0]["text"] for one in lineage.messages(context)}
    found = partings.of(context)
    assert all(one.ways[one.place - 1].opening == one.index for one in found)
    return {texts[one.index]: (one.place, [way.session for way in one.ways]) for one in found}


def test_a_conversation_that_was_never_forked_has_none(talk, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert partings.of(talk) == []


def test_both_sides_know_the_place_and_each_its_own_way(talk, edit):
    other, third = edit(talk, "two", "zwei"), edit(talk, "two", "deux")
    everybody = [talk.pk, other.pk, third.pk]
    assert ways(talk) == {"two": (1, everybody)}
    assert ways(other) == {"zwei": (2, everybody)}
    assert ways(third) == {"deux": (3, everybody)}


def test_an_edit_of_an_edit_stands_beside_both(talk, edit):
    other = edit(talk, "two", "zwei")
    again = edit(other, "zwei", "deux")
    assert ways(again) == {"deux": (3, [talk.pk, other.pk, again.pk])}


def test_a_way_has_partings_of_its_own_further_on(talk, edit):
    early = edit(talk, "two", "zwei")
    late = edit(talk, "three", "drei")
    assert ways(talk) == {"two": (1, [talk.pk, early.pk]), "three": (1, [talk.pk, late.pk])}
    assert ways(late) == {"two": (1, [talk.pk, early.pk]), "drei": (2, [talk.pk, late.pk])}
    assert ways(early) == {"zwei": (2, [talk.pk, early.pk])}, "what lies beyond the parting is another's"


def test_the_first_message_of_all_may_be_another(talk, edit):
    other = edit(talk, "one", "eins")
    third = edit(other, "eins", "un")
    everybody = [talk.pk, other.pk, third.pk]
    assert (ways(talk), ways(third)) == ({"one": (1, everybody)}, {"un": (3, everybody)})


def test_a_fork_counts_from_when_something_is_said_in_it(ada, talk, say):
    child = fork(ada.principal, talk, place(talk, "to one"), reason="fork")
    assert ways(talk) == {}
    assert ways(child) == {}
    say("something else", child)
    assert ways(talk) == {"two": (1, [talk.pk, child.pk])}
    assert ways(Context.objects.get(pk=child.pk)) == {"something else": (2, [talk.pk, child.pk])}


def test_forks_at_the_end_are_no_parting_until_both_go_on(ada, talk, say):
    child = say("four in a fork", fork(ada.principal, talk, talk.last_event, reason="fork"))
    assert (ways(talk), ways(child)) == ({}, {})
    talk = say("four", talk)
    assert ways(talk) == {"four": (1, [talk.pk, child.pk])}
    assert ways(child) == {"four in a fork": (2, [talk.pk, child.pk])}


def test_what_is_recorded_between_two_messages_makes_no_second_place(ada, echo, talk, say):
    task = Message.objects.filter(parts=[{"text": "to three"}]).get().task_id
    after = fork(ada.principal, talk, place(talk, "to three"), reason="fork")
    feedback.give(ada.principal, echo, str(task), feedback.read("5", ""))
    talk = say("four", talk)
    before = fork(ada.principal, talk, place(talk, "four") - 1, reason="edit")
    after, before = say("after the answer", after), say("before the next", before)
    everybody = [talk.pk, after.pk, before.pk]
    assert ways(talk) == {"four": (1, everybody)}
    assert ways(after) == {"after the answer": (2, everybody)}
    assert ways(before) == {"before the next": (3, everybody)}


def test_what_was_deleted_leads_nowhere(ada, talk, edit):
    other = edit(talk, "two", "zwei")
    third = edit(talk, "two", "deux")
    clearing.clear_session(ada.principal, other.pk)
    assert ways(talk) == {"two": (1, [talk.pk, third.pk])}
    clearing.clear_session(ada.principal, third.pk)
    assert ways(talk) == {}


def test_many_forks_cost_no_more_queries(talk, edit, django_assert_num_queries):
    for number in range(2):
        last = edit(talk, "two", f"other {number}")
        with django_assert_num_queries(4):
            partings.of(talk)
        with django_assert_num_queries(4):
            partings.of(last)


def test_the_whole_of_a_family_agrees(talk, edit):
    second = edit(talk, "two", "zwei")
    third = edit(second, "one", "uno")
    fourth = edit(edit(talk, "three", "drei"), "two", "deux")
    assert ways(fourth) == {"one": (1, [talk.pk, third.pk]), "deux": (3, [talk.pk, second.pk, fourth.pk])}
    assert ways(third) == {"uno": (2, [talk.pk, third.pk])}
