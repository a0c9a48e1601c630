"""Finds passages: by words and by meaning, in the collections that the asker may search."""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Q, Sum

from apps.accounts.principals import Principal
from apps.conversations.search.indexing import group_mark
from apps.conversations.search.tokenizer import is_unspaced, words_in
from apps.installation import embeddings
from apps.installation.embeddings import EmbeddingFailed, Vector
from apps.optional.knowledge import sql, vectors
from apps.optional.knowledge.models import AgentCollection, Collection, Passage
from apps.optional.knowledge.sql import Scored
from apps.record.errors import InvalidParams
from parley import db

log = logging.getLogger("parley.knowledge")

MOST_FOUND = 20
MAX_QUERY_LENGTH = 2_000  # characters
MOST_WORDS = 24  # of a query
MOST_COLLECTIONS = 500  # in one search
SPARE = 3  # so many times as many are read as are asked for, since some have the same text
FUSION = 60  # how much a rank counts: the usual constant
MODEL_SECONDS = 2.0  # for the vector of a query
AWAY_SECONDS = 30.0
CANDIDATES = 50  # passages by words, and as many by meaning: the best of both are the answer


@dataclass(frozen=True, slots=True)
class Asking:
    """Who searches, and where.

    Attributes:
        principal: whose rights count, now.
        agent: the key of the agent that searches for them, which they may use: its collections. None: a person
            searches all that they may see.
        project: of the session: its collections, too. For a person: only those.
        collections: only these, if they are among the ones that may be searched.
    """

    principal: Principal
    agent: int | None = None
    project: uuid.UUID | None = None
    collections: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A passage that was found.

    Attributes:
        ref: its name in citations (`Passage.ref`).
        source: the source's name.
        score: from 0 to 1, comparable only within one answer.
    """

    ref: str
    text: str
    source: str
    collection: str
    heading: str = ""
    page: int | None = None
    score: float = 0.0

    @property
    def title(self) -> str:
        """As a citation names it, such as "handbook.pdf, page 3"."""
        return f"{self.source}, page {self.page}" if self.page else self.source

    @property
    def url(self) -> str:
        """Where it opens, in a browser."""
        return f"/knowledge/passages/{self.ref}"


async def search(asking: Asking, query: str, limit: int = 5) -> list[Found]:
    """The best passages, the best first. Without a model for embeddings: by words alone.

    Raises InvalidParams for an empty query, and for one that is too long.
    """
    words = _words_of(query)
    vector = await _vector_of(query)
    return await db.run(_find, asking, words, vector, max(1, min(limit, MOST_FOUND)))


_away_until = float("-inf")  # by `time.monotonic`: the model did not answer lately


async def _vector_of(query: str) -> Vector | None:
    """None without a model, or while it does not answer: then words decide, and the log says so."""
    global _away_until
    if not settings.EMBEDDING_MODEL or time.monotonic() < _away_until or not await db.run(vectors.are_kept):
        return None
    try:
        return await embeddings.vector_of_query(query, seconds=MODEL_SECONDS)
    except EmbeddingFailed as trouble:
        _away_until = time.monotonic() + AWAY_SECONDS
        log.warning("knowledge is searched by words alone for %g s: %s", AWAY_SECONDS, trouble)
        return None


def searchable(asking: Asking) -> dict[uuid.UUID, int]:
    """The collections that may be searched, and how many passages each has."""
    chosen = Collection.objects.filter(_reach(asking))
    if asking.collections:
        chosen = chosen.filter(pk__in=asking.collections)
    counted = chosen.annotate(passages=Sum("sources__passages_count")).filter(passages__gt=0)
    return dict(counted.order_by("-updated_at").values_list("pk", "passages")[:MOST_COLLECTIONS])


def has_places(agent: int, project: uuid.UUID | None) -> bool:
    """Whether anybody lets the agent search something in such a session, whoever asks. Cheap."""
    of_project = Collection.objects.filter(project=project) if project else Collection.objects.none()
    given = AgentCollection.objects.filter(agent=agent).values("pk").order_by()
    return given.exists() or of_project.exists()


def _reach(asking: Asking) -> Q:
    seen = Q(pk__in=Collection.objects.visible_to(asking.principal).values("pk"))
    in_project = Q(project=asking.project) if asking.project else None
    if asking.agent is None:
        return seen & in_project if in_project else seen
    given = AgentCollection.objects.filter(agent=asking.agent)
    own = Q(pk__in=given.values("collection"))
    reached = own | in_project if in_project else own
    return (seen & reached) | Q(pk__in=given.filter(is_for_callers=True).values("collection"))


def _words_of(query: str) -> list[str]:
    """The words of a query. Raises InvalidParams."""
    if len(query) > MAX_QUERY_LENGTH:
        raise InvalidParams(f"Ask something shorter: at most {MAX_QUERY_LENGTH} characters.", "query")
    words = list(dict.fromkeys(words_in(query)))
    # In a script without spaces, the last character of a text is a word of its own.
    whole = [word for word in words if len(word) > 1 or not is_unspaced(word)]
    if not words:
        raise InvalidParams("Say what to look for, in words.", "query")
    return (whole or words)[:MOST_WORDS]


def _find(asking: Asking, words: list[str], vector: Vector | None, limit: int) -> list[Found]:
    places = searchable(asking)
    if not places:
        return []
    lists = [_by_words(places, words)]
    if vector is not None:
        try:
            lists.append(vectors.nearest(vector, places, CANDIDATES))
        except DatabaseError as error:  # such as vectors of another length, until they are made again
            log.warning("knowledge is searched by words alone: %s", error)
    return _read(_fused(lists), places, limit)


def _fused(lists: list[list[Scored]]) -> list[Scored]:
    """Reciprocal rank fusion (Cormack et al. 2009): what both lists have high up comes first. Scores are up to 1."""
    if len(lists) == 1:
        best = max((one.score for one in lists[0]), default=0.0) or 1.0
        return [Scored(one.passage, one.score / best) for one in lists[0]]
    scores: dict[int, float] = defaultdict(float)
    for some in lists:
        for rank, one in enumerate(some):
            scores[one.passage] += (FUSION + 1) / (FUSION + 1 + rank) / len(lists)
    fused = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return [Scored(*one) for one in fused[:CANDIDATES]]


def _by_words(places: dict[uuid.UUID, int], words: list[str]) -> list[Scored]:
    if not sql.is_postgresql():
        return sql.by_words_in_sqlite(" OR ".join(f'"{word}"' for word in words), list(places), CANDIDATES)
    passages = sum(places.values())
    shares = sql.common_words(words) if passages > sql.RANKED else {}
    within = " | ".join(f"'{group_mark(key)}'" for key in places)
    candidates = f"({within}) & ({_candidates(words, shares, passages)})"
    return sql.by_words(candidates, [f"'{word}'" for word in words], passages, CANDIDATES)


def _candidates(words: Sequence[str], shares: dict[str, float], passages: int) -> str:
    """A tsquery of what is worth ranking: passages with a rare word, or with two that are rarely together.

    If all words are common everywhere, those with all of them.
    """
    expected: dict[tuple[str, ...], float] = {(word,): shares.get(word, 0.0) for word in words}
    expected |= {pair: prod(shares[word] for word in pair) for pair in combinations(shares, 2)}
    chosen: list[tuple[str, ...]] = []
    left = sql.RANKED / passages
    for clause, share in sorted(expected.items(), key=lambda one: (one[1], len(one[0]))):
        if share > left:
            break
        if not any((word,) in chosen for word in clause):
            left -= share
            chosen.append(clause)
    return " | ".join(f"({_all_of(clause)})" for clause in chosen) or _all_of(words)


def _all_of(words: Sequence[str]) -> str:
    return " & ".join(f"'{word}'" for word in words)


def _read(scored: list[Scored], places: dict[uuid.UUID, int], limit: int) -> list[Found]:
    """The passages of the best scores. The same text is given once."""
    rows = Passage.objects.filter(collection__in=places).select_related("source", "collection").defer("words")
    scored = scored[: limit * SPARE]
    passages = rows.in_bulk([one.passage for one in scored])
    found: dict[str, Found] = {}
    for passage, score in scored:
        if (row := passages.get(passage)) is not None and row.text not in found and len(found) < limit:
            found[row.text] = Found(
                row.ref, row.text, row.source.name, row.collection.name, row.heading, row.page, score
            )
    return list(found.values())
