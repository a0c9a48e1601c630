"""Home, the sidebar, the list of tasks and error pages: what is listed for whom, in which order, at what cost."""

import datetime
import re
import uuid

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentkit import Completed, Failed
from apps.accounts.models import ApiKey
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.conversations.forks import branches, forking
from apps.conversations.pages import task_list
from apps.conversations.sessions import commands, deletion, marks
from apps.engine import accept
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save as save_project
from apps.record.models import Context, Task
from apps.routing.router import register_house_agents
from tests.clients import telling
from tests.working import begin, end

pytestmark = pytest.mark.django_db

SLOT = {"name": "format", "schema": telling.FORMAT}


class TestComposer:
    def chosen(self, browser, query=""):
        agent = browser.get(f"/{query}").context["agent"]
        return agent.slug if agent else None

    @pytest.fixture
    def house(self, db):
        register_house_agents()

    def test_last_used_agent_is_chosen_while_it_works(self, house, ada, ada_browser, bob_browser, echo, hello):
        assert self.chosen(ada_browser) == settings.DEFAULT_AGENT
        telling.begun(ada, hello)
        telling.begun(ada, echo)
        assert (self.chosen(ada_browser), self.chosen(bob_browser)) == ("echo", settings.DEFAULT_AGENT)
        Agent.objects.filter(slug="echo").update(health=Agent.Health.UNAVAILABLE)
        assert self.chosen(ada_browser) == "hello"
        Agent.objects.filter(slug="hello").update(is_enabled=False)
        assert self.chosen(ada_browser) == settings.DEFAULT_AGENT
        Agent.objects.filter(slug=settings.DEFAULT_AGENT).update(is_enabled=False)
        assert self.chosen(ada_browser) == settings.ROUTER_AGENT


class TestSidebar:
    def listed(self, browser, query=""):
        """Keys in order, with whether they are new."""
        rows = re.findall(r'<li data-key="([0-9a-f-]+)"(.*?)</li>', browser.get(f"/sidebar{query}").text, re.DOTALL)
        return {key: 'class="unread"' in rest for key, rest in rows}

    def heads(self, browser):
        return re.findall(r"<h2>(.*?)</h2>", browser.get("/sidebar").text)

    def test_pinned_sessions_come_first(self, ada, ada_browser, echo):
        old, new = telling.begun(ada, echo, "old"), telling.begun(ada, echo, "new")
        Context.objects.filter(pk=old.context).update(updated_at=timezone.now() - timezone.timedelta(days=400))
        assert list(self.listed(ada_browser)) == [str(new.context), str(old.context)]
        marks.update_mark(ada.principal, old.context, pinned=True)
        assert list(self.listed(ada_browser)) == [str(old.context), str(new.context)]
        assert self.heads(ada_browser) == ["Pinned", "Today"]

    def test_answers_are_new_until_seen(self, ada, ada_browser, echo):
        receipt = telling.finished(ada, echo)
        key = str(receipt.context)
        assert self.listed(ada_browser) == {key: True}
        marks.update_mark(ada.principal, receipt.context, seen=Context.objects.get(pk=key).last_event)
        assert self.listed(ada_browser) == {key: False}
        asked = telling.asked(ada, echo, SLOT)
        assert self.listed(ada_browser) == {str(asked.context): True, key: False}

    def test_archived_sessions_are_listed_apart(self, ada, bob, ada_browser, echo):
        def waiting():
            return re.search(r'data-waiting="(\d+)"', ada_browser.get("/sidebar").text)[1]

        telling.asked(bob, echo, SLOT)
        first, second = telling.asked(ada, echo, SLOT), telling.asked(ada, echo, SLOT)
        assert waiting() == "2"
        commands.archive_session(ada.principal, first.context)
        assert (waiting(), list(self.listed(ada_browser))) == ("1", [str(second.context)])
        for address, shown in (("/", False), ("/?show=archived", True), ("/?show=all", False)):
            assert (f"session-{first.context}" in ada_browser.get(address).text) is shown, address
        commands.unarchive_session(ada.principal, first.context)
        assert waiting() == "2"


class TestFamilies:
    @pytest.fixture
    def family(self, ada, echo):
        """A session, an edit of it, and a fork of the edit; the newest first."""
        first = Context.objects.get(pk=telling.finished(ada, echo).context)
        edited = forking.fork(ada.principal, first, 0, reason="edit")
        return [forking.fork(ada.principal, edited, edited.last_event, reason="fork"), edited, first]

    def rows(self, browser, address="/sidebar"):
        """Keys, the session that each opens, and the number of branches."""
        row = r'<li data-key="([0-9a-f-]+)".*?data-branches="(\d+)".*?data-session="([0-9a-f-]+)"'
        page = browser.get(address).text
        found = re.findall(row, page.partition('id="sessions"')[2] or page, re.DOTALL)
        return [(uuid.UUID(key), uuid.UUID(opens), int(count)) for key, count, opens in found]

    def test_family_is_a_row_that_opens_one_branch(self, family, ada, echo, ada_browser):
        fork, edited, first = family
        for address in ("/sidebar", "/", "/?show=all"):
            assert self.rows(ada_browser, address) == [(first.pk, fork.pk, 3)], "the newest"
        commands.rename_session(ada.principal, edited.pk, "now the newest")
        assert self.rows(ada_browser) == [(first.pk, edited.pk, 3)]
        branches.choose_leaf(ada.principal, edited.pk, fork.pk)
        assert self.rows(ada_browser) == [(first.pk, fork.pk, 3)], "which was chosen since"
        deletion.delete_session(ada.principal, fork.pk)
        assert self.rows(ada_browser) == [(first.pk, edited.pk, 2)]
        deletion.delete_session(ada.principal, first.pk)
        assert self.rows(ada_browser) == [(edited.pk, edited.pk, 1)], "it outlives its first session"


