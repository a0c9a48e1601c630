"""A session's page: what people send from it, how it stands, its agents, its branches, and who shares it."""

import base64
import re
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from agentkit import Completed
from apps.accounts.permissions import Role
from apps.accounts.requests.consumers import CHANGED, NOT_FOUND
from apps.agents.models import Agent
from apps.conversations.forks.forking import fork
from apps.conversations.pages.session import consumers
from apps.conversations.pages.session.entries import agent_label, entries_of
from apps.conversations.pages.session.page import page_state
from apps.conversations.pages.session.status import session_status
from apps.conversations.public_links import presence
from apps.conversations.sessions import commands
from apps.conversations.uploads import resumable
from apps.conversations.uploads.resumable import AppendableFile
from apps.engine import accept
from apps.record import ledger
from apps.record.events import EventType
from apps.record.execution import Run
from apps.record.models import Context, Event, Message, Task
from parley import db
from tests.clients import telling
from tests.conversations.pages.test_inbox import ask
from tests.conversations.pages.test_live_line import last_of, line
from tests.emptying import rewrite
from tests.members import member
from tests.working import begin, end

pytestmark = pytest.mark.django_db(transaction=True)


def read(session):
    return Context.objects.select_related("agent", "owner").get(pk=session)


def opened(browser, session, ending=""):
    return browser.get(f"/sessions/{session}{ending}").text


class TestStatus:
    def test_page_begins_as_its_session_stands(self, ada, ada_browser, report, finished, django_assert_num_queries):
        asked, working = ask(ada, report), telling.begun(ada, report)
        for receipt, words, hidden in [
            (finished, "", [True, True]),
            (asked, '<span class="word">Waiting for you</span>', [False, True]),
            (working, '<span class="word">Working</span>', [False, False]),
        ]:
            page = opened(ada_browser, receipt.context)
            assert words in page
            assert [one in page for one in ('class="stop" hidden', 'Enter)" hidden')] == hidden, words
        Task.objects.filter(pk=asked.task).update(state="auth-required", slot={"name": "key", "service": "the mail"})
        assert session_status(read(asked.context)).is_closed
        begun = read(working.context)
        forked = read(fork(ada.principal, begun, begun.last_event, reason="fork").pk)
        for session, queries, sign in ((begun, 1, "working"), (forked, 2, "")):  # it does not work at what it left
            with django_assert_num_queries(queries):
                assert session_status(session).sign == sign


@pytest.fixture
def talk(ada, echo, said):
    return accept.accept(ada.principal, echo, said("first"))


@pytest.fixture
def say(ada_browser, talk):
    def say(words, **fields):
        form = {"message": str(uuid.uuid4()), "text": words, **fields}
        return ada_browser.post(f"/sessions/{talk.context}/messages", form)

    return say


def test_listed_agents_and_the_own_are_offered(ada, ada_browser, talk, echo, countdown, say):
    def offered():
        page = opened(ada_browser, talk.context)
        return re.findall('data-switch="(.*?)"', page), "@countdown" in page.split('id="switch-to"')[1]

    assert offered()[1] is False
    Agent.objects.update(name="Twin")
    assert offered()[1] is True, "agents of one name show their slugs"
    end(begin(talk.run), Completed("mine"))
    Agent.objects.filter(pk=echo.pk).update(is_enabled=False)
    assert (say("more").status_code, offered()[0]) == (409, ["countdown"])
    Agent.objects.update(listed=False, is_enabled=True)
    assert ada_browser.get(f"/sessions/{talk.context}").context["agents"] == [echo]
    commands.switch_agent(ada.principal, talk.context, countdown)
    assert say("more").status_code == 201


def test_every_answer_names_its_agent(ada, talk, echo, countdown, say):
    held = begin(talk.run)
    commands.switch_agent(ada.principal, talk.context, countdown)
    end(held, Completed("mine"))
    say("next")
    end(begin(Run.objects.get(state="queued").pk), Completed("theirs"))
    state = page_state(ada.principal, read(talk.context))
    items = state["patch"]["put"]
    assert [one["agent"]["slug"] for one in items if one.get("role") == "agent"] == ["echo", "countdown"]
    [switched] = [one for one in items if one["kind"] == "switch"]
    assert switched["agent"] == state["patch"]["agent"] == agent_label(countdown)
    spoken = Event.objects.filter(type="agent_status", payload__agent=echo.pk).last()
    spoken.payload.pop("agent")  # as an older log
    rewrite(Event.objects.filter(pk=spoken.pk), payload=spoken.payload)
    assert entries_of(read(talk.context), [spoken])[0]["agent"] == agent_label(echo)


def test_leading_name_chooses_the_agent(ada_browser, talk, echo, countdown, say):
    Agent.objects.filter(pk=countdown.pk).update(access="groups")
    say("@countdown from 3")
    assert Context.objects.get().agent == echo, "a name of an agent that is not for them is text"
    Agent.objects.filter(pk=countdown.pk).update(access="authenticated")
    for words in ("mail me@countdown", "say @countdown", "@countdowns", "@echo again"):
        say(words)
        assert Context.objects.get().agent == echo, words
    assert say("@countdown from 3", task=str(talk.task)).status_code == 201
    assert Context.objects.get().agent == countdown
    assert Task.objects.order_by("-created_at").first().agent == countdown
    form = {"message": str(uuid.uuid4()), "text": "@echo hello"}
    ada_browser.post("/agents/countdown/messages", form)
    assert Context.objects.get(title="@echo hello").agent == echo


