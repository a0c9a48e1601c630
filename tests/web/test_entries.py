"""A conversation page's entries are small, complete, and safe to insert."""

import json
import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentkit import Completed
from apps.engine import accept
from apps.features.forks.forking import fork
from apps.record import ledger, wire
from apps.record.content import rendering
from apps.record.events import EventType
from apps.record.models import Context, Event
from apps.web.sessions.artifacts import artifacts_before
from apps.web.sessions.entries import entries_between, entries_of
from apps.web.sessions.messages import with_code_tools
from apps.web.sessions.views import TURNS, page_state
from tests.web import telling
from tests.working import begin, end


@pytest.fixture
def working(ada, echo):
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
    return receipt


def live(receipt):
    """The entries of a page that was open from the start."""
    context = Context.objects.get(pk=receipt.context)
    return entries_of(context, list(Event.objects.filter(context=context)))


def first_paint(receipt):
    context = Context.objects.select_related("agent", "owner").get(pk=receipt.context)
    return page_state(context.owner.principal, context)


def of_type(entries, name):
    return [entry for entry in entries if entry["type"] == name]


def test_chunks_that_follow_each_other_come_as_one_and_those_of_different_artifacts_do_not(working):
    with ledger.writing(working.context) as log:
        for number in range(50):
            telling.chunk(log, working, "log", telling.text(f"{number}\n"), append=number > 0, last=False)
    [chunk] = of_type(live(working), "artifact_update")
    assert chunk["text"] == "".join(f"{number}\n" for number in range(50))
    assert (chunk["chunks"], chunk["size"], chunk["begins"]) == (50, 140, True)
    assert chunk["index"] == Context.objects.get().last_event
    with ledger.writing(working.context) as log:
        for name in ("a", "b", "a"):
            telling.chunk(log, working, name, telling.text(name), append=name == "a", last=False)
    assert [entry["artifactId"] for entry in of_type(live(working), "artifact_update")] == ["log", "a", "b", "a"]


def test_a_file_travels_as_an_address_and_never_as_content(working):
    with ledger.writing(working.context) as log:
        telling.chunk(log, working, "dot.png", telling.picture())
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["dot.png"]}, task=working.task)
        telling.status(log, working, "completed", "Here it is.")
    entries = live(working)
    assert telling.picture()["raw"] not in json.dumps(entries)
    [file] = of_type(entries, "agent_complete")[0]["artifacts"][0]["parts"]
    assert (file["mediaType"], file["size"]) == ("image/png", len(telling.PNG))
    assert file["href"] == f"/sessions/{working.context}/artifacts/{working.task}/dot.png/0"


def test_streamed_words_end_as_one_laid_out_text(working):
    with ledger.writing(working.context) as log:
        telling.token(log, working, "", EventType.AGENT_TOKEN_START)
        for word in ("**b", "old** ", "words"):
            telling.token(log, working, word)
        telling.token(log, working, "!", EventType.AGENT_TOKEN_END)
    entries = live(working)
    assert [entry["text"] for entry in entries if entry["type"].startswith("agent_token")] == [
        "**bold** words",
        "**bold** words!",
    ]
    assert "<strong>bold</strong>" in of_type(entries, "agent_token_end")[0]["html"]


def test_texts_that_stream_side_by_side_are_told_apart_by_one_query(working, django_assert_num_queries):
    with ledger.writing(working.context) as log:
        for name in "ab":
            telling.token(log, working, "", EventType.AGENT_TOKEN_START, name)
        for word in ("one ", "two "):
            for name in "ab":
                telling.token(log, working, f"{name} {word}", artifact_id=name)
        for name in "ab":
            telling.token(log, working, f"{name} end", EventType.AGENT_TOKEN_END, name)
    ends = list(Event.objects.filter(context=working.context, type=EventType.AGENT_TOKEN_END))
    context = Context.objects.get(pk=working.context)
    with django_assert_num_queries(1):
        assert [end["text"] for end in entries_of(context, ends)] == ["a one a two a end", "b one b two b end"]


