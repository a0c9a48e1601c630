"""Vectors: made of passages, kept while they are true, searched with the words, and gone with their passages."""

import datetime
import logging
import random
import subprocess
from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync
from django.db import DatabaseError, connection

from apps.installation import embeddings
from apps.optional.knowledge import finding, indexing, sources, sql, vectors
from apps.optional.knowledge.finding import Asking, search
from apps.optional.knowledge.models import Collection, Source
from parley import db
from parley.db.sql import database_time, execute
from tests.faults.servers import program
from tests.knowledge import embedder, pgvector
from tests.knowledge.conftest import put

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("PostgreSQL keeps vectors by pgvector"),
]
RULES = "# Absence\nThirty days of leave.\n# Parking\nThe bicycles are parked below.\n"


@contextmanager
def in_its_place():
    """Django's connections lead to such a server, which has the tables of the tests' database and none of its rows."""
    with pgvector.server() as made:
        _copy_tables(made)
        before = {name: connection.settings_dict[name] for name in ("HOST", "PORT", "NAME", "USER", "PASSWORD")}
        there = {"HOST": "127.0.0.1", "PORT": made.port, "NAME": "postgres", "USER": "postgres", "PASSWORD": ""}
        _connect_to(there)
        try:
            yield
        finally:
            _connect_to(before)


def _copy_tables(made):
    own = connection.settings_dict
    password = f":{own['PASSWORD']}" if own["PASSWORD"] else ""
    url = f"postgres://{own['USER']}{password}@{own['HOST']}:{own['PORT']}/{own['NAME']}"
    dump = [program("pg_dump"), "--schema-only", "--no-owner", "--no-privileges", url]
    tables = subprocess.run(dump, check=True, capture_output=True).stdout
    load = [pgvector.installed() / "bin/psql", "--quiet", "--set=ON_ERROR_STOP=1", made.url]
    subprocess.run(load, check=True, input=tables, stdout=subprocess.DEVNULL)


def _connect_to(place):
    db.close()
    connection.close()
    if hasattr(connection, "close_pool"):
        connection.close_pool()
    connection.settings_dict.update(place)
    vectors.forget()


@pytest.fixture(scope="module", autouse=True)
def vector_database(django_db_setup, django_db_blocker):
    if connection.vendor != "postgresql":
        yield
        return
    with django_db_blocker.unblock(), in_its_place():
        yield


@pytest.fixture(autouse=True)
def model(settings, monkeypatch):
    monkeypatch.setattr(sources, "do_soon", lambda *_: None)
    monkeypatch.setattr(embeddings, "BATCH_SIZE", 2)
    monkeypatch.setattr(finding, "_away_until", float("-inf"))
    with embedder.serving() as made:
        settings.EMBEDDING_MODEL, settings.LLM_BASE_URL = "embedder", made.url
        vectors.forget()
        yield made
        vectors.drop_others(())


def work():
    """What a worker does for all that is due."""
    Source.objects.update(next_try_at=database_time(), lease_until=None)
    for key in indexing.due_sources():
        async_to_sync(indexing.index)(key)


@pytest.fixture
def rules(ada, handbook):
    source = sources.add_file(ada.principal, handbook, {"text": RULES, "filename": "rules.md"})
    work()
    return source


def found(ada, query):
    return [one.text for one in async_to_sync(search)(Asking(ada.principal), query)]


def kept():
    return [execute(f"SELECT count(*) FROM {table}", []).fetchone()[0] for table in sql.vector_tables()]


def test_meaning_finds_what_words_do_not(ada, rules):
    rules.refresh_from_db()
    assert (rules.state, rules.embedded_with) == ("ready", "embedder")
    assert found(ada, "vacation")[0] == "# Absence\nThirty days of leave."
    assert found(ada, "where are cycles?")[0] == "# Parking\nThe bicycles are parked below."


def test_only_new_passages_are_embedded(ada, handbook, rules, model):
    assert len(model.asked) == 2
    sources.add_file(ada.principal, handbook, {"text": RULES + "# House\nQuiet.", "filename": "rules.md"})
    work()
    assert model.asked[2:] == ["House\n# House\nQuiet."]
    assert kept() == [3]


def test_embedding_goes_on_where_it_stopped(ada, handbook, model):
    texts = [f"Rule number {number}." for number in range(5)]
    source = put(handbook, "rules.txt", *texts)
    model.failing_after = 1
    work()
    source.refresh_from_db()
    assert (source.state, source.embedded_with, kept()) == ("ready", "", [2])
    assert source.next_try_at > database_time()
    assert "Rule number 4." in found(ada, "rule number 4")
    model.failing_after = 100
    work()
    assert (sorted(model.asked), kept()) == (sorted([*texts, *model.asked[5:]]), [5])


