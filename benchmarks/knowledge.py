"""A lookup of knowledge among many passages, on a PostgreSQL with pgvector of its own, in a process of its own.

`python -m benchmarks.knowledge PASSAGES QUERIES` prints figures as JSON. The call that makes the vector of a query is
not in them. Vectors are random directions around some centers, as texts of a few subjects have.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figures, latencies
from benchmarks.scale import Scale
from benchmarks.target import Target
from tests.faults.servers import Postgres
from tests.knowledge import pgvector

if TYPE_CHECKING:
    from apps.optional.knowledge.models import Source

DIMENSIONS, CENTERS, SPREAD = 384, 500, 0.6
COLLECTIONS = 10
VOCABULARY, WORDS = 30_000, 180  # different words, and words of a passage, as often as in texts (Zipf)
AT_ONCE = 2_000
RECALLED = 5


async def lookups(target: Target, scale: Scale) -> Figures:
    found = await asyncio.to_thread(
        target.inside.python, "-m", "benchmarks.knowledge", str(scale.many), str(scale.echoes)
    )
    figures: Figures = json.loads(found.stdout.strip().splitlines()[-1])
    return figures


def measured(passages: int, queries: int) -> Figures:
    with pgvector.server() as server:
        prepare(server)
        return figures_of(passages, queries)


def prepare(server: Postgres) -> None:
    """With memory for all that is searched, as a server of this size has."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        for name, value in {"shared_buffers": "1GB", "maintenance_work_mem": "512MB"}.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    server.restart("fast")
    os.environ["DATABASE_URL"] = server.url
    set_up()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def set_up() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    os.environ["EMBEDDING_MODEL"] = "benchmark"
    django.setup()


def figures_of(passages: int, queries: int) -> Figures:
    import numpy as np

    from apps.accounts.models import User
    from apps.optional.knowledge import finding, vectors
    from apps.optional.knowledge.finding import Asking

    owner = User.objects.create_user("knowledge@example.org")
    drawn, noise = random.Random(1), np.random.default_rng(1)
    centers = noise.normal(size=(CENTERS, DIMENSIONS))
    texts = words(drawn)
    fill(owner, passages, texts, lambda: directions(noise, centers, AT_ONCE))
    asking = Asking(owner.principal)
    places = finding.searchable(asking)
    asked = [list(map(float, one)) for one in directions(noise, centers, queries)]
    questions = [list(dict.fromkeys(next(texts).split()[:9])) for _ in range(queries)]
    ways: dict[str, Callable[[int], Any]] = {
        "words": lambda at: finding._by_words(places, questions[at]),
        "vectors": lambda at: vectors.nearest(asked[at], places, finding.CANDIDATES),
        "a whole lookup": lambda at: finding._find(asking, questions[at], asked[at], RECALLED),
    }
    figures: Figures = {}
    for title, way in ways.items():
        for at in range(min(queries, 20)):
            way(at)
        figures |= latencies([_took(way, at) for at in range(queries)], f"{title}, {passages} passages", 50, 95)
    return figures | {f"recall@{RECALLED}": recall(vectors, asked, places)}


def words(drawn: random.Random) -> Iterator[str]:
    """Texts without an end."""
    vocabulary = ["".join(drawn.choices("abcdefghijklmnoprstuvw", k=drawn.randint(3, 9))) for _ in range(VOCABULARY)]
    weights = [1 / (rank + 2) for rank in range(VOCABULARY)]
    while True:
        some = drawn.choices(vocabulary, weights, k=WORDS * AT_ONCE)
        for start in range(0, len(some), WORDS):
            yield " ".join(some[start : start + WORDS])


def directions(noise: Any, centers: Any, count: int) -> Any:
    """Vectors of length 1."""
    import numpy as np

    made = centers[noise.integers(0, len(centers), count)] + SPREAD * noise.normal(size=(count, DIMENSIONS))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def fill(owner: Any, passages: int, texts: Iterator[str], some: Callable[[], Any]) -> None:
    from django.conf import settings
    from django.db import connection

    from apps.optional.knowledge import vectors
    from apps.optional.knowledge.models import Collection, Passage, Source

    vectors.drop_others(())
    vectors.prepare(DIMENSIONS)
    table = vectors.table_of(settings.EMBEDDING_MODEL)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {table}_nearest")  # it is faster to make it of all
        for number in range(COLLECTIONS):
            made = Collection.objects.create(
                owner=owner, workspace=owner.personal_workspace, name=f"Knowledge {number}"
            )
            share = passages // COLLECTIONS
            source = Source.objects.create(collection=made, name="all", state="ready", passages_count=share)
            for start in range(0, share, AT_ONCE):
                count = min(AT_ONCE, share - start)
                rows = Passage.objects.bulk_create(_passages(source, start, count, texts))
                with cursor.copy(f"COPY {table} (passage_id, collection_id, embedding) FROM STDIN") as copy:
                    for row, vector in zip(rows, some(), strict=False):
                        copy.write_row((row.pk, made.pk, vectors.as_text(vector)))
        cursor.execute(f"CREATE INDEX {table}_nearest ON {table} USING hnsw (embedding halfvec_cosine_ops)")
        cursor.execute("VACUUM ANALYZE")


def _passages(source: Source, start: int, count: int, texts: Iterator[str]) -> list[Any]:
    from apps.conversations.search.indexing import words_of
    from apps.optional.knowledge.models import Passage

    found, group = [next(texts) for _ in range(count)], source.collection_id.hex
    return [
        Passage(
            source=source, collection_id=source.collection_id, index=start + at, text=text, words=words_of(text, group)
        )
        for at, text in enumerate(found)
    ]


def recall(vectors: Any, asked: list[list[float]], places: Any) -> float:
    """The share of the nearest that the index finds, too."""
    hits, usual = 0, vectors.EXACT_NUMBERS
    for one in asked:
        vectors.EXACT_NUMBERS = 10**12
        exact = {row.passage for row in vectors.nearest(one, places, RECALLED)}
        vectors.EXACT_NUMBERS = 0
        hits += len(exact & {row.passage for row in vectors.nearest(one, places, 50)[:RECALLED]})
    vectors.EXACT_NUMBERS = usual
    return hits / (len(asked) * RECALLED)


def _took(way: Callable[[int], Any], at: int) -> float:
    began = time.perf_counter()
    way(at)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(measured(*map(int, sys.argv[1:]))))