def test_a_text_that_came_in_pieces_is_one_file(working, ada_browser):
    with ledger.writing(working.context) as log:
        for number in range(100):
            telling.chunk(log, working, "log", telling.text(f"{number}\n"), append=number > 0)
        telling.chunk(log, working, "log", telling.picture(), append=True)
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["log"]}, task=working.task)
        telling.status(log, working, "completed", "There.")
    text, picture = of_type(live(working), "agent_complete")[0]["artifacts"][0]["parts"]
    assert ada_browser.get(text["href"]).text == "".join(f"{number}\n" for number in range(100))
    assert text["size"] == 290
    assert ada_browser.get(picture["href"]).content == telling.PNG


def test_a_page_begins_with_the_pieces_of_what_is_being_made_and_without_those_of_what_is_whole(finished, working):
    begun = first_paint(finished)
    assert not of_type(begun["entries"], "artifact_update")
    made = of_type(begun["entries"], "agent_complete")[0]["artifacts"]
    assert [one["name"] for one in made] == ["notes.md", "dot.png"]
    with ledger.writing(working.context) as log:
        telling.chunk(log, working, "log", telling.text("so far"), last=False)
    assert of_type(first_paint(working)["entries"], "artifact_update")[0]["text"] == "so far"


def test_words_of_a_task_that_was_stopped_are_still_there(working):
    with ledger.writing(working.context) as log:
        telling.token(log, working, "", EventType.AGENT_TOKEN_START)
        telling.token(log, working, "I was about to")
        telling.chunk(log, working, "log", telling.text("dropped"))
        log.add(EventType.AGENT_CANCELLED, {"discarded": ["answer", "log"]}, task=working.task)
        log.add(EventType.AGENT_STATUS, {"state": "canceled"}, task=working.task)
    entries = first_paint(working)["entries"]
    assert not of_type(entries, "agent_token"), "it comes with the end"
    [left] = of_type(entries, "agent_cancelled")
    assert [(one["kind"], one["isListed"]) for one in left["artifacts"]] == [("answer", False), ("text", False)]
    assert "I was about to" in left["artifacts"][0]["html"]


def test_a_question_comes_as_a_form_that_no_name_of_a_field_can_break(asked, ada, report):
    status = of_type(live(asked), "agent_status")[-1]
    assert status["message"]["text"] == "Which format?"
    assert 'name="answer-format" value="PDF"' in " ".join(status["form"].split())
    assert f'value="{asked.task}"' in status["form"]
    schema = {"type": "string", "title": "<script>", "description": '"><img src=x>', "default": '" onfocus="x'}
    asked = telling.asked(ada, report, {"name": '"><b>', "schema": schema})
    form = of_type(live(asked), "agent_status")[-1]["form"]
    for sign in ("<script", "<img", "<b>", 'onfocus="x"'):
        assert sign not in form


@pytest.mark.django_db(transaction=True)
def test_an_answer_is_shown_with_its_values_and_a_task_with_its_rating(ada_browser, asked, finished):
    said = {"message": str(uuid.uuid4()), "task": str(asked.task), "answers": "1"}
    ada_browser.post(f"/sessions/{asked.context}/messages", {**said, "answer-format": "HTML"})
    message = of_type(live(asked), "user_message")[-1]["message"]
    assert '<p class="verbatim">HTML</p>' in message["html"]
    ada_browser.post(f"/sessions/{finished.context}/feedback", {"task": str(finished.task), "rating": "2"})
    assert [one["rating"] for one in of_type(first_paint(finished)["entries"], "feedback")] == [2]


def test_a_fork_says_when_what_it_leaves_behind_was_last_heard_of(ada, working):
    source = Context.objects.get(pk=working.context)
    child = fork(ada.principal, source, source.last_event, reason="fork")
    [forked] = of_type(page_state(child.owner.principal, child)["entries"], "fork")
    assert forked["left"] == [str(working.task)]
    assert forked["leftAt"] == wire.timestamp(Event.objects.get(context=source, index=source.last_event).at)


def test_a_link_that_no_browser_should_follow_leads_nowhere(ada, echo):
    for url in ["javascript:alert(1)", "data:text/html,x", "//evil.example"]:
        receipt = telling.finished(ada, echo, {"link": {"url": url, "filename": "x"}})
        [part] = of_type(live(receipt), "agent_complete")[0]["artifacts"][0]["parts"]
        assert part["href"] == "", url


