"""What a session's page has: complete, small, and safe to insert. What is fetched, with all patches applied, is what is
fetched again: after every event, also after a reconnect.
"""

import json
import random
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.agents.models import Agent
from apps.conversations.forks.forking import fork
from apps.conversations.pages.session.conversation import Conversation
from apps.conversations.pages.session.entries import agent_label, entries_of
from apps.conversations.pages.session.from_log import conversation_at, page_between
from apps.conversations.pages.session.messages import with_code_tools
from apps.conversations.pages.session.page import TURNS, page_state
from apps.conversations.sessions import commands
from apps.engine import accept
from apps.record import ledger, lineage
from apps.record.content import rendering
from apps.record.events import EventType
from apps.record.models import Context, Message
from tests.clients import telling


class Page:
    """What a browser has: it applies patches as `static/js/session/state.js` does."""

    def __init__(self, fetched):
        self.items = {}
        self.facts = {"open": [], "ratings": {}}
        self.apply(fetched)

    def apply(self, patch):
        for item in patch.get("put", []):
            self.items[item["key"]] = item
        for key, changes in patch.get("set", {}).items():
            if known := self.items.get(key):
                more = {"text": known["text"] + changes["more"]} if "more" in changes else {}
                changed = {**known, **changes, **more}
                self.items[key] = {name: one for name, one in changed.items() if one is not None and name != "more"}
        for key in patch.get("drop", []):
            self.items.pop(key, None)
        self.facts["ratings"].update(patch.get("ratings", {}))
        self.facts |= {name: patch[name] for name in ("open",) if name in patch}

    @property
    def state(self):
        return sorted(self.items.values(), key=lambda item: item["place"]), self.facts


def read(session):
    return Context.objects.select_related("agent", "owner").get(pk=session)


def fetched(context):
    return Page(page_between(context, 1, context.last_event + 1, context.last_event))


def take(conversation, context, after):
    for entry in entries_of(context, list(lineage.events(context, after, context.last_event))):
        conversation.take(entry)
    patch = conversation.patch()
    conversation.forget_ended()
    return patch


class Watched:
    """A page that has stayed open, and one that reconnects before every act."""

    def __init__(self, session):
        self.session, context = session, read(session)
        self.index = context.last_event
        self.line, self.open, self.again = conversation_at(context, self.index), fetched(context), fetched(context)

    def check(self):
        context = read(self.session)
        self.open.apply(take(self.line, context, self.index))
        self.again.apply(take(conversation_at(context, self.index), context, self.index))
        now = fetched(context).state
        assert self.open.state == now
        assert self.again.state == now
        self.index = context.last_event


PIECES = {
    "count": telling.text("1\n"),
    "notes.md": telling.text("# N\n", "text/markdown"),
    "data.csv": telling.text("a,b\n", "text/csv"),
    "dot.png": telling.picture(),
    "mixed": telling.text("and "),
}


CALL = {"callId": "c", "name": "look"}
PROGRESS = {"message": telling.said("Half of it"), "progress": {"done": 1, "total": 2}}
APPROVAL = {"callId": "k", "tool": "mail", "arguments": {}, "approved": True, "final": True, "by": None, "name": "A"}
DECISION = {"rail": "r", "name": "Rule", "direction": "in", "action": "redact", "counts": {"email": 2}, "ms": 3}
LOGGED = {
    "call": (EventType.AGENT_TOOL_CALL, CALL | {"arguments": {"at": 1}}),
    "result": (EventType.AGENT_TOOL_RESULT, CALL | {"result": "x", "isError": False}),
    "error": (EventType.AGENT_TOOL_RESULT, CALL | {"result": "x", "isError": True}),
    "thought": (EventType.AGENT_THOUGHT, {"text": "Hm."}),
    "progress": (EventType.AGENT_STATUS, {"state": "working", **PROGRESS}),
    "again": (EventType.AGENT_START, {"attempt": 2, "turn": 1, "messageId": "first"}),
    "turn": (EventType.AGENT_START, {"attempt": 1, "turn": 2, "messageId": "second"}),
    "resume": (EventType.AGENT_STATUS, {"state": "working"}),
    "approve": (EventType.AGENT_STATUS, {"state": "working", "approval": APPROVAL}),
    "rate": (EventType.FEEDBACK, {"rating": 5}),
    "guard": (EventType.GUARDRAIL, DECISION),
    "stopping": (EventType.STOP_REQUESTED, {"by": None}),
    "lost": (EventType.AGENT_FAILED, {"discarded": [], "code": "worker_lost"}),
}

