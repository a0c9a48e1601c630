"""Search finds messages, artifacts and titles that the caller may see."""

import asyncio
import base64
import uuid

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import db
from agentkit import Chunk, Completed
from apps.accounts.principals import ANONYMOUS
from apps.engine import accept
from apps.features.archive.archiving import move_to_cold_storage
from apps.features.forks import forking
from apps.features.search import indexing, jobs, queries
from apps.features.search.indexing import text_of
from apps.features.search.models import Indexed, SearchEntry
from apps.features.search.tokenizer import tokenize
from apps.features.sessions import deletion
from apps.record import ledger
from apps.record.errors import InvalidParams
from apps.record.events import EventType
from apps.record.models import Context, Message
from tests.record.archiving import had_a_long_talk, put_away
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


def index_all():
    while indexing.catch_up_all():
        pass


def marked(found):
    return "".join(f"[{piece['text']}]" if piece["hit"] else piece["text"] for piece in found.excerpt)


def test_what_was_said_a_moment_ago_is_found(ada, tell):
    sent = tell("The kettle is on the balcony")
    found = queries.search(ada.principal, "kettle", kinds=["message"]).results
    assert [(one.context.pk, one.index, one.name) for one in found] == [(sent.context, 1, "user")]
    assert marked(found[0]) == "The [kettle] is on the balcony"
    tell("And the Kettle boils", contextId=Context.objects.get().context_id)
    assert len(texts(ada.principal, "kettle")) == 2


def test_nobody_finds_what_is_somebody_elses(ada, bob, tell):
    tell("a secret garden")
    tell("an open garden", user=bob)
    assert texts(ada.principal, "garden") == ["a secret garden"]
    assert texts(bob.principal, "garden") == ["an open garden"]
    assert texts(bob.principal, f"@{ada.pk}") == []
    assert texts(bob.principal, f'garden" OR owner_id : "{ada.pk}') == []
    assert queries.search(ANONYMOUS, "garden").results == []


def test_words_phrases_beginnings_and_what_is_not_wanted(ada, tell):
    for text in ("a red apple pie", "red is the apple", "an APPLE a day", "what an app", "crème brûlée",
                 "in snake_case.py, line 3", "done 🎉!"):  # fmt: skip
        tell(text)
    for query, found in [
        ("red apple", {"a red apple pie", "red is the apple"}),
        ('"red apple"', {"a red apple pie"}),
        ('"apple red"', set()),
        ("apple -pie", {"red is the apple", "an APPLE a day"}),
        ('apple -"red apple" -day', {"red is the apple"}),
        ("app*", {"a red apple pie", "red is the apple", "an APPLE a day", "what an app"}),
        ('"red app"*', {"a red apple pie"}),
        ("ÁPPLE", {"a red apple pie", "red is the apple", "an APPLE a day"}),
        ("creme brulee", {"crème brûlée"}),
        ("crème", {"crème brûlée"}),
        ("snake_case", {"in snake_case.py, line 3"}),
        ("snake", {"in snake_case.py, line 3"}),
        ("case.py", {"in snake_case.py, line 3"}),
        ("-apple", set()),
        ("apple OR pie", set()),
        ("🎉", {"done 🎉!"}),
        ('"', set()),
        ("", set()),
    ]:
        assert set(texts(ada.principal, query)) == found, query


def test_scripts_without_spaces_are_found_by_any_stretch(ada, tell):
    for text in ("東京都に行く", "京都は寒い", "入門Python編", "ภาษาไทยง่าย", "한국어 문서", "हिन्दी भाषा"):
        tell(text)
    for query, found in [
        ("東京", {"東京都に行く"}),
        ("京都", {"東京都に行く", "京都は寒い"}),
        ("東京都に", {"東京都に行く"}),
        ("都", {"東京都に行く", "京都は寒い"}),
        ("く", {"東京都に行く"}),
        ('"京都は"', {"京都は寒い"}),
        ("東京 -行く", set()),
        ("京都 -東京", {"京都は寒い"}),
        ("入門python", {"入門Python編"}),
        ("ไทย", {"ภาษาไทยง่าย"}),
        ("한국", set()),
        ("한국*", {"한국어 문서"}),
        ("हिन्दी", {"हिन्दी भाषा"}),
    ]:
        assert set(texts(ada.principal, query)) == found, query


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(query=st.text(max_size=120) | st.text(alphabet="ab\"*-():\\^{}+&|!<>@'% 東ย", max_size=60))
def test_no_query_is_an_error(ada, tell, query):
    if not Message.objects.exists():
        tell("ab a b 東ย")
    queries.search(ada.principal, query)
    list(queries.matching_sessions(ada.principal, query))


def test_a_query_of_many_words_is_no_error_either_but_one_that_is_too_long(ada, tell):
    tell(" ".join("a" * 250))
    assert len(texts(ada.principal, "a " * 249)) == 1
    assert len(texts(ada.principal, '"' + "a " * 249 + '"')) == 1
    assert texts(ada.principal, "-b" * 250) == []
    with pytest.raises(InvalidParams) as refused:
        queries.search(ada.principal, "a" * 10_000)
    assert refused.value.field == "q"


