"""Search finds messages, artifacts and titles that the caller may see."""

import base64
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import OperationalError, connection
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit import Chunk, Completed
from apps.accounts.principals import ANONYMOUS
from apps.agents.models import DRAFT_PREFIX
from apps.agents.registration import register_hosted
from apps.conversations.api.sessions import Hit
from apps.conversations.forks import forking
from apps.conversations.search import indexing, jobs, queries, sql
from apps.conversations.search.indexing import text_of
from apps.conversations.search.models import Indexed, Progress, SearchEntry
from apps.conversations.search.tokenizer import tokenize, words_in
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.optional.archive.archiving import move_to_cold_storage
from apps.optional.archive.restoring import restore_context
from apps.optional.transfers.importing import import_file
from apps.record import ledger
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Event, Message
from parley import db
from parley.db.sql import write_transaction
from tests.archive.archiving import had_a_long_talk, put_away
from tests.transfers import samples
from tests.working import begin, end, say

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("each database has an index of its own")]


@pytest.fixture
def tell(ada, echo, said):
    def record(text, user=ada, **fields):
        return accept.accept(user.principal, echo, said(text, **fields))

    return record


def texts(principal, query, **narrowed):
    return [
        Message.objects.get(pk=found.key).parts[0]["text"]
        for found in queries.search(principal, query, kinds=["message"], **narrowed).results
    ]


def marked(found):
    return "".join(f"[{piece['text']}]" if piece["hit"] else piece["text"] for piece in found.excerpt)


def test_messages_are_found_by_those_who_see_them(ada, bob, tell, countdown, said):
    sent = tell("The kettle is on the balcony")
    found = queries.search(ada.principal, "kettle", kinds=["message"]).results
    assert [(one.context.pk, one.index, one.name) for one in found] == [(sent.context, 1, "user")]
    assert marked(found[0]) == "The [kettle] is on the balcony"
    tell("his Kettle boils", user=bob)
    other = accept.accept(ada.principal, countdown, said("kettle count"))
    assert set(texts(ada.principal, "kettle")) == {"The kettle is on the balcony", "kettle count"}
    assert texts(bob.principal, "kettle") == ["his Kettle boils"]
    assert texts(bob.principal, f'kettle" OR owner_id : "{ada.pk}') == texts(bob.principal, f"@{ada.pk}") == []
    assert queries.search(ANONYMOUS, "kettle").results == []
    assert texts(ada.principal, "kettle", session=sent.context) == ["The kettle is on the balcony"]
    assert texts(ada.principal, "kettle", agent="countdown") == ["kettle count"]
    assert texts(ada.principal, "kettle", agent="nobody") == []
    assert texts(ada.principal, "kettle", before=Message.objects.get(context=other.context).created_at) == [
        "The kettle is on the balcony"
    ]
    assert set(queries.matching_sessions(ada.principal, "kettle")) == {sent.context, other.context}


def test_words_phrases_prefixes_and_exclusions(ada, tell):
    for text in ("a red apple pie", "red is the apple", "an APPLE a day", "what an app", "crème brûlée",
                 "in snake_case.py, line 3", "done 🎉!", "東京都に行く", "京都は寒い", "ภาษาไทยง่าย"):  # fmt: skip
        tell(text)
    pie, red, day, app = "a red apple pie", "red is the apple", "an APPLE a day", "what an app"
    for searched, found in [
        (['"apple red"', "-apple", "apple OR pie", '"', "", "\u200b\u3164", "東京 -行く"], set()),
        (["red apple"], {pie, red}),
        (['"red apple"', '"red app"*'], {pie}),
        (["apple -pie"], {red, day}),
        (['apple -"red apple" -day'], {red}),
        (["app*"], {pie, red, day, app}),
        (["ÁPPLE"], {pie, red, day}),
        (["creme brulee", "crème"], {"crème brûlée"}),
        (["snake_case", "snake", "case.py", "sna\u00adke"], {"in snake_case.py, line 3"}),
        (["🎉"], {"done 🎉!"}),
        (["東京", "東京都に", "く"], {"東京都に行く"}),
        (["京都", "都"], {"東京都に行く", "京都は寒い"}),
        (['"京都は"', "京都 -東京"], {"京都は寒い"}),
        (["ไทย"], {"ภาษาไทยง่าย"}),
    ]:
        for query in searched:
            assert set(texts(ada.principal, query)) == found, query


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(query=st.text(max_size=120) | st.text(alphabet="ab\"*-():\\^{}+&|!<>@'% 東ย", max_size=60))
def test_no_query_is_an_error(ada, tell, query):
    if not Message.objects.exists():
        tell("ab a b 東ย")
    queries.search(ada.principal, query)
    list(queries.matching_sessions(ada.principal, query))