def test_a_long_conversation_begins_with_its_newest_turns(ada_browser, ada, echo):
    receipt = telling.finished(ada, echo, {"old.txt": telling.text("old")})
    for number in range(TURNS + 3):
        said = {**telling.said(f"turn {number}"), "contextId": str(receipt.context)}
        telling.accept.accept(ada.principal, echo, said)
    begun = first_paint(receipt)
    assert of_type(begun["entries"], "user_message")[0]["message"]["text"] == "turn 3"
    assert 'data-name="old.txt"' in ada_browser.get(f"/sessions/{receipt.context}").text
    older = ada_browser.get(f"/sessions/{receipt.context}/earlier?before={begun['first']}").json()
    assert older["first"] == 1
    assert older["entries"][-1]["index"] == begun["first"] - 1
    assert of_type(older["entries"], "user_message")[0]["message"]["text"] == "Begin"


def test_what_happens_while_a_page_is_made_is_left_to_the_line(working):
    context = Context.objects.select_related("agent").get(pk=working.context)
    with ledger.writing(working.context) as log:
        log.add(EventType.AGENT_COMPLETE, {"artifacts": []}, task=working.task)
        telling.status(log, working, "completed", "Done.")
    begun = page_state(context.owner.principal, context)
    assert begun["last"] == context.last_event == begun["entries"][-1]["index"]


def test_a_page_costs_as_many_queries_for_many_tasks_as_for_one(ada, echo, django_assert_num_queries):
    context = Context.objects.get(pk=telling.finished(ada, echo, {"a": telling.text("a")}).context)
    for number in range(5):
        telling.finished(ada, echo, {f"{number}": telling.text("b")}, contextId=context.context_id)
    with django_assert_num_queries(4):
        assert len(of_type(entries_between(context, 0, 1000), "agent_complete")) == 6
    with django_assert_num_queries(2):
        assert len(artifacts_before(context, 1000)) == 0, "short texts are in the conversation"


def test_an_answer_names_the_models_that_made_it_as_text(working):
    told = {"metadata": {"models": ["gpt-5-mini", "<b>"]}}
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Done."}], **told}
    with ledger.writing(working.context) as log:
        telling.status(log, working, "completed", "", message=message)
    for entries in (live(working), first_paint(working)["entries"]):
        assert ">gpt-5-mini, &lt;b&gt;</span>" in of_type(entries, "agent_status")[-1]["agent"]["mark"]


def test_a_message_says_which_tasks_it_is_about(ada, echo, finished):
    named = [str(finished.task), "of-another-house", str(uuid.uuid4())]
    receipt = telling.begun(ada, echo, "once more", contextId=str(finished.context), referenceTaskIds=named)
    plain, about = of_type(live(receipt), "user_message")
    assert "chip" not in plain["message"]["html"]
    chips = re.findall(r'<a class="chip" href="(.*?)">', about["message"]["html"])
    assert chips == [f"/tasks/{named[0]}", f"/tasks/{named[2]}"]


def test_an_answer_names_its_files_but_no_text_that_the_conversation_shows(ada, echo):
    words = "Done. " * 1000
    files = {"a.csv": telling.text("a,b", "text/csv"), "answer": telling.text(words), "note": telling.text("Short")}
    receipt = telling.finished(ada, echo, files, words=words)
    context = Context.objects.get(pk=receipt.context)
    alone = entries_of(context, [Event.objects.filter(context=context, type=EventType.AGENT_STATUS).last()])
    for entries in (live(receipt), first_paint(receipt)["entries"], alone):
        html = of_type(entries, "agent_status")[-1]["message"]["html"]
        assert re.findall(r'class="chip" data-artifact="(.*?)"', html) == [f"{receipt.task}/a.csv"]
    made = of_type(live(receipt), "agent_complete")[0]["artifacts"]
    assert [(one["name"], one["kind"]) for one in made] == [("a.csv", "file"), ("answer", "said"), ("note", "text")]
    assert [one["name"] for one in artifacts_before(context, 1000)] == ["a.csv"]


@pytest.mark.parametrize(
    ("name", "part", "is_open", "is_listed"),
    [
        ("countdown", telling.text("2\n1\n"), True, False),
        ("notes.md", telling.text("# Notes", "text/markdown"), True, True),
        ("values", {"data": {"depth": 3}}, True, False),
        ("story", telling.text("line\n" * 200), False, True),
        ("story", telling.text("word " * 1000), False, True),
    ],
)
def test_a_short_text_is_open_and_only_what_has_a_name_or_is_long_is_among_the_files(
    ada, echo, name, part, is_open, is_listed
):
    receipt = telling.finished(ada, echo, {name: part})
    [made] = of_type(first_paint(receipt)["entries"], "agent_complete")[0]["artifacts"]
    assert (made["kind"], bool(made["html"])) == ("text", is_open)
    assert bool(artifacts_before(Context.objects.get(pk=receipt.context), 1000)) is is_listed