def test_a_file_is_found_by_its_name_and_its_text(ada, tell, echo, said):
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


def test_what_is_delivered_is_found_from_then_on(ada, tell):
    sent = tell("write about owls")
    held = begin(sent.run)
    say(held, Chunk("report", "The owl report", "", [{"text": "Owls hunt at "}], append=False, last=False))
    say(held, Chunk("report", "The owl report", "", [{"text": "night"}], append=True, last=True))
    assert queries.search(ada.principal, "hunt").results == []
    end(held, Completed("Done, with wings"))
    [found] = queries.search(ada.principal, "hunt").results
    assert (found.kind, found.name, found.key) == ("artifact", "The owl report", f"{sent.task}/report")
    assert [one.name for one in queries.search(ada.principal, "wings").results] == ["agent"]


def test_an_answer_is_found_once(ada, tell):
    held = begin(tell("say it").run)
    say(held, Chunk("answer", "answer", "", [{"text": "A heron"}], append=False, last=True))
    end(held, Completed("A heron"))
    assert [one.kind for one in queries.search(ada.principal, "heron").results] == ["message"]


def test_a_title_is_found_by_its_newest_words(ada, tell):
    sent = tell("first words")
    assert [one.kind for one in queries.search(ada.principal, "first", kinds=["session"]).results] == ["session"]
    with ledger.writing(sent.context) as log:
        log.add(EventType.SESSION_RENAMED, {"title": "Plans for spring"})
    assert queries.search(ada.principal, "first", kinds=["session"]).results == []
    assert set(queries.matching_sessions(ada.principal, "spring")) == {sent.context}


def test_results_are_narrowed(ada, tell, countdown, said):
    one, two = tell("pear"), tell("pear tree")
    other = accept.accept(ada.principal, countdown, said("pear count"))
    assert texts(ada.principal, "pear", session=one.context) == ["pear"]
    assert texts(ada.principal, "pear", agent="countdown") == ["pear count"]
    assert texts(ada.principal, "pear", agent="nobody") == []
    first = Message.objects.get(context=two.context)
    assert texts(ada.principal, "pear", before=first.created_at) == ["pear"]
    assert set(queries.matching_sessions(ada.principal, "pear")) == {one.context, two.context, other.context}


def test_what_is_about_it_comes_first_then_what_is_new(ada, tell):
    tell("plum " + "and much else " * 40)
    tell("plum jam")
    for _ in range(3):
        tell("a filler of other words")
    tell("plum pie")
    found = texts(ada.principal, "plum")
    assert found[:2] == ["plum pie", "plum jam"]
    assert len(found) == 3


def test_pages_go_on_where_they_ended_whatever_is_said_meanwhile(ada, tell):
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


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite ranks all")
def test_of_very_many_results_the_newest_are_ranked(ada, tell, monkeypatch):
    for text in ("bread bread bread", "bread and honey", "some water", "bread and jam"):
        tell(text)
    assert len(texts(ada.principal, "bread")) == 3
    monkeypatch.setattr(queries, "RANKED", 2)
    assert set(texts(ada.principal, "bread")) == {"bread and jam", "bread and honey"}
    assert texts(ada.principal, "water") == ["some water"]
    pages = [queries.search(ada.principal, "bread", kinds=["message"], limit=1)]
    pages.append(queries.search(ada.principal, "bread", kinds=["message"], limit=1, after=pages[0].after))
    assert len({page.results[0].key for page in pages}) == 2
    assert pages[1].after is None


def test_a_search_asks_as_many_queries_for_many_as_for_few(ada, tell):
    counted = []
    for number in (3, 27):
        for _ in range(number):
            tell("quince", contextId=str(uuid.uuid4()))
        index_all()
        with CaptureQueriesContext(connection) as captured:
            found = queries.search(ada.principal, "quince", kinds=["message"]).results
        counted.append((len(captured), len(found)))
    asked = 4 if connection.vendor == "postgresql" else 3
    assert counted == [(asked, 3), (asked, 30)]


def test_nothing_of_a_cleared_conversation_is_found(ada, tell, echo):
    sent, kept = tell("melon one"), tell("melon two")
    assert len(texts(ada.principal, "melon")) == 2
    deletion.delete_context(ada.principal, echo, Context.objects.get(pk=sent.context).context_id)
    assert not SearchEntry.objects.filter(context=sent.context).exists()
    assert texts(ada.principal, "melon") == ["melon two"]
    indexing.reset_index()
    index_all()
    assert {one.context_id for one in SearchEntry.objects.all()} == {kept.context}


def test_what_forks_share_is_found_once_and_goes_to_the_heir_when_its_session_is_cleared(ada, tell):
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


def test_what_is_in_cold_storage_is_found(ada, echo, said):
    talk = put_away(had_a_long_talk(ada, echo, said))
    words_of = [text_of(message.parts) for message in Message.objects.filter(context=talk)]
    move_to_cold_storage(talk.pk)
    assert not Message.objects.filter(context=talk).exists()
    assert SearchEntry.objects.filter(context=talk, kind="message").count() == len(words_of)
    word = next(tokenize(words_of[0])).text
    assert talk.pk in {one.context.pk for one in queries.search(ada.principal, word, kinds=["message"]).results}
    indexing.reset_index()
    index_all()
    assert SearchEntry.objects.filter(context=talk, kind="message").count() == len(words_of)