class TestSharedSessions:
    @pytest.fixture
    def talk(self, ada, finished):
        return commands.share_session(ada.principal, finished.context, Context.Sharing.WORKSPACE)

    @pytest.fixture
    def colleague(self, ada, bob):
        return member(bob, ada)

    async def test_nobody_is_noted_in_a_private_session(self, finished, ada_browser, monkeypatch):
        monkeypatch.setattr(presence, "RENEW_SECONDS", 0.01)
        monkeypatch.setattr(consumers.SessionConsumer, "ALIVE_SECONDS", 0.1)
        async with line(finished.context, ada_browser, after=1000) as hers:
            await hers.connect()
            await hers.receive_json_from(timeout=5)
            assert await hers.receive_json_from(timeout=5) == {"alive": True}
        assert not await db.run(presence.Presence.objects.exists)

    @pytest.mark.parametrize("ends", [NOT_FOUND, CHANGED], ids=["private again", "another role"])
    async def test_open_page_ends_with_its_right(self, talk, ada, bob, colleague, bob_browser, monkeypatch, ends):
        monkeypatch.setattr(consumers.SessionConsumer, "RECHECK_SECONDS", 0.05)
        async with line(talk.pk, bob_browser, after=talk.last_event) as his:
            await his.connect()
            await his.receive_json_from(timeout=5)  # it is open
            if ends == CHANGED:
                await db.run(member, bob, ada, Role.VIEWER)
            else:
                owner = await db.run(lambda: ada.principal)
                await db.run(commands.share_session, owner, talk.pk, Context.Sharing.PRIVATE)
            assert await last_of(his) == ends


class TestTranscripts:
    def test_transcript_has_all_that_was_said_and_made(self, ada, echo, ada_browser):
        table = telling.text("a;b", "text/csv", filename="my_table.csv")
        receipt = telling.begun(ada, echo, parts=[{"data": {"format": "PDF"}}, table, {"text": "*Look*"}])
        with ledger.writing(receipt.context) as log:
            telling.work(log, receipt)
            telling.chunk(log, receipt, "story", telling.text("Once upon\n```\na"), last=False)
            telling.chunk(log, receipt, "story", telling.text(" time"), append=True, last=False)
            log.add(EventType.AGENT_CANCELLED, {"discarded": ["story"]}, task=receipt.task)
            log.add(EventType.AGENT_STATUS, {"state": "canceled"}, task=receipt.task)
        telling.finished(ada, echo, {"dot.png": telling.picture()}, contextId=str(receipt.context))
        Context.objects.update(title="Données\n## Echo [x](y)")
        answer = ada_browser.get(f"/sessions/{receipt.context}/as.md")
        assert answer["Content-Type"] == "text/markdown; charset=utf-8"
        assert answer["Content-Disposition"].startswith("attachment; filename*=utf-8''donn%C3%A9es")
        assert answer.text.startswith("# Données \\#\\# Echo \\[x\\](y)\n\n## You · "), "no title passes for structure"
        for words in (
            '```json\n{\n  "format": "PDF"\n}\n```',
            "- File: my\\_table.csv (text/csv, 3 B)",
            "*Look*",
            "- Unfinished: story (text/plain, 20 B)\n\n````\nOnce upon\n```\na time\n````\n",
            "Done.\n\n- Made: dot.png (image/png, 70 B)\n",
        ):
            assert words in answer.text


def form(text="", **more):
    return {"message": str(uuid.uuid4()), "text": text, **more}


def upload(name, content=b"a,b\n1,2\n", media_type="application/octet-stream"):
    return SimpleUploadedFile(name, content, media_type)


def refusal(answer):
    return answer.json()["error"]


class TestANewSession:
    def test_a_first_message_opens_it_once(self, ada_browser, ada, echo):
        said = form("hello")
        answer = ada_browser.post("/agents/echo/messages", said)
        assert answer.status_code == 201
        context = Context.objects.get()
        assert answer.json()["session"] == f"/sessions/{context.pk}"
        assert (context.owner, context.title) == (ada, "hello")
        assert ada_browser.post("/agents/echo/messages", said).json() == answer.json()
        assert Run.objects.count() == Task.objects.count() == 1