SLOT = {"name": "format", "schema": telling.FORMAT}
TOLD = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "By the way."}]}
DONE = {
    "work": lambda one: one.write(telling.work),
    "start": lambda one: one.write(telling.token, "", EventType.AGENT_TOKEN_START),
    "stop": lambda one: one.write(telling.token, "", EventType.AGENT_TOKEN_END),
    "mixed_with_picture": lambda one: one.chunk("mixed", telling.picture()),
    "ask": lambda one: one.write(telling.status, "input-required", "Which format?", slot=SLOT),
    "answer": lambda one: one.say("PDF", taskId=str(one.receipt.task)),
    "read": lambda one: one.log(EventType.AGENT_READ, {"messages": [newest(one)], "until": one.receipt.index}),
    "lengthen": lambda one: setattr(one, "words", "An answer " * 400),
    "manage": lambda one: commands.rename_session(one.user.principal, one.session, "A name"),
    "archive": lambda one: commands.archive_session(one.user.principal, one.session),
    "unarchive": lambda one: commands.unarchive_session(one.user.principal, one.session),
    "fork": lambda one: fork(one.user.principal, one.session, read(one.session).last_event, reason="fork"),
    "tell": lambda one: one.log(EventType.AGENT_MESSAGE, {"message": TOLD, "agent": one.other.pk}),
}


def newest(one):
    return Message.objects.get(context=one.session, index=one.receipt.index).message_id


class Session:
    """Steps of one task in a session; each writes to the record."""

    def __init__(self, user, agent, other, session):
        self.user, self.agent, self.other, self.session = user, agent, other, session
        self.words, self.receipt = "", None

    def steps(self, act):
        for step in act.split():
            if step in PIECES:
                self.chunk(step, PIECES[step])
            elif step in LOGGED:
                self.log(*LOGGED[step])
            elif step in DONE:
                DONE[step](self)
            else:
                getattr(self, step)()
            yield

    def write(self, how, *given, **more):
        """By a function of `telling`."""
        with ledger.writing(self.session) as log:
            how(log, self.receipt, *given, **more)

    def log(self, type_, payload):
        with ledger.writing(self.session) as log:
            log.add(type_, payload, task=self.receipt and self.receipt.task)

    def provisional(self):
        with ledger.writing(self.session) as log:
            return [row.artifact_id for row in log.provisional_artifacts(self.receipt.task)]

    def chunk(self, name, piece):
        self.write(telling.chunk, name, piece, append=name in self.provisional(), last=False)

    def say(self, words="Go on", **more):
        message = telling.said(words, contextId=read(self.session).context_id, **more)
        self.receipt = accept.accept(self.user.principal, self.agent, message)

    def word(self):
        self.words += "**word** "
        self.write(telling.token, "**word** ")

    def complete(self):
        told = {"artifacts": self.provisional(), "usage": {"inputTokens": 12, "outputTokens": 30}}
        self.log(EventType.AGENT_COMPLETE, told)
        self.write(telling.status, "completed", self.words.strip() or "Done.")

    def cancel(self):
        self.log(EventType.AGENT_CANCELLED, {"discarded": self.provisional()})
        self.log(EventType.AGENT_STATUS, {"state": "canceled"})

    def fail(self):
        self.log(EventType.AGENT_FAILED, {"discarded": self.provisional(), "code": "failed"})
        self.log(EventType.AGENT_STATUS, {"state": "failed"})

    def switch(self):
        own = read(self.session).agent == self.agent
        commands.switch_agent(self.user.principal, self.session, self.other if own else self.agent)


ACTS = [
    "say work start word word stop complete",
    "say work call result call error thought progress progress lengthen complete",
    "say work count count start word stop notes.md notes.md dot.png mixed mixed_with_picture count complete rate",
    "say work start word word stop count cancel",
    "say work data.csv fail",
    "say work thought start word stop count dot.png again count complete",
    "say work start word stop ask answer turn resume answer complete",  # the second answer is queued
    "say work ask approve complete",
    "say guard work thought answer read call result answer stopping read again answer read lost turn complete",
    "manage switch switch archive unarchive",
    "fork",
    "tell",
]


@pytest.fixture
def session(ada, echo):
    return read(telling.finished(ada, echo, {"a.txt": telling.text("a")}).context)


@pytest.fixture
def begin(session, ada, echo, hello):
    return lambda act: Session(ada, echo, hello, session.pk).steps(act)


@pytest.mark.parametrize("act", ACTS)
def test_patches_give_what_is_fetched(session, begin, act):
    watched = Watched(session.pk)
    for _ in begin(act):
        watched.check()