def test_very_long_queries_and_messages_are_bounded(ada, tell):
    tell(" ".join("a" * 250))
    assert len(texts(ada.principal, '"' + "a " * 249 + '"')) == 1
    with pytest.raises(InvalidParams) as refused:
        queries.search(ada.principal, "a" * 10_000)
    assert refused.value.field == "q"
    tell("begonia " + " ".join(f"w{number}" for number in range(30_000)) + " aster")
    assert len(queries.search(ada.principal, "begonia w999").results) == 1
    assert queries.search(ada.principal, "aster", kinds=["message"]).results == []
    tell("z" * 50_000 + " lily")
    assert len(queries.search(ada.principal, "lily", kinds=["message"]).results) == 1


def test_files_are_found_by_name_and_text(ada, tell, echo, said):
    csv = base64.b64encode(b"city;people\nBregenz;29000\n").decode()
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n Dornbirn").decode()
    sent = accept.accept(ada.principal, echo, said(parts=[
        {"raw": csv, "filename": "cities.csv", "mediaType": "text/csv"},
        {"raw": picture, "filename": "map.png", "mediaType": "image/png"},
        {"text": "x" * 300_000 + " Feldkirch", "filename": "long.txt"},
        {"text": "Bludenz " + "y " * 200_000, "mediaType": "text/plain"},
        {"data": {"town": "Lustenau", "size": 23000}},
    ]))  # fmt: skip
    assert "stored" in Message.objects.get(context=sent.context).parts[3]
    for query in ("cities.csv", "bregenz", "29000", "map.png", "bludenz"):
        assert len(queries.search(ada.principal, query, kinds=["message"]).results) == 1, query
    for query in ("dornbirn", "feldkirch", "town"):
        assert queries.search(ada.principal, query, kinds=["message"]).results == [], query


def test_delivered_results_and_titles_are_found(ada, tell):
    sent = tell("write about owls")
    held = begin(sent.run)
    say(held, Chunk("report", "The owl report", "", [{"text": "Owls hunt at "}], append=False, last=False))
    say(held, Chunk("report", "The owl report", "", [{"text": "night"}], append=True, last=True))
    assert queries.search(ada.principal, "hunt").results == []
    end(held, Completed("Done, with wings"))
    [found] = queries.search(ada.principal, "hunt").results
    assert (found.kind, found.name, found.key) == ("artifact", "The owl report", f"{sent.task}/report")
    assert [one.name for one in queries.search(ada.principal, "wings").results] == ["agent"]
    held = begin(tell("say it").run)
    say(held, Chunk("answer", "answer", "", [{"text": "A heron"}], append=False, last=True))
    end(held, Completed("A heron"))
    assert [one.kind for one in queries.search(ada.principal, "heron").results] == ["message"], "an answer once"
    assert [one.kind for one in queries.search(ada.principal, "owls", kinds=["session"]).results] == ["session"]
    with ledger.writing(sent.context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "Plans for spring"})
    assert queries.search(ada.principal, "owls", kinds=["session"]).results == []
    assert set(queries.matching_sessions(ada.principal, "spring")) == {sent.context}


