"""The sidebar as the server renders it."""

import re
import uuid

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.features.forks import branches, forking
from apps.features.sessions import commands, deletion, families, marks
from apps.record.models import Context
from apps.web.shell import RECENT_SESSIONS
from tests.web import telling


def listed(browser, query=""):
    """Keys in order, with whether they are new."""
    page = browser.get(f"/sidebar{query}").text
    rows = re.findall(r'<li data-key="([0-9a-f-]+)"(.*?)</li>', page, re.DOTALL)
    return {key: 'class="unread"' in rest for key, rest in rows}


def heads(browser):
    return re.findall(r"<h2>(.*?)</h2>", browser.get("/sidebar").text)


def marked(user, receipt, **what):
    return marks.update_mark(user.principal, receipt.context, **what)


def test_what_is_pinned_comes_first_whatever_its_day(ada, ada_browser, echo):
    old, new = telling.begun(ada, echo, "old"), telling.begun(ada, echo, "new")
    Context.objects.filter(pk=old.context).update(updated_at=timezone.now() - timezone.timedelta(days=400))
    assert list(listed(ada_browser)) == [str(new.context), str(old.context)]
    marked(ada, old, pinned=True)
    assert list(listed(ada_browser)) == [str(old.context), str(new.context)]
    assert heads(ada_browser) == ["Pinned", "Today"]
    page = ada_browser.get("/").text
    assert page.index(f"session-{old.context}") < page.index(f"session-{new.context}")


def test_what_an_agent_said_is_new_until_it_was_seen(ada, ada_browser, echo):
    receipt = telling.finished(ada, echo)
    key = str(receipt.context)
    assert listed(ada_browser) == {key: True}
    marked(ada, receipt, seen=Context.objects.get(pk=key).last_event)
    assert listed(ada_browser) == {key: False}
    asked = telling.asked(ada, echo, {"name": "format", "schema": telling.FORMAT})
    assert listed(ada_browser) == {str(asked.context): True, key: False}


def test_what_was_put_away_is_listed_apart(ada, ada_browser, echo):
    receipt = telling.begun(ada, echo, "put away")
    marked(ada, receipt, pinned=True)
    commands.archive_session(ada.principal, receipt.context)
    assert listed(ada_browser) == {}
    assert "put away" not in ada_browser.get("/").text
    assert "put away" in ada_browser.get("/?show=archived").text
    assert "data-archived" in ada_browser.get("/?show=archived&part=list").text
    commands.unarchive_session(ada.principal, receipt.context)
    assert list(listed(ada_browser)) == [str(receipt.context)]


def test_the_count_of_what_waits_is_that_of_ones_own_listed_sessions(ada, bob, ada_browser, echo):
    def waiting():
        return re.search(r'data-waiting="(\d+)"', ada_browser.get("/sidebar").text)[1]

    slot = {"name": "format", "schema": telling.FORMAT}
    telling.asked(bob, echo, slot)
    assert waiting() == "0"
    first, _ = telling.asked(ada, echo, slot), telling.asked(ada, echo, slot)
    assert waiting() == "2"
    commands.archive_session(ada.principal, first.context)
    assert waiting() == "1"


def test_older_ones_are_a_click_away_and_any_number_is_taken(ada, ada_browser, echo):
    for number in range(RECENT_SESSIONS + 2):
        telling.begun(ada, echo, f"number {number}")
    assert len(listed(ada_browser)) == RECENT_SESSIONS
    assert len(listed(ada_browser, f"?listed={2 * RECENT_SESSIONS}")) == RECENT_SESSIONS + 2
    for odd in ("-1", "0", "many", "9" * 30):
        assert ada_browser.get(f"/sidebar?listed={odd}").status_code == 200


def test_the_list_costs_the_same_however_long(ada, ada_browser, echo, django_assert_num_queries):
    ada_browser.get("/sidebar")
    with django_assert_num_queries(7):
        ada_browser.get("/sidebar")
    marked(ada, telling.finished(ada, echo), pinned=True)
    with django_assert_num_queries(8):
        ada_browser.get("/sidebar")
    for number in range(12):
        receipt = telling.finished(ada, echo)
        marked(ada, receipt, pinned=number % 2 == 0, seen=number)
    with django_assert_num_queries(8):
        ada_browser.get("/sidebar")