class TestFiles:
    def send(self, browser, *files, slug="echo", **more):
        return browser.post(f"/agents/{slug}/messages", form(files=list(files), **more))

    def test_uploaded_file_is_named_by_its_owner_alone(self, ada_browser, ada, echo, bob_browser):
        upload = resumable.begin_upload(ada.principal, "notes.txt", 9, "text/plain")
        file = AppendableFile(upload, 0)
        file.write(b"all of it")
        file.sync()
        file.close()
        for key in (str(upload.pk), str(uuid.uuid4()), "nonsense"):
            answer = self.send(bob_browser, upload=key, text="mine")
            assert (answer.status_code, "has expired" in refusal(answer)) == (422, True)
        said = form(upload=str(upload.pk))
        first, second = (ada_browser.post("/agents/echo/messages", said) for _ in range(2))
        assert (first.status_code, second.json()) == (201, first.json())
        [part] = Message.objects.get().parts
        assert (part["filename"], part["stored"]["size"]) == ("notes.txt", 9)

    def test_file_keeps_its_name_and_content(self, ada_browser, hello):
        for name, content, media_type, filename, kept in [
            ("../depths.csv", b"a,b\n", "application/octet-stream", "depths.csv", "text/csv"),
            ("empty.txt", b"", "", "empty.txt", "text/plain"),
            ("app.ts", b"x := 1", "video/mp2t", "app.ts", "text/"),
        ]:
            modes = ["text/*"] if kept == "text/" else ["*/*"]  # code is text for an agent that takes any
            Agent.objects.filter(pk=hello.pk).update(input_modes=modes)
            other = upload("other.txt")  # an empty file goes with the others
            assert self.send(ada_browser, upload(name, content, media_type), other, slug="hello").status_code == 201
            part, _ = Message.objects.get(role="user").parts
            assert (part["filename"], part.get("mediaType", "").startswith(kept)) == (filename, True)
            assert base64.b64decode(part["raw"]) == content
            Message.objects.all().delete()


class TestASession:
    def test_message_after_a_finished_task_refers_once(self, finished, ada_browser):
        for wrong in ({"text": "  "}, {"text": "hi", "message": "1"}):
            said = form() | wrong
            assert ada_browser.post(f"/sessions/{finished.context}/messages", said).status_code == 422
        said = form("be\x00fore", task=str(finished.task))
        answers = [ada_browser.post(f"/sessions/{finished.context}/messages", said) for _ in range(2)]
        assert (answers[0].status_code, answers[0].json()) == (201, answers[1].json())
        new = Task.objects.exclude(pk=finished.task).get()
        assert (new.context_id, new.references) == (finished.context, [str(finished.task)])
        assert Message.objects.order_by("-index").first().parts[0]["text"] == "before"


class TestAnswers:
    @pytest.fixture
    def answer(self, ada_browser, asked):
        said = {"task": str(asked.task), "answers": "1"}
        return lambda **given: ada_browser.post(f"/sessions/{asked.context}/messages", form() | said | given)

    def test_chosen_value_is_the_answer_once(self, answer, asked):
        for given in ({}, {"answer-format": "Word"}):
            refused = answer(**given)
            assert (refused.status_code, refusal(refused).partition(":")[0]) == (422, "Format"), given
            assert Task.objects.get().state == "input-required", given
        said = form(task=str(asked.task), answers="1")
        first, again, other = [answer(**said | {"answer-format": one}) for one in ("PDF", "PDF", "HTML")]
        assert (first.status_code, first.json()) == (again.status_code, again.json()) == (201, first.json())
        assert other.status_code == 422
        assert [one.parts for one in Message.objects.filter(task=asked.task, role="user")][1:] == [[{"data": "PDF"}]]
        assert Task.objects.get().state == "working"


def test_failed_task_is_sent_again_anew(ada_browser, ada, echo):
    failed = telling.failed(ada, echo)
    said = {"message": str(uuid.uuid4()), "task": str(failed.task)}
    for _ in range(2):
        assert ada_browser.post(f"/sessions/{failed.context}/again", said).status_code == 201
    new = Task.objects.exclude(pk=failed.task).get()
    assert (new.references, new.metadata) == ([str(failed.task)], {"repeats": str(failed.task)})
    assert Message.objects.get(task=new).parts == Message.objects.get(task=failed.task, role="user").parts


def test_tasks_of_others_get_no_message(bob_browser, bob, echo, finished):
    own = telling.begun(bob, echo)
    for ending in ("messages", "again"):
        said = form("mine now", task=str(finished.task))
        assert bob_browser.post(f"/sessions/{own.context}/{ending}", said).status_code == 404
    assert Message.objects.filter(parts__0__text="mine now").count() == 0


def test_earlier_turns_and_branches_are_their_owners_alone(ada, echo, finished, ada_browser, bob_browser):
    edited = fork(ada.principal, read(finished.context), 0, reason="edit")
    telling.begun(ada, echo, "something else", contextId=edited.context_id)
    for ending in ("earlier?before=2", "branches?at=1"):
        address = f"/sessions/{finished.context}/{ending}"
        assert [one.get(address).status_code for one in (ada_browser, bob_browser)] == [200, 404], ending


def test_token_is_of_whoever_is_signed_in(ada, echo):
    strict = Client(enforce_csrf_checks=True)
    assert strict.get("/token").json()["user"] == ""
    strict.force_login(ada)
    assert strict.get("/token").json()["user"] == str(ada.pk)
    assert strict.post("/agents/echo/messages", form("hello")).status_code == 403
    fresh = {"X-CSRFToken": strict.get("/token").json()["token"]}
    assert strict.post("/agents/echo/messages", form("hello"), headers=fresh).status_code == 201