def test_best_matches_come_first_then_the_newest(ada, tell, monkeypatch):
    tell("plum " + "and much else " * 40)
    tell("plum jam")
    for _ in range(3):
        tell("a filler of other words")
    tell("plum pie")
    found = texts(ada.principal, "plum")
    assert (found[:2], len(found)) == (["plum pie", "plum jam"], 3)
    if connection.vendor == "postgresql":  # SQLite ranks all
        monkeypatch.setattr(queries, "RANKED", 2)
        assert set(texts(ada.principal, "plum")) == {"plum pie", "plum jam"}
        assert len(texts(ada.principal, "filler")) == 2


def test_pages_continue_whatever_is_said_meanwhile(ada, tell):
    for number in range(7):
        tell(f"fig number {number}" + " fig" * (number % 3))
    whole = [one.key for one in queries.search(ada.principal, "fig", kinds=["message"]).results]
    seen, after = [], None
    while True:
        page = queries.search(ada.principal, "fig", kinds=["message"], limit=2, after=after)
        seen += [one.key for one in page.results]
        tell("fig fig fig")
        indexing.catch_up(ada.principal)
        if (after := page.after) is None:
            break
    assert len(whole) == 7
    assert sorted(seen) == sorted(whole)
    if connection.vendor == "postgresql":  # FTS5's scores depend on all rows
        assert seen == whole


def test_cleared_conversation_is_not_found(ada, tell, echo):
    sent, kept = tell("melon one"), tell("melon two")
    assert len(texts(ada.principal, "melon")) == 2
    deletion.delete_context(ada.principal, echo, Context.objects.get(pk=sent.context).context_id)
    assert not SearchEntry.objects.filter(context=sent.context).exists()
    assert texts(ada.principal, "melon") == ["melon two"]
    indexing.reset_index()
    indexing.index_everything()
    assert {one.context_id for one in SearchEntry.objects.all()} == {kept.context}


def test_shared_past_of_forks_is_found_once(ada, tell):
    sent = tell("papaya shared")
    name = Context.objects.get().context_id
    tell("papaya later", contextId=name)
    child = forking.fork(ada.principal, Context.objects.get(), 1, reason="fork")
    assert sorted(texts(ada.principal, "papaya")) == ["papaya later", "papaya shared"]
    assert texts(ada.principal, "papaya", session=child.pk) == ["papaya shared"]
    deletion.delete_session(ada.principal, sent.context)
    [found] = queries.search(ada.principal, "papaya", kinds=["message"]).results
    assert (found.context.pk, marked(found)) == (child.pk, "[papaya] shared")
    sent = tell("guava, which is not indexed yet")
    child = forking.fork(ada.principal, Context.objects.get(pk=sent.context), 1, reason="fork")
    indexing.index_completely(child)
    deletion.delete_session(ada.principal, sent.context)
    assert [one.context.pk for one in queries.search(ada.principal, "guava", kinds=["message"]).results] == [child.pk]


def test_archived_sessions_are_found(ada, echo, said):
    talk = put_away(had_a_long_talk(ada, echo, said))
    words_of = [text_of(message.parts) for message in Message.objects.filter(context=talk)]
    move_to_cold_storage(talk.pk)
    assert not Message.objects.filter(context=talk).exists()
    assert SearchEntry.objects.filter(context=talk, kind="message").count() == len(words_of)
    word = next(tokenize(words_of[0])).text
    assert talk.pk in {one.context.pk for one in queries.search(ada.principal, word, kinds=["message"]).results}
    indexing.reset_index()
    indexing.index_everything()
    assert SearchEntry.objects.filter(context=talk, kind="message").count() == len(words_of)


def test_late_indexing_writes_nothing_of_cleared_sessions(ada, tell, echo, monkeypatch):
    sent = tell("a grape")
    upsert = indexing.lock_indexed

    def cleared_first(contexts):
        monkeypatch.undo()
        return upsert(contexts)

    behind = sql.BEHIND.all([sent.context])
    deletion.delete_context(ada.principal, echo, Context.objects.get().context_id)
    monkeypatch.setattr(indexing, "lock_indexed", cleared_first)
    indexing.index_sessions(behind)
    assert not SearchEntry.objects.filter(context=sent.context).exists()


