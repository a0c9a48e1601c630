"""People send words, files and answers from a page, each once."""

import base64
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

import db
from apps.agents.models import Agent
from apps.engine import activity
from apps.engine.send import send
from apps.installation.models import Activity
from apps.record.execution import Run
from apps.record.models import Context, Feedback, Message, Task
from apps.web.sessions import sending
from tests.web import telling

pytestmark = pytest.mark.django_db(transaction=True)


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

    def test_it_takes_the_persons_share_of_the_database_threads(self, ada_browser, ada, echo, monkeypatch):
        callers = []

        async def noting(*message):
            callers.append(db.caller.get())
            return await send(*message)

        monkeypatch.setattr(sending, "send", noting)
        assert ada_browser.post("/agents/echo/messages", form("hello")).status_code == 201
        assert callers == [ada.principal.sender]

    def test_an_agent_one_may_not_use_is_not_found(self, ada_browser, echo):
        echo.access = "groups"
        echo.save()
        for slug in ("echo", "%00"):
            assert ada_browser.post(f"/agents/{slug}/messages", form("hello")).status_code == 404, slug
        assert not Context.objects.exists()


class TestFiles:
    def send(self, browser, *files, slug="echo", text=""):
        return browser.post(f"/agents/{slug}/messages", form(text, files=list(files)))

    def test_a_file_keeps_its_name_its_content_and_the_type_of_its_name(self, ada_browser, echo):
        self.send(ada_browser, upload("depths.csv"))
        part = Message.objects.get().parts[0]
        assert (part["filename"], part["mediaType"]) == ("depths.csv", "text/csv")
        assert base64.b64decode(part["raw"]) == b"a,b\n1,2\n"
        for name in ["../../etc/passwd", "C:\\secrets\\passwd", "/etc/passwd"]:
            sent = form(files=[upload(name)])
            ada_browser.post("/agents/echo/messages", sent)
            assert Message.objects.get(message_id=sent["message"]).parts[0]["filename"] == "passwd", name

    def test_an_empty_file_goes_with_the_others(self, ada_browser, echo):
        assert self.send(ada_browser, upload("16-empty.txt", b""), upload("16-good.txt")).status_code == 201
        parts = Message.objects.get().parts
        assert [(part["filename"], part["mediaType"]) for part in parts] == [
            ("16-empty.txt", "text/plain"),
            ("16-good.txt", "text/plain"),
        ]

    def test_code_is_text_for_an_agent_that_takes_any(self, ada_browser, hello):
        Agent.objects.filter(pk=hello.pk).update(input_modes=["text/*"])
        for name, media_type in (("main.go", ""), ("app.ts", "video/mp2t"), ("a.sql", "application/sql")):
            sent = form(files=[upload(name, b"x := 1", media_type)])
            assert ada_browser.post("/agents/hello/messages", sent).status_code == 201, name
            [part] = Message.objects.get(message_id=sent["message"]).parts
            assert part["mediaType"].startswith("text/"), name

    def test_too_much_and_a_type_that_the_agent_does_not_take_are_refused(self, ada_browser, echo, settings, hello):
        settings.MAX_REQUEST_BYTES = 1024 * 1024
        answer = self.send(ada_browser, upload("big.bin", b"0" * (1024 * 1024)))
        assert answer.status_code == 413
        assert "The limit for one message is 1 MB" in refusal(answer)
        answer = self.send(ada_browser, upload("cat.png", telling.PNG), slug="hello")
        assert answer.status_code == 422
        assert refusal(answer) == "Hello takes text only. Remove “cat.png”, or choose an agent that takes it."


class TestASession:
    @pytest.fixture
    def say(self, ada_browser):
        return lambda receipt, **said: ada_browser.post(f"/sessions/{receipt.context}/messages", form(**said))

    def test_nothing_and_a_message_without_an_id_are_refused(self, say, finished, ada_browser):
        answer = say(finished, text="  ")
        assert (answer.status_code, answer.json()["field"]) == (422, "text")
        answer = ada_browser.post(f"/sessions/{finished.context}/messages", {"text": "hi", "message": "1"})
        assert refusal(answer) == "This page is out of date. Reload it."

    def test_what_follows_a_finished_task_is_a_new_one_that_refers_to_it(self, say, finished):
        assert say(finished, text="Make it shorter").status_code == 201
        new = Task.objects.exclude(pk=finished.task).get()
        assert new.context_id == finished.context
        assert new.references == [str(finished.task)]
        assert say(finished, text="be\x00fore").status_code == 201
        assert Message.objects.order_by("-index").first().parts[0]["text"] == "before"

    def test_the_same_message_is_one_even_when_its_task_ended_between_two_tries(self, ada_browser, finished):
        said = form("once", task=str(finished.task))
        answers = [ada_browser.post(f"/sessions/{finished.context}/messages", said).json() for _ in range(2)]
        assert answers[0] == answers[1]
        assert Task.objects.count() == 2

    def test_an_agent_one_may_no_longer_use_takes_nothing_more(self, say, ada_browser, ada, echo):
        receipt = telling.begun(ada, echo)
        echo.access = "groups"
        echo.save()
        answer = say(receipt, text="and this")
        assert answer.status_code == 409
        assert "Echo is no longer there for you" in refusal(answer)
        assert Message.objects.count() == 1
        page = ada_browser.get(f"/sessions/{receipt.context}").text
        assert "/agents/echo" not in page
        stopped = ada_browser.post(f"/sessions/{receipt.context}/stop", {"task": str(receipt.task)})
        assert stopped.status_code == 200