def test_a_streamed_text_is_laid_out_safely(ada, echo):
    receipt = telling.finished(ada, echo, {"a.md": telling.text("# Tides\n\n<script>x</script>", "text/markdown")})
    [made] = of_type(live(receipt), "agent_complete")[0]["artifacts"]
    assert "<h1>Tides</h1>" in made["html"]
    assert "<script" not in made["html"]


def stopped(receipt, *, of_turn="canceled"):
    with ledger.writing(receipt.context) as log:
        discarded = [row.artifact_id for row in log.provisional_artifacts(receipt.task)]
        if of_turn == "canceled":
            log.add(EventType.AGENT_CANCELLED, {"discarded": discarded}, task=receipt.task)
            log.add(EventType.AGENT_STATUS, {"state": "canceled"}, task=receipt.task)
        else:
            log.add(EventType.AGENT_FAILED, {"code": "connection_lost", "discarded": discarded}, task=receipt.task)
            telling.status(log, receipt, "failed", "The agent could not be reached.")


@pytest.mark.parametrize("end", ["canceled", "failed"])
def test_what_a_stopped_or_failed_task_had_streamed_stays_and_says_so(ada_browser, working, end):
    with ledger.writing(working.context) as log:
        for number in range(3):
            telling.chunk(log, working, "log", telling.text(f"{number}\n"), append=number > 0, last=False)
        telling.chunk(log, working, "dot.png", telling.picture(), last=False)
    stopped(working, of_turn=end)
    for entries in (live(working), first_paint(working)["entries"]):
        [left] = [entry["artifacts"] for entry in entries if entry.get("artifacts")]
        assert [(one["name"], one["kind"], one["isUnfinished"]) for one in left] == [
            ("log", "text", True),
            ("dot.png", "file", True),
        ]
        assert "0\n1\n2\n" in left[0]["html"]
        assert ada_browser.get(left[0]["parts"][0]["href"]).text == "0\n1\n2\n"
        assert ada_browser.get(left[1]["parts"][0]["href"]).content == telling.PNG
    listed = ada_browser.get(f"/sessions/{working.context}/files").text
    assert "dot.png" in listed
    assert "Unfinished" in listed
    look = f"/sessions/{working.context}/artifacts/{working.task}/log/look"
    assert "Unfinished" in ada_browser.get(look).text


def test_an_attempt_that_was_taken_again_leaves_nothing(working):
    with ledger.writing(working.context) as log:
        telling.chunk(log, working, "log", telling.text("first"), last=False)
        telling.chunk(log, working, "other", telling.text("first"), last=False)
        again = {"attempt": 2, "turn": 1, "messageId": "first"}
        log.add(EventType.AGENT_START, again, task=working.task)
        telling.chunk(log, working, "log", telling.text("second"), last=False)
    stopped(working)
    [left] = [entry["artifacts"] for entry in first_paint(working)["entries"] if entry.get("artifacts")]
    assert [one["name"] for one in left] == ["log"]
    assert "second" in left[0]["html"]
    assert "first" not in left[0]["html"]


def test_a_fork_shows_what_was_streamed_when_it_began_whatever_comes_of_it(ada, working):
    with ledger.writing(working.context) as log:
        telling.chunk(log, working, "log", telling.text("one\n"), last=False)
    source = Context.objects.get(pk=working.context)
    child = fork(ada.principal, source, source.last_event, reason="fork")
    with ledger.writing(working.context) as log:
        telling.chunk(log, working, "log", telling.text("two\n"), append=True)
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["log"]}, task=working.task)
        telling.status(log, working, "completed", "Done.")
    [forked] = of_type(page_state(child.owner.principal, child)["entries"], "fork")
    [left] = forked["artifacts"]
    assert left["isUnfinished"]
    assert "one" in left["html"]
    assert "two" not in left["html"]