def test_who_indexes_late_writes_nothing_of_what_was_cleared_meanwhile(ada, tell, echo, monkeypatch):
    sent = tell("a grape")
    upsert = indexing.lock_indexed

    def cleared_first(contexts):
        monkeypatch.undo()
        return upsert(contexts)

    behind = list(indexing.indexable_contexts().select_related("indexed"))
    deletion.delete_context(ada.principal, echo, Context.objects.get().context_id)
    monkeypatch.setattr(indexing, "lock_indexed", cleared_first)
    indexing.index_contexts(behind)
    assert not SearchEntry.objects.filter(context=sent.context).exists()


async def test_two_that_index_at_the_same_time_write_everything_once(ada, tell):
    for number in range(30):
        await db.run(tell, f"cherry {number}")
    await asyncio.gather(*(db.run(indexing.catch_up_all) for _ in range(4)))
    while await db.run(indexing.catch_up_all):
        pass
    found = await db.run(lambda: queries.search(ada.principal, "cherry", kinds=["message"], limit=100).results)
    assert len({one.key for one in found}) == len(found) == 30


def test_a_long_conversation_is_indexed_in_stretches(ada, tell, monkeypatch):
    monkeypatch.setattr(indexing, "EVENTS_AT_ONCE", 5)
    sent = tell("lemon 0")
    name = Context.objects.get().context_id
    for number in range(1, 20):
        tell(f"lemon {number}", contextId=name)
    queries.search(ada.principal, "lemon")
    assert SearchEntry.objects.filter(kind="message").count() == 5, "who searches waits for a bounded piece of work"
    assert Indexed.objects.get(pk=sent.context).upto == 5
    while indexing.catch_up_newest():
        pass
    assert len(texts(ada.principal, "lemon")) == 20


def test_a_very_long_message_is_found_by_its_beginning(ada, tell):
    tell("begonia " + " ".join(f"w{number}" for number in range(30_000)) + " aster")
    assert len(queries.search(ada.principal, "begonia w999").results) == 1
    assert queries.search(ada.principal, "aster", kinds=["message"]).results == []
    tell("z" * 50_000 + " lily")
    assert len(queries.search(ada.principal, "lily", kinds=["message"]).results) == 1


def test_an_excerpt_shows_where_it_was_found_as_data(ada, tell):
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


def test_the_index_is_brought_up_to_date_by_jobs_and_by_a_command(ada, tell, capsys):
    sent = tell("an apricot")
    assert not SearchEntry.objects.exists(), "sending does nothing for the index"
    jobs.index_newest()
    assert SearchEntry.objects.filter(context=sent.context, kind="message").count() == 1
    SearchEntry.objects.all().delete()
    call_command("index_search")
    assert not SearchEntry.objects.exists()
    call_command("index_search", "--all")
    assert SearchEntry.objects.filter(context=sent.context).count() == 2
    assert "2 entries from 1 session" in capsys.readouterr().out
    tell("another apricot")
    jobs.index_all()
    assert SearchEntry.objects.filter(kind="message").count() == 2


def test_the_job_looks_up_the_sessions_of_the_newest_events_by_their_keys(ada, tell, monkeypatch):
    monkeypatch.setattr(indexing, "LOOKED_UP_AT_ONCE", 2)
    for _ in range(5):
        tell("a papaya", contextId=str(uuid.uuid4()))
    with CaptureQueriesContext(connection) as captured:
        jobs.index_newest()
    assert SearchEntry.objects.filter(kind="message").count() == 5
    joined = [one["sql"] for one in captured if "record_event" in one["sql"] and "record_context" in one["sql"]]
    assert joined == []


def test_sqlite_asks_for_the_words_once_whatever_a_search_is_narrowed_by(ada, tell):
    if connection.vendor != "sqlite":
        return  # PostgreSQL's planner knows the row counts
    sent = tell("a lychee")
    narrowings = ({}, {"kinds": ["message"]}, {"session": sent.context}, {"agent": "echo"}, {"before": timezone.now()})
    for narrowed in narrowings:
        with CaptureQueriesContext(connection) as captured:
            queries.search(ada.principal, "lychee", **narrowed)
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + captured[-1]["sql"])
            plan = [row[-1] for row in cursor.fetchall()]
        # Entries are looked up from FTS5's results, not the reverse.
        assert "SEARCH search_searchentry USING INTEGER PRIMARY KEY (rowid=?)" in plan, plan


def test_characters_that_show_nothing_do_not_matter(ada, tell):
    for text, query in (("pass\u200bword", "password"), ("zebra", "ze\u00adb\u2060ra"), ("東\u200b京タワー", "東京")):
        tell(text)
        assert texts(ada.principal, query) == [text]
    assert texts(ada.principal, "\u200b\u3164") == []