class TestAnswers:
    @pytest.fixture
    def answer(self, ada_browser, asked):
        said = {"task": str(asked.task), "answers": "1"}
        return lambda **given: ada_browser.post(f"/sessions/{asked.context}/messages", form(**said, **given))

    def test_a_chosen_value_is_the_answer(self, answer, asked):
        for given, sentence in [
            ({}, "Format: an answer is needed."),
            ({"answer-format": "Word"}, "Format: choose one of PDF, HTML."),
        ]:
            refused = answer(**given)
            assert (refused.status_code, refusal(refused)) == (422, sentence), given
            assert Task.objects.get().state == "input-required", given
        assert answer(**{"answer-format": "PDF"}).status_code == 201
        said = Message.objects.filter(task=asked.task, role="user").order_by("-index").first()
        assert said.parts == [{"data": "PDF"}]
        assert Task.objects.get().state == "working"

    def test_repeated_answer_is_recognized_by_its_question(self, ada_browser, asked):
        address, said = f"/sessions/{asked.context}/messages", form(task=str(asked.task), answers="1")
        first, again, other = [
            ada_browser.post(address, said | {"answer-format": one}) for one in ("PDF", "PDF", "HTML")
        ]
        assert (first.status_code, first.json()) == (again.status_code, again.json())
        assert other.status_code == 422
        assert Message.objects.filter(task=asked.task, role="user").count() == 2

    def test_a_file_that_is_asked_for_comes_as_a_file(self, ada_browser, ada, report):
        schema = {"type": "string", "format": "binary", "title": "CSV file"}
        asked = telling.asked(ada, report, {"name": "file", "schema": schema})
        address, said = f"/sessions/{asked.context}/messages", {"task": str(asked.task), "answers": "1"}
        assert refusal(ada_browser.post(address, form(**said))) == "CSV file: choose a file."
        ada_browser.post(address, form(**said, **{"answer-file": upload("t.csv")}))
        newest = Message.objects.filter(task=asked.task, role="user").order_by("-index").first()
        assert newest.parts[0]["filename"] == "t.csv"


class TestStoppingAndTryingAgain:
    def test_stop_cancels_what_runs(self, ada_browser, ada, echo):
        receipt = telling.begun(ada, echo)
        answer = ada_browser.post(f"/sessions/{receipt.context}/stop", {"task": str(receipt.task)})
        assert answer.status_code == 200
        assert Task.objects.get().state == "canceled"

    def test_what_has_ended_and_what_is_no_task_of_the_session_cannot_be_stopped(self, ada_browser, finished):
        answer = ada_browser.post(f"/sessions/{finished.context}/stop", {"task": str(finished.task)})
        assert answer.json() == {"stopped": None}
        assert Task.objects.get().state == "completed"
        for task in ["", "nonsense", str(uuid.UUID(int=1))]:
            assert ada_browser.post(f"/sessions/{finished.context}/stop", {"task": task}).status_code == 404, task

    def test_a_failed_task_is_sent_again_as_a_new_one(self, ada_browser, ada, echo):
        failed = telling.failed(ada, echo)
        said = {"message": str(uuid.uuid4()), "task": str(failed.task)}
        for _ in range(2):
            assert ada_browser.post(f"/sessions/{failed.context}/again", said).status_code == 201
        new = Task.objects.exclude(pk=failed.task).get()
        assert new.references == []
        assert Message.objects.get(task=new).parts == Message.objects.get(task=failed.task, role="user").parts


class TestStars:
    def rate(self, browser, finished, **form):
        return browser.post(f"/sessions/{finished.context}/feedback", {"task": str(finished.task), **form})

    def test_what_is_no_rating_and_a_task_of_somebody_else_are_refused(self, ada_browser, finished, bob_browser):
        for rating in ["", "0", "6", "4.5", "x", "-1"]:
            answer = self.rate(ada_browser, finished, rating=rating)
            assert (answer.status_code, answer.json()["field"]) == (422, "rating"), rating
            assert self.rate(ada_browser, finished, rating="3", text="x" * 10_001).status_code == 422, rating
            assert not Feedback.objects.exists(), rating
        assert self.rate(bob_browser, finished, rating="1").status_code == 404
        assert self.rate(ada_browser, finished, rating="1", task="").status_code == 404
        assert self.rate(ada_browser, finished, rating="1", task=str(uuid.uuid4())).status_code == 404
        assert not Feedback.objects.exists()
        assert self.rate(ada_browser, finished, rating="5", text=" fine\0 ").json() == {"rated": 5}
        assert Feedback.objects.get().payload == {"rating": 5, "feedback": "fine"}


def test_a_paused_agent_says_so_at_the_composer_and_keeps_messages(ada_browser, echo):
    activity.set_activity(echo, Activity.PAUSED)
    assert "Echo is paused." in ada_browser.get("/agents/echo").content.decode()
    assert ada_browser.post("/agents/echo/messages", form("hello")).status_code == 201
    page = ada_browser.get(f"/sessions/{Context.objects.get().pk}").content.decode()
    assert "Echo is paused." in page
    activity.set_activity(echo, Activity.DRAINING)
    answer = ada_browser.post("/agents/echo/messages", form("hello"))
    assert (answer.status_code, refusal(answer)[:4]) == (503, "Echo")
    assert Task.objects.count() == 1