@pytest.mark.parametrize("change", ["model", "dimensions"])
def test_another_model_replaces_all_vectors(ada, handbook, rules, model, settings, change):
    put(handbook, "other.txt", "Lunch begins at noon.")
    work()
    if change == "model":
        settings.EMBEDDING_MODEL = "better"
    else:
        model.dimensions = 192
        sources.reindex(rules, ada.principal)
        put(handbook, "new.txt", "Something new.")
    work()
    work()
    indexing.drop_unused_vectors()
    assert kept() == [3 if change == "model" else 4]
    assert found(ada, "vacation")[0] == "# Absence\nThirty days of leave."


def test_vectors_stay_while_their_model_is_used(ada, rules, settings):
    settings.EMBEDDING_MODEL = "better"
    assert indexing.drop_unused_vectors() == 0
    work()
    assert (kept(), found(ada, "vacation")[0]) == ([2, 2], "# Absence\nThirty days of leave.")
    assert (indexing.drop_unused_vectors(), kept()) == (1, [2])


@pytest.mark.parametrize("lost", ["table", "rows"])
def test_lost_vectors_are_made_again(ada, rules, lost):
    [table] = sql.vector_tables()
    execute(f"DROP TABLE {table}" if lost == "table" else f"DELETE FROM {table}", [])
    assert found(ada, "bicycles") == ["# Parking\nThe bicycles are parked below."]
    vectors.forget()
    work()
    assert kept() == [2]


def test_new_model_makes_sources_due_at_once(rules, settings):
    Source.objects.update(watch_hours=24, next_try_at=database_time() + datetime.timedelta(hours=20))
    assert not indexing.due_sources()
    settings.EMBEDDING_MODEL = "better"
    assert list(indexing.due_sources()) == [rules.pk]


def test_model_is_not_asked_in_vain(handbook, model, monkeypatch):
    def refuse(*_):
        raise DatabaseError("no")

    monkeypatch.setattr(vectors, "_make", refuse)
    for name in ("a.txt", "b.txt"):
        put(handbook, name, "Some text.")
    work()
    assert len(model.models) == 1


def test_claim_in_vain_waits_for_the_next_look(rules, settings):
    now = database_time()
    Source.objects.update(watch_hours=24, checked_at=now, next_try_at=now)
    async_to_sync(indexing.index)(rules.pk)
    rules.refresh_from_db()
    assert (rules.lease_until, rules.next_try_at) == (None, now + datetime.timedelta(hours=24))


def test_without_an_answering_model_words_decide(ada, rules, model, caplog):
    model.failing_after = 0
    with caplog.at_level(logging.WARNING, "parley.knowledge"):
        assert found(ada, "bicycles") == ["# Parking\nThe bicycles are parked below."]
        assert found(ada, "leave") == ["# Absence\nThirty days of leave."]
    assert len([one for one in caplog.records if "words alone" in one.getMessage()]) == 1
    assert len(model.models) == 2  # it was not asked again


def test_deleted_passages_leave_no_vector(ada, rules):
    Collection.objects.all().delete()
    assert kept() == [0]


def test_statements_of_a_search(ada, rules, django_assert_max_num_queries):
    vector = model_vector("vacation")
    places = finding.searchable(Asking(ada.principal))
    vectors.nearest(vector, places, 5)
    with django_assert_max_num_queries(4):  # collections, words, vectors, passages
        assert finding._find(Asking(ada.principal), ["vacation"], vector, 5)
    assert places == {rules.collection_id: 2}


def model_vector(text):
    return async_to_sync(embeddings.vector_of_query)(text, seconds=5)


@pytest.mark.services("recall of the index", only=True)
def test_index_finds_what_exact_search_finds(ada, handbook, model, monkeypatch):
    """In a collection that is half of what the index has, so that it must go on."""
    other = Collection.objects.create(owner=ada, workspace=ada.personal_workspace, name="Other")
    drawn = random.Random(7)
    for collection in (handbook, other):
        source = put(collection, "all.txt", *[f"Passage {number}" for number in range(1_500)])
        keys = list(source.passages.values_list("pk", flat=True))
        vectors.keep([(key, [drawn.gauss() for _ in range(48)]) for key in keys])
    execute("ANALYZE", [])
    places, hits = {handbook.pk: 1_500}, 0
    for _ in range(40):
        asked = [drawn.gauss() for _ in range(48)]
        monkeypatch.setattr(vectors, "EXACT_NUMBERS", 10**9)
        exact = {one.passage for one in vectors.nearest(asked, places, 5)}
        monkeypatch.setattr(vectors, "EXACT_NUMBERS", 0)
        hits += len(exact & {one.passage for one in vectors.nearest(asked, places, finding.CANDIDATES)[:5]})
    assert hits / (40 * 5) >= 0.9
    execute("SELECT pg_stat_force_next_flush()", [])
    scans = execute("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname LIKE '%%_nearest'", []).fetchone()[0]
    assert scans == 40
