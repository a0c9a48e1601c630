"""Searching by words: what is found, in which order, and by whom."""

from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync

from apps.accounts.principals import ANONYMOUS
from apps.optional.knowledge.finding import MAX_QUERY_LENGTH, Asking, search
from apps.optional.knowledge.models import AgentCollection, Collection
from apps.optional.knowledge.passages import Piece
from apps.record.errors import InvalidParams
from tests.knowledge.conftest import put
from tests.members import member

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("each database ranks words in its own way"),
]


def found(asking, query, limit=5):
    return [one.text for one in async_to_sync(search)(asking, query, limit)]


def test_any_word_finds_and_rare_words_count_more(ada, handbook):
    put(handbook, "leave.md", "The days of leave are thirty.", "The rules of the house.", "The parking of bicycles.")
    asked = Asking(ada.principal)
    assert found(asked, "How many days of leave are there?")[0] == "The days of leave are thirty."
    assert found(asked, "the bicycles")[0] == "The parking of bicycles."
    assert found(asked, "unicorn") == []


def test_heading_finds_its_passage(ada, handbook):
    put(handbook, "a.md", Piece("Thirty days a year.", "Staff › Vacation", 3), "Nothing of that kind.")
    [one] = async_to_sync(search)(Asking(ada.principal), "vacation")
    assert (one.title, one.heading, one.score) == ("a.md, page 3", "Staff › Vacation", 1.0)


def test_words_of_scripts_without_spaces(ada, handbook):
    put(handbook, "ja.md", "年次有給休暇は二十日です。", "駐車場は地下にあります。")
    assert found(Asking(ada.principal), "有給休暇") == ["年次有給休暇は二十日です。"]


def test_same_text_is_given_once(ada, handbook):
    for name in ("a.md", "b.md"):
        put(handbook, name, "Thirty days of leave.")
    assert found(Asking(ada.principal), "leave") == ["Thirty days of leave."]


@pytest.mark.parametrize("query", ["", " \n", "?!", "x" * (MAX_QUERY_LENGTH + 1)])
def test_query_without_words_is_refused(ada, handbook, query):
    with pytest.raises(InvalidParams):
        found(Asking(ada.principal), query)


def test_hostile_words_are_words(ada, handbook):
    put(handbook, "a.md", "Thirty days of leave.")
    for query in ("leave') | ('", 'leave" OR "', "leave & ! <-> :*", "leave\x00", "@" + handbook.pk.hex + " leave"):
        assert found(Asking(ada.principal), query) == ["Thirty days of leave."]


def test_others_find_nothing(ada, bob, handbook):
    put(handbook, "a.md", "Thirty days of leave.")
    assert found(Asking(bob.principal), "leave") == []
    assert found(Asking(ANONYMOUS), "leave") == []
    assert found(Asking(bob.principal, collections=(handbook.pk,)), "leave") == []
    Collection.objects.update(is_shared=True)
    assert found(Asking(member(bob, ada)), "leave") == ["Thirty days of leave."]


def test_agent_searches_what_it_was_given(ada, bob, handbook, helper):
    put(handbook, "a.md", "Thirty days of leave.")
    asking = Asking(ada.principal, agent=helper.pk)
    assert found(asking, "leave") == []
    given = AgentCollection.objects.create(agent=helper, collection=handbook)
    assert found(asking, "leave") == ["Thirty days of leave."]
    assert found(replace(asking, principal=bob.principal), "leave") == []
    given.is_for_callers = True
    given.save()
    assert found(replace(asking, principal=bob.principal), "leave") == ["Thirty days of leave."]
    assert found(replace(asking, principal=ANONYMOUS), "leave") == ["Thirty days of leave."]
    assert found(Asking(bob.principal), "leave") == []


def test_key_of_other_agents_finds_nothing(ada, handbook, helper, countdown):
    put(handbook, "a.md", "Thirty days of leave.")
    AgentCollection.objects.create(agent=helper, collection=handbook)
    narrow = replace(ada.principal, agents=frozenset({countdown.slug}))
    assert found(Asking(narrow), "leave") == []
    assert found(Asking(replace(narrow, agents=frozenset({helper.slug}))), "leave") == ["Thirty days of leave."]


def test_chosen_collections_narrow_the_search(ada, handbook):
    other = Collection.objects.create(owner=ada, workspace=ada.personal_workspace, name="Other")
    put(handbook, "a.md", "Thirty days of leave.")
    put(other, "a.md", "Leave the house by six.")
    assert len(found(Asking(ada.principal), "leave")) == 2
    assert found(Asking(ada.principal, collections=(other.pk,)), "leave") == ["Leave the house by six."]