def test_excerpt_marks_the_hits(ada, tell):
    for text, query, shown in [
        ("one two three", "two", "one [two] three"),
        ("<b>bold</b> & more", "bold", "<b>[bold]</b> & more"),
        ("東京都に行く", "京都", "東[京都]に行く"),
        ('People [1](https://ulm.example/u "Ulm") there', "people", "[People] 1 there"),
        ("red apple, red pie", '"red pie"', "red apple, [red pie]"),
        ("w " * 500 + "needle here " + "v " * 500, "needle", "[needle]"),
        ("Ein Maß, zwei Maße: & Straße", "strasse", "& [Straße]"),
    ]:
        tell(text)
        [found] = queries.search(ada.principal, query, kinds=["message"]).results
        assert shown in marked(found), query
        assert len(marked(found)) < 300


def follow():
    """What the job does within two of its intervals: it indexes what it saw as new the time before."""
    jobs.index_new()
    jobs.index_new()


def is_indexed(*sessions):
    return [SearchEntry.objects.filter(context=session, kind="message").exists() for session in sessions]


def test_job_and_command_update_the_index(ada, tell, capsys):
    sent = tell("an apricot")
    assert not SearchEntry.objects.exists(), "sending does nothing for the index"
    follow()
    assert SearchEntry.objects.filter(context=sent.context, kind="message").count() == 1
    SearchEntry.objects.all().delete()
    call_command("index_search")
    assert not SearchEntry.objects.exists()
    call_command("index_search", "--all")
    assert SearchEntry.objects.filter(context=sent.context).count() == 2
    assert "2 entries from 1 session" in capsys.readouterr().out
    tell("another apricot")
    follow()
    assert SearchEntry.objects.filter(kind="message").count() == 2


@pytest.mark.services("SQLite has one writer", only=True)
def test_events_committed_late_are_indexed(ada, tell):
    jobs.index_new()
    with write_transaction():
        late = tell("it took its key first")
        early = db.submit(tell, "it was committed first").result()
        db.submit(follow).result()
        assert not SearchEntry.objects.filter(context=early.context).exists(), "the job waits"
    follow()
    assert is_indexed(late.context, early.context) == [True, True]


def test_job_goes_on_where_it_was_interrupted(ada, tell, monkeypatch):
    jobs.index_new()
    sent = [tell(f"peach {number}").context for number in range(3)]
    jobs.index_new()
    events = Event.objects.filter(context=sent[0]).order_by("pk").values_list("pk", flat=True)
    monkeypatch.setattr(jobs, "EVENTS", len(events))
    with monkeypatch.context() as broken:
        index, calls = indexing.index_sessions, []

        def index_once(sessions):
            if calls:
                raise OperationalError
            calls.append(index(sessions))

        broken.setattr(indexing, "index_sessions", index_once)
        with pytest.raises(OperationalError):
            jobs.index_new()
    assert Progress.objects.get().event == list(events)[-1]
    assert is_indexed(*sent) == [True, False, False]
    with monkeypatch.context() as hurried:
        hurried.setattr(jobs, "SECONDS", -1)
        jobs.index_new()
    assert is_indexed(*sent) == [True, False, False], "a run without time leaves the rest to the next"
    jobs.index_new()
    assert is_indexed(*sent) == [True] * 3


def test_a_failing_session_stops_no_other(ada, tell, monkeypatch, caplog):
    jobs.index_new()
    poison, other = tell("poison").context, tell("a pear").context
    make = indexing.make_entry

    def make_or_fail(context, *rest):
        if context == poison:
            raise ValueError("it cannot be indexed")
        return make(context, *rest)

    monkeypatch.setattr(indexing, "make_entry", make_or_fail)
    follow()
    assert is_indexed(poison, other) == [False, True]


def test_sessions_from_before_the_job_are_indexed(ada, tell):
    old = tell("a medlar")
    jobs.index_new()
    assert is_indexed(old.context) == [True]
    indexing.reset_index()
    SearchEntry.objects.all().delete()
    jobs.index_new()
    assert is_indexed(old.context) == [True], "after a reset"