class TestTasks:
    @pytest.fixture
    def three(self, ada, echo, countdown, said):
        """A done, a failed and a waiting one, oldest first."""
        found = [accept.accept(ada.principal, echo, said("Feed the otters"))]
        end(begin(found[0].run), Completed("Done."))
        found.append(accept.accept(ada.principal, countdown, said("Count the geese")))
        end(begin(found[1].run), Failed("No."))
        found.append(accept.accept(ada.principal, echo, said("Wake the owls")))
        return [str(one.task) for one in found]

    def listed(self, browser, query=""):
        return [str(one.pk) for one in browser.get(f"/tasks{query}").context["tasks"]]

    def test_filters_combine(self, ada_browser, three):
        for query, found in (
            ("?state=failed", [1]),
            ("?agent=echo", [2, 0]),
            ("?days=7&state=done", [0]),
            ("?q=otters&agent=countdown", []),
            ("?state=nonsense&agent=nobody&days=x", [2, 1, 0]),
        ):
            assert self.listed(ada_browser, query) == [three[number] for number in found], query

    def test_own_tasks_are_listed_page_by_page(self, ada_browser, bob_browser, three, monkeypatch):
        assert self.listed(bob_browser) == []
        Task.objects.filter(pk=three[2]).update(status_at=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        assert self.listed(ada_browser, "?days=1") == three[1::-1]
        monkeypatch.setattr(task_list, "PAGE_SIZE", 2)
        older = ada_browser.get("/tasks").context["older"]
        assert self.listed(ada_browser) + self.listed(ada_browser, f"?{older}") == [three[1], three[0], three[2]]


def fill(user, agent, session, number):
    """More of all that pages list."""
    slot, talk = SLOT, Context.objects.get(pk=session)
    for one in range(number):
        telling.finished(user, agent, {f"{number}-{one}.txt": telling.text("a")}, contextId=str(session))
        marks.update_mark(user.principal, telling.finished(user, agent).context, pinned=True)
        telling.asked(user, agent, slot)
        forking.fork(user.principal, talk, talk.last_event, reason="fork")
        telling.finished(user, register_hosted(f"more-{number}-{one}", "examples.agents.echo:Echo"))
        ApiKey.issue(user, f"key {number} {one}")
        project = save_project(user.principal, Project(name=f"Project {number} {one}"))
        commands.move_session(user.principal, session, project.pk)


MOST_QUERIES = {
    "/": 18,
    "/sidebar": 10,
    "/find": 6,
    "/inbox/items": 20,
    "/agents": 17,
    "/tasks": 16,
    "/settings/keys": 13,
    "/projects": 12,
}
MOST_QUERIES |= {"/sessions/{}": 28, "/sessions/{}/files": 5, "/sessions/{}/as.md": 12, "/sessions/{}/tree": 16}


def test_pages_cost_the_same_whatever_is_in_them(ada, ada_browser, echo, finished):
    def queries(address):
        ada_browser.get(address.format(finished.context))  # what is read once
        with CaptureQueriesContext(connection) as asked:
            assert ada_browser.get(address.format(finished.context)).status_code == 200
        return len(asked)

    fill(ada, echo, finished.context, 2)
    few = {address: queries(address) for address in MOST_QUERIES}
    fill(ada, echo, finished.context, 8)
    assert {address: queries(address) for address in MOST_QUERIES} == few
    assert {address: asked for address, asked in few.items() if asked > MOST_QUERIES[address]} == {}


class TestErrors:
    def test_missing_and_broken_pages_show_no_internals(self, ada_browser, monkeypatch):
        def away(*args, **kwargs):
            raise OperationalError("the server at db.internal closed the connection")

        answer = ada_browser.get("/nowhere")
        assert (answer.status_code, 'href="/"' in answer.text) == (404, True)
        ada_browser.raise_request_exception = False
        monkeypatch.setattr("apps.agents.pages.agents.search", None)
        answer = ada_browser.get("/agents")
        assert (answer.status_code, "NoneType" in answer.text) == (500, False)
        monkeypatch.setattr("apps.agents.pages.agents.search", away)
        answer = ada_browser.get("/agents")
        assert (answer.status_code, answer.headers["Retry-After"], "db.internal" in answer.text) == (503, "1", False)

    def test_null_byte_in_a_slug_reaches_no_database(self, ada_browser):
        with CaptureQueriesContext(connection) as asked:
            for path in ("agents/%00", "agents/%00/try", "plans/%00"):
                assert ada_browser.get(f"/{path}").status_code == 404, path
        assert [one["sql"] for one in asked if '"agents_agent"."slug" =' in one["sql"]] == []
