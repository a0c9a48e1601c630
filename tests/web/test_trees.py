"""The tree of a session's forks, as data, picture and table."""

from xml.etree import ElementTree

import pytest

from apps.engine.cancel import cancel_task
from apps.features.archive.archiving import move_to_cold_storage
from apps.features.forks.forking import fork
from apps.features.sessions import deletion
from apps.record.models import Context, Task
from apps.web.sessions.views import page_state
from tests.record.archiving import put_away
from tests.web import telling


@pytest.fixture
def talk(ada, echo):
    receipt = telling.finished(ada, echo)
    context = Context.objects.get(pk=receipt.context)
    telling.begun(ada, echo, "and more", contextId=context.context_id)
    return Context.objects.get(pk=receipt.context)


@pytest.fixture
def branch(ada, echo, talk):
    """A fork before the second message."""

    def branch(words="something else", title=""):
        place = next(one.index for one in talk.messages.order_by("-index") if one.role == "user")
        child = fork(ada.principal, talk, place - 1, reason="edit")
        telling.begun(ada, echo, words, contextId=child.context_id)
        if title:
            Context.objects.filter(pk=child.pk).update(title=title)
        return Context.objects.get(pk=child.pk)

    return branch


def picture(browser, context):
    page = browser.get(f"/sessions/{context.pk}/tree").text
    found = page[page.index('<svg class="tree"') :]
    return ElementTree.fromstring(found[: found.index("</svg>") + 6].replace("&nbsp;", " "))


def test_a_page_knows_where_ways_part(talk, branch, ada_browser):
    assert page_state(talk.owner.principal, talk)["branches"] == {}
    child = branch()
    [[index, here]] = page_state(talk.owner.principal, talk)["branches"].items()
    assert talk.messages.get(index=int(index)).parts == [{"text": "and more"}]
    opening = child.messages.get().index
    ways = [f"/sessions/{talk.pk}#m-{index}", f"/sessions/{child.pk}#m-{opening}"]
    assert here == {"place": 1, "ways": ways}
    assert ada_browser.get(f"/sessions/{child.pk}/ways").json() == {str(opening): {"place": 2, "ways": ways}}


def test_the_ways_of_a_session_in_cold_storage_are_still_known(talk, branch, ada_browser):
    child = branch()
    ways = ada_browser.get(f"/sessions/{talk.pk}/ways").json()
    for task in Task.objects.filter(state="submitted"):
        cancel_task(task)
    for context in (child, talk):
        move_to_cold_storage(put_away(context).pk)
    assert ada_browser.get(f"/sessions/{talk.pk}/ways").json() == ways != {}


def test_the_picture_names_every_session_and_the_table_too(talk, branch, ada_browser):
    children = [branch(), branch()]
    svg = picture(ada_browser, talk)
    links = svg.findall(".//a")
    assert [link.get("href") for link in links] == [f"/sessions/{one.pk}" for one in (talk, *children)]
    assert [link.get("aria-current") for link in links] == ["page", None, None]
    assert len(svg.findall("path")) == 2
    assert all("Edited message · Echo · " in "".join(link.itertext()) for link in links[1:])
    assert "You are here · Original" in "".join(links[0].itertext())
    branch(title="The other way")
    page = ada_browser.get(f"/sessions/{talk.pk}/tree", headers={"HX-Request": "true"}).text
    assert "<html" not in page
    table = page[page.index("<table") :]
    assert "The other way" in table
    assert "Edited message" in table
    assert "Waiting to start" in table


def test_titles_with_markup_are_text(talk, branch, ada_browser):
    branch(title='</text><script>alert(1)</script><a xlink:href="javascript:alert(1)">')
    svg = picture(ada_browser, talk)
    assert svg.findall(".//script") == []
    assert "<script>alert(1)</script>" in "".join(svg.itertext())


def test_what_was_deleted_is_a_gap_without_a_name(ada, talk, branch, ada_browser):
    middle = branch(title="Secret plans")
    child = fork(ada.principal, middle, middle.last_event, reason="fork")
    Context.objects.filter(pk=child.pk).update(title="What is left")
    deletion.delete_session(ada.principal, middle.pk)
    page = ada_browser.get(f"/sessions/{child.pk}/tree").text
    assert "Deleted session" in page
    assert "What is left" in page
    assert "Secret plans" not in page
    assert f'href="/sessions/{middle.pk}"' not in page


def test_thirty_forks_are_drawn_by_as_many_queries_as_two(talk, ada, ada_browser, branch, django_assert_num_queries):
    branch(), branch()
    with django_assert_num_queries(13) as few:
        assert len(picture(ada_browser, talk).findall(".//a")) == 3
    for number in range(28):
        fork(ada.principal, talk, number % talk.last_event, reason="fork")
    with django_assert_num_queries(len(few)):
        assert len(picture(ada_browser, talk).findall(".//a")) == 31