def test_message_shows_where_it_was_read(session, begin):
    steps = begin("say work thought call answer read lost complete")

    def shown(count):
        for _ in range(count):
            next(steps)
        item = next(one for one in fetched(read(session.pk)).state[0] if one.get("text") == "PDF")
        return item.get("queued"), item.get("readAt")

    assert [shown(5), shown(1), shown(1)] == [(True, None), (False, 3), (True, None)]


def test_patches_of_acts_give_what_is_fetched(session, begin):
    chosen = random.Random(1)
    under_way = [begin(act) for act in chosen.sample(ACTS, 5)]
    watched = Watched(session.pk)
    while under_way:
        one = chosen.choice(under_way)
        if next(one, under_way) is under_way:
            under_way.remove(one)
        watched.check()


def test_pages_of_turns_together_are_the_whole(session, begin):
    under_way = [begin(act) for act in ACTS[:7]]
    while under_way:
        under_way = [one for one in under_way if next(one, under_way) is not under_way]
    context = read(session.pk)
    last, whole = context.last_event, fetched(context).state
    for middle in range(2, last, 7):
        page = Page(page_between(context, middle, last + 1, last))
        older = page_between(context, 1, middle, last)
        page.apply({**older, "open": page.facts["open"]})
        assert page.state == whole, middle


def test_fork_shows_what_its_past_left(session, begin, ada):
    under_way = begin(ACTS[3])
    for _ in range(5):
        next(under_way)
    source = read(session.pk)
    child = fork(ada.principal, source, source.last_event, reason="fork")
    for _ in under_way:
        pass
    context = read(child.pk)
    live = Page(take(Conversation(agent_label(context.agent)), context, 0))
    assert live.state == fetched(context).state
    assert any(item.get("unfinished") for item in live.items.values())


@pytest.fixture
def working(ada, echo):
    receipt = telling.begun(ada, echo)
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
    return receipt


def live(receipt):
    """The entries of a page that was open from the start."""
    context = Context.objects.get(pk=receipt.context)
    return entries_of(context, list(lineage.events(context)))


def first_paint(receipt):
    context = Context.objects.select_related("agent", "owner").get(pk=receipt.context)
    return page_state(context.owner.principal, context)["patch"]


def of_kind(patch, *kinds):
    return [item for item in patch["put"] if item["kind"] in kinds]


def of_type(entries, name):
    return [entry for entry in entries if entry["type"] == name]


def test_streamed_words_end_as_one_laid_out_text(working):
    with ledger.writing(working.context) as log:
        telling.token(log, working, "", EventType.AGENT_TOKEN_START)
        for word in ("**b", "old** ", "words"):
            telling.token(log, working, word)
        telling.token(log, working, "!", EventType.AGENT_TOKEN_END)
    [_, streamed] = of_kind(first_paint(working), "message")
    assert streamed["text"] == "**bold** words!"
    assert "<strong>bold</strong>" in streamed["html"]


def test_files_are_addresses_and_pieces_one_file(working, ada_browser):
    with ledger.writing(working.context) as log:
        for number in range(100):
            telling.chunk(log, working, "log", telling.text(f"{number}\n"), append=number > 0)
        telling.chunk(log, working, "log", telling.picture(), append=True)
        for number, url in enumerate(["javascript:alert(1)", "data:text/html,x", "//evil.example"]):
            telling.chunk(log, working, "links", {"url": url, "filename": "x"}, append=number > 0)
        log.add(EventType.AGENT_COMPLETE, {"artifacts": ["log", "links"]}, task=working.task)
        telling.status(log, working, "completed", "There.")
    entries = live(working)
    assert telling.picture()["raw"] not in json.dumps(entries)
    made, links = of_type(entries, "agent_complete")[0]["artifacts"]
    text, picture = made["parts"]
    assert (text["size"], picture["size"]) == (290, len(telling.PNG))
    assert ada_browser.get(text["href"]).text == "".join(f"{number}\n" for number in range(100))
    assert ada_browser.get(picture["href"]).content == telling.PNG
    assert [part["href"] for part in links["parts"]] == ["", "", ""]


def test_long_code_is_folded_and_its_imitation_none():
    for words in ('[x](https://a.example "<pre onclick=x()>y</pre>")', "`<pre>y</pre>`", "[<pre>](/a) </pre>"):
        html = rendering.render_markdown(words)
        assert with_code_tools(html) == html, words
    html = with_code_tools(rendering.render_markdown("```\n</pre>\n```\n\nand\n\n```py\n" + "x\n" * 40 + "```"))
    assert html.count('<div class="code') - html.count('<div class="code-head') == html.count("</pre>") == 2
    assert "Show all 40 lines" in html