def test_a_page_loads_thousands_of_pieces_by_as_many_queries_as_one_and_in_bounded_space(
    ada, echo, working, django_assert_num_queries, django_assert_max_num_queries
):
    def pieces(first, number):
        with ledger.writing(working.context) as log:
            for one in range(first, first + number):
                telling.chunk(log, working, "log", telling.text(f"{one:04}\n"), append=one > 0, last=False)

    pieces(0, 1)
    context = Context.objects.select_related("agent").get(pk=working.context)
    reader = context.owner.principal
    with CaptureQueriesContext(connection) as few:
        page_state(reader, context)
    pieces(1, 4_999)
    context.refresh_from_db(fields=["last_event"])
    with django_assert_num_queries(len(few)):
        [shown] = of_type(page_state(reader, context)["entries"], "artifact_update")
    assert (shown["size"], shown["chunks"]) == (25_000, 5_000)
    assert shown["text"].endswith("4998\n4999\n")
    assert len(shown["text"]) <= 20_010
    stopped(working)
    context.refresh_from_db(fields=["last_event"])
    with django_assert_max_num_queries(len(few) + 2):
        [left] = [entry["artifacts"] for entry in page_state(reader, context)["entries"] if entry.get("artifacts")]
    assert "0000\n0001\n" in left[0]["html"]
    assert len(left[0]["html"]) < 25_000


def test_an_answer_that_was_passed_on_appears_once_by_its_author(ada, echo, hello):
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        telling.chunk(log, receipt, "answer", telling.text("**Good** morning."))
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["answer"]}, task=receipt.task)
        telling.status(log, receipt, "completed", "**Good** morning.", agent=hello.pk)
    entries = live(receipt)
    assert entries[-1]["agent"]["name"] == "Hello"
    assert "<strong>Good</strong>" in entries[-1]["message"]["html"]
    [artifact] = of_type(entries, "agent_complete")[0]["artifacts"]
    assert (artifact["kind"], artifact["isListed"]) == ("said", False)
    assert artifacts_before(Context.objects.get(), 1000) == []


def test_suggestions_are_buttons_for_agents_that_the_owner_may_use(ada, echo, hello):
    hello.access = hello.Access.GROUPS
    hello.save()
    receipt = telling.begun(ada, echo)
    told = [{"agent": "echo", "text": "<i>Hi</i>"}, {"agent": "hello", "text": "Hi"}, {"agent": 1}, "?"]
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        telling.chunk(log, receipt, "answer", telling.text("Try these."))
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["answer"]}, task=receipt.task)
        said = {"messageId": "tries", "parts": [{"text": "Try these."}], "metadata": {"suggestions": told}}
        telling.status(log, receipt, "completed", "", message=said)
    html = live(receipt)[-1]["message"]["html"]
    assert re.findall('data-begin="([^"]*)"', html) == ["/agents/echo/messages"]
    assert "&lt;i&gt;Hi" in html


def test_code_has_tools_and_what_imitates_it_none():
    for words in [
        '[x](https://a.example "<pre onclick=x()>y</pre>")',
        "`<pre>y</pre>`",
        "<pre onclick=x()>y</pre>",
        "[<pre>](/a) </pre>",
    ]:
        html = rendering.render_markdown(words)
        assert with_code_tools(html) == html, words
    html = with_code_tools(rendering.render_markdown("```\n</pre>\n```\n\nand\n\n```py\n1\n```"))
    assert html.count('<div class="code">') == html.count("copy-code") == html.count("</pre></div>") == 2
    assert '<span class="language">py</span>' in html
    assert "Show all 40 lines" in with_code_tools(rendering.render_markdown("```\n" + "x\n" * 40 + "```"))


def test_an_answer_tells_what_models_used(ada, echo, said, settings):
    settings.CURRENCY = "EUR"
    receipt = accept.accept(ada.principal, echo, said("first"))
    end(begin(receipt.run), Completed("mine"))
    event = Event.objects.get(type=EventType.AGENT_COMPLETE)
    counts = {"requests": 2, "inputTokens": 1200, "outputTokens": 50}
    for usage, used in (({}, None), (counts, "1,250 tokens"), (counts | {"cost": 0.0042}, "1,250 tokens · 0.0042 EUR")):
        event.payload["usage"] = usage
        [entry] = entries_of(event.context, [event])
        assert entry.get("used") == used