def test_titles_are_text_and_nobody_reads_them_without_signing_in(client, ada, ada_browser, bob_browser, echo):
    telling.begun(ada, echo, "<img src=x onerror=alert(1)>\"'")
    for path in ("/sidebar", "/", "/?part=list"):
        assert "<img src=x" not in ada_browser.get(path).text
        assert "&lt;img src=x" in ada_browser.get(path).text
        assert "img src=x" not in bob_browser.get(path).text
    for path in ("/sidebar", "/find"):
        assert client.get(path)["Location"].startswith("/sign-in")


def test_agents_to_write_to_are_found_and_those_of_late_come_first(ada: User, ada_browser, echo, report, hello):
    def found(words=""):
        return re.findall(r'id="agent-(\w+)"', ada_browser.get("/find", {"q": words}).text)

    assert found() == ["echo", "hello", "report"]
    telling.begun(ada, report)
    assert found()[0] == "report"
    assert found("csv table")[0] == "report"
    assert found("zzzz") == []
    assert ada_browser.get("/find?q=%00").status_code == 200


@pytest.fixture
def family(ada, echo):
    """A session, an edit of it, and a fork of the edit; the newest first."""
    first = Context.objects.get(pk=telling.finished(ada, echo).context)
    commands.rename_session(ada.principal, first.pk, "The family")
    edited = forking.fork(ada.principal, first, 0, reason="edit")
    fork = forking.fork(ada.principal, edited, edited.last_event, reason="fork")
    return [fork, edited, first]


def rows(browser, address="/sidebar"):
    """Titles, the session that each opens, and the number of branches."""
    row = r'<li data-key="([0-9a-f-]+)".*?data-branches="(\d+)".*?data-session="([0-9a-f-]+)"'
    page = browser.get(address).text
    found = re.findall(row, page.partition('id="sessions"')[2] or page, re.DOTALL)
    return [(uuid.UUID(key), uuid.UUID(opens), int(count)) for key, count, opens in found]


def test_a_family_is_one_row_that_opens_its_newest_branch(family, ada, echo, ada_browser):
    fork, edited, first = family
    other = telling.begun(ada, echo, "another").context
    for address in ("/sidebar", "/", "/?show=all"):
        assert rows(ada_browser, address) == [(other, other, 1), (first.pk, fork.pk, 3)]
    assert ">The family<" in ada_browser.get("/sidebar").text
    commands.rename_session(ada.principal, edited.pk, "now the newest")
    assert rows(ada_browser)[0] == (first.pk, edited.pk, 3)


def test_of_branches_of_one_moment_the_first_opens(family, ada_browser):
    *_, first = family
    Context.objects.update(updated_at=first.updated_at)
    assert rows(ada_browser) == [(first.pk, first.pk, 3)]


def test_a_row_opens_the_branch_chosen_since(family, ada, ada_browser):
    fork, edited, first = family
    branches.choose_leaf(ada.principal, fork.pk, edited.pk)
    assert rows(ada_browser) == [(first.pk, edited.pk, 3)]
    deletion.delete_session(ada.principal, edited.pk)
    assert rows(ada_browser) == [(first.pk, fork.pk, 2)]


def test_a_family_outlives_its_first_session(family, ada, ada_browser):
    fork, edited, first = family
    deletion.delete_session(ada.principal, first.pk)
    assert rows(ada_browser) == [(edited.pk, fork.pk, 2)]


def test_a_pin_or_a_question_in_any_branch_shows_in_the_row(family, ada, echo, ada_browser):
    fork, edited, _ = family
    marks.update_mark(ada.principal, edited.pk, pinned=True)
    assert heads(ada_browser) == ["Pinned"]
    marks.unpin_family(ada.principal, fork.pk)
    assert heads(ada_browser) == ["Today"]
    assert "sign-waiting" not in ada_browser.get("/sidebar").text
    telling.asked(ada, echo, {"name": "format", "schema": telling.FORMAT}, contextId=edited.context_id)
    commands.rename_session(ada.principal, fork.pk, "newer than the question")
    assert "sign-waiting" in ada_browser.get("/sidebar").text


def test_a_family_is_archived_when_all_its_branches_are(family, ada, ada_browser):
    fork, edited, first = family
    commands.archive_session(ada.principal, fork.pk)
    assert rows(ada_browser) == [(first.pk, edited.pk, 3)]
    families.each(ada.principal, edited.pk, commands.archive_session)
    assert rows(ada_browser) == []
    assert [row[::2] for row in rows(ada_browser, "/?show=archived")] == [(first.pk, 3)]


def test_finished_sessions_have_no_sign(ada, echo, ada_browser):
    telling.finished(ada, echo)
    assert "sign-done" not in ada_browser.get("/sidebar").text