def test_long_conversation_begins_with_its_newest_turns(ada_browser, ada, echo):
    receipt = telling.finished(ada, echo, {"old.txt": telling.text("old")})
    for number in range(TURNS + 3):
        said = {**telling.said(f"turn {number}"), "contextId": str(receipt.context)}
        telling.accept.accept(ada.principal, echo, said)
    said = of_kind(first_paint(receipt), "message")
    assert said[0]["text"] == "turn 3"
    assert 'data-name="old.txt"' in ada_browser.get(f"/sessions/{receipt.context}").text
    older = ada_browser.get(f"/sessions/{receipt.context}/earlier?before={said[0]['index']}").json()
    before = of_kind(older["patch"], "message")
    assert older["first"] == 1
    assert (before[0]["text"], before[-1]["text"]) == ("Begin", "turn 2")


def test_events_during_rendering_come_by_the_line(working):
    context = Context.objects.select_related("agent").get(pk=working.context)
    with ledger.writing(working.context) as log:
        log.add(EventType.AGENT_COMPLETE, {"artifacts": []}, task=working.task)
        telling.status(log, working, "completed", "Done.")
    begun = page_state(context.owner.principal, context)
    assert begun["last"] == context.last_event == begun["patch"]["index"]
    assert [one["id"] for one in begun["patch"]["open"]] == [str(working.task)]


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
def test_stopped_task_keeps_what_it_streamed(ada_browser, working, end):
    with ledger.writing(working.context) as log:
        for number in range(3):
            telling.chunk(log, working, "log", telling.text(f"{number}\n"), append=number > 0, last=False)
        telling.chunk(log, working, "dot.png", telling.picture(), last=False)
    stopped(working, of_turn=end)
    [left] = [entry["artifacts"] for entry in live(working) if entry.get("artifacts")]
    told = [(one["name"], one["kind"], one["isUnfinished"]) for one in left]
    assert told == [("log", "text", True), ("dot.png", "file", True)]
    assert "0\n1\n2\n" in left[0]["html"]
    assert ada_browser.get(left[0]["parts"][0]["href"]).text == "0\n1\n2\n"
    assert ada_browser.get(left[1]["parts"][0]["href"]).content == telling.PNG
    for address in ("files", f"artifacts/{working.task}/log/look"):
        assert "Unfinished" in ada_browser.get(f"/sessions/{working.context}/{address}").text, address


def test_repeated_attempt_leaves_nothing_of_the_first(working):
    with ledger.writing(working.context) as log:
        for name in ("log", "other"):
            telling.chunk(log, working, name, telling.text("first"), last=False)
        log.add(EventType.AGENT_START, {"attempt": 2, "turn": 1, "messageId": "first"}, task=working.task)
        telling.chunk(log, working, "log", telling.text("second"), last=False)
    stopped(working)
    [left] = of_kind(first_paint(working), "made")
    assert (left["name"], "second" in left["html"], "first" in left["html"]) == ("log", True, False)


def test_thousands_of_pieces_cost_few_queries_and_bytes(ada, working):
    def shown(most=1000):
        context.refresh_from_db(fields=["last_event"])
        with CaptureQueriesContext(connection) as asked:
            found = of_kind(page_state(ada.principal, context)["patch"], "made")
        assert len(asked) <= most
        return found, len(asked)

    def add(numbers):
        with ledger.writing(working.context) as log:
            for one in numbers:
                telling.chunk(log, working, "log", telling.text(f"{one:04}\n"), append=one > 0, last=False)

    context = Context.objects.select_related("agent").get(pk=working.context)
    add(range(1))
    _, few = shown()
    add(range(1, 5000))
    [making], _ = shown(few)
    assert (making["size"], making["text"][-10:]) == (25_000, "4998\n4999\n")
    assert len(making["text"]) <= 20_010
    stopped(working)
    [left], _ = shown(few + 2)
    assert ("0000\n0001\n" in left["html"], len(left["html"]) < 25_000) == (True, True)


def test_suggestions_are_for_agents_the_owner_may_use(ada, echo, hello):
    Agent.objects.filter(pk=hello.pk).update(access=Agent.Access.GROUPS)
    receipt = telling.begun(ada, echo)
    told = [{"agent": "echo", "text": "<i>Hi</i>"}, {"agent": "hello", "text": "Hi"}, {"agent": 1}, "?"]
    said = {"messageId": "tries", "parts": [{"text": "Try these."}], "metadata": {"suggestions": told}}
    with ledger.writing(receipt.context) as log:
        telling.work(log, receipt)
        telling.status(log, receipt, "completed", "", message=said)
    html = live(receipt)[-1]["message"]["html"]
    assert re.findall('data-begin="([^"]*)"', html) == ["/agents/echo/messages"]
    assert "&lt;i&gt;Hi" in html
