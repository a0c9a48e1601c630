"""A session's page is complete before any script runs."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from django.test import Client

from apps.engine import accept
from apps.features.forks.forking import fork
from apps.record.models import Context, Task
from apps.web.sessions.status import session_status, status_html
from tests.web.test_inbox import ask

pytestmark = pytest.mark.django_db(transaction=True)

STOP_IS_HIDDEN = 'class="stop" hidden'
SEND_NOW_IS_HIDDEN = 'Enter)" hidden'


def opened(browser: Client, session) -> str:
    return browser.get(f"/sessions/{session}").content.decode()


def test_a_page_begins_as_its_session_stands(ada_browser, ada, report, said, finished):
    page = opened(ada_browser, finished.context)
    assert STOP_IS_HIDDEN in page
    assert SEND_NOW_IS_HIDDEN in page
    asked = ask(ada, report)
    page = opened(ada_browser, asked.context)
    assert '<span class="word">Waiting for you</span>' in page
    assert f'placeholder="Answer {report.name}…"' in page
    assert STOP_IS_HIDDEN not in page
    assert SEND_NOW_IS_HIDDEN in page
    Task.objects.filter(pk=asked.task).update(state="auth-required", slot={"name": "key", "service": "the mail"})
    assert session_status(session_of(asked)).is_closed
    page = opened(ada_browser, accept.accept(ada.principal, report, said("first")).context)
    assert '<span class="word">Working</span>' in page
    assert STOP_IS_HIDDEN not in page
    assert SEND_NOW_IS_HIDDEN not in page


def test_each_root_of_the_status_has_a_first_class_that_is_unique_in_the_page(ada_browser, finished):
    status, page = Classes(status_html(session_of(finished))), Classes(opened(ada_browser, finished.context))
    assert status.roots
    assert [page.classes.count(name) for name in status.roots] == [1] * len(status.roots)


class Classes(HTMLParser):
    """All classes of a document in their order, and the first one of each root (Django's parser sorts them)."""

    VOID = {"input", "img", "br", "hr", "link", "meta", "path", "source", "use"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.depth, self.roots, self.classes = 0, [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        names = (dict(attrs).get("class") or "").split()
        self.classes += names
        if not self.depth:
            self.roots.append(names[0] if names else "")
        self.depth += tag not in self.VOID

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.depth -= tag not in self.VOID

    def handle_endtag(self, tag):
        self.depth -= tag not in self.VOID


def session_of(receipt) -> Context:
    return Context.objects.select_related("agent").get(pk=receipt.context)


def test_what_a_fork_left_behind_is_not_worked_at_in_it(ada, report, said, django_assert_num_queries):
    begun = session_of(accept.accept(ada.principal, report, said("first")))
    forked = fork(ada.principal, begun, begun.last_event, reason="fork")
    with django_assert_num_queries(1):
        assert session_status(begun).sign == "working"
    forked = Context.objects.select_related("agent").get(pk=forked.pk)
    with django_assert_num_queries(2):
        assert session_status(forked).sign == ""
    asked = session_of(ask(ada, report))
    with django_assert_num_queries(2):
        assert session_status(asked).sign == "waiting"