def test_imported_sessions_are_indexed(ada, echo):
    jobs.index_new()
    [imported] = import_file(ada.principal, echo, samples.as_bytes(samples.chatgpt())).results
    follow()
    assert is_indexed(imported.session) == [True]


def test_sessions_are_indexed_when_they_leave_cold_storage(ada, echo, said):
    talk = put_away(had_a_long_talk(ada, echo, said))
    jobs.index_new()
    move_to_cold_storage(talk.pk)
    indexing.reset_index()
    jobs.index_new()
    restore_context(talk.pk)
    follow()
    assert Indexed.objects.get(pk=talk.pk).upto == 0
    yesterday = timezone.now() - 2 * jobs.CHECK_EVERY  # the database has a clock of its own
    Progress.objects.update(checked_at=yesterday)
    jobs.index_new()
    assert Indexed.objects.get(pk=talk.pk).upto == talk.last_event


def test_other_peoples_and_agents_sessions_have_no_entries(ada, tell, echo, said):
    sent = [tell(text).context for text in ("of a child", "of nobody", "of a draft", "in cold storage", "her own")]
    child, nobodys, draft, cold, _ = (Context.objects.filter(pk=one) for one in sent)
    child.update(parent_task=uuid.uuid4())
    nobodys.update(owner=None)
    draft.update(agent=register_hosted(f"{DRAFT_PREFIX}echo", echo.handler))
    cold.update(cold_file="talk.jsonl")
    indexing.index_everything()
    jobs.index_new()
    assert is_indexed(*sent) == [False, False, False, False, True]


def test_long_texts_are_written_one_by_one(ada, tell, monkeypatch):
    monkeypatch.setattr(indexing, "CHARACTERS_AT_ONCE", 10)
    monkeypatch.setattr(sql, "LONG", 20)
    for text in ("a quince, which is a long text", "plum", "a fig, which is one, too"):
        tell(text)
    indexing.index_everything()
    assert set(texts(ada.principal, "long OR one OR plum")) == set()
    assert len(texts(ada.principal, "which")) == 2
    assert texts(ada.principal, "plum") == ["plum"]


@given(text=st.text(max_size=200) | st.text(alphabet="ab É\u0301ß_-1東京ไทย\u200b🎉\u00ad\u3000\x85", max_size=80))
def test_words_are_the_same_without_their_places(text):
    assert words_in(text) == [word.text for word in tokenize(text)]


# `GET /search` finds messages and artifacts that the caller may see.


def shown(answer):
    assert answer.status == 200, answer.content
    return ["".join(piece["text"] for piece in one["excerpt"]) for one in answer.body["items"]]


async def test_hit_has_place_and_marked_excerpt(ada_calls, tell):
    sent = await sync_to_async(tell)("the <b>otter</b> swims")
    answer = await ada_calls.get("/search?q=otter&kind=message")
    [hit] = answer.body["items"]
    assert set(hit) == set(Hit().fields)
    assert (hit["kind"], hit["sessionId"], hit["index"], hit["name"]) == ("message", str(sent.context), 1, "user")
    assert hit["agent"] == "echo"
    assert hit["excerpt"] == [
        {"text": "the <b>", "hit": False},
        {"text": "otter", "hit": True},
        {"text": "</b> swims", "hit": False},
    ]
    assert answer.body["nextCursor"] == ""


async def test_wrong_searches_are_refused_odd_words_are_not(ada_calls):
    for query, field in [
        ("q=", "q"),
        ("q=a%00", "q"),
        ("q=a&kind=cloud", "kind[0]"),
        ("q=a&session=x", "session"),
        ("q=a&before=soon", "before"),
        ("q=a&cursor=made-up", "cursor"),
        ("q=a&colour=red", "colour"),
    ]:
        answer = await ada_calls.get(f"/search?{query}")
        assert (answer.status, answer.fields) == (422, [field]), query[:50]
    for odd in ("%22", "-a", "%F0%9F%8E%89", "a%22b-(c%29%3A*", "AND%20OR%20NOT%20NEAR(a)"):
        assert shown(await ada_calls.get(f"/search?q={odd}")) == []
