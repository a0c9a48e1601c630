"""Embeddings of texts, by a model behind an OpenAI-compatible `/embeddings`, if one is set."""

from __future__ import annotations

import json
import logging
import math
from array import array
from collections.abc import Sequence
from itertools import batched
from typing import Any

from django.conf import settings

from apps.installation import current
from apps.installation.current import Endpoint
from parley import outbound
from parley.outbound.targets import allowed_hosts

log = logging.getLogger("parley.engine")

Vector = Sequence[float]

OPENAI = "https://api.openai.com/v1"
BATCH_SIZE = 100  # texts of one call
MAX_TEXT_LENGTH = 8_000  # characters

_kept: dict[tuple[str, str], Vector] = {}  # by model and text


class EmbeddingFailed(Exception):
    """The call to the model failed; the text says why, for operators."""

    loggable = True


async def vectors_of(asked: str, texts: Sequence[str]) -> tuple[Vector, list[Vector]] | None:
    """The vector of a search text, and those of all skills, which are cached; None without a model.

    A failure is logged and also gives None.
    """
    global _kept
    if not settings.EMBEDDING_MODEL:
        return None
    model, kept = settings.EMBEDDING_MODEL, _kept
    missing = [text for text in dict.fromkeys(texts) if (model, text) not in kept]
    try:
        first, *others = await _embed([asked, *missing])
    except EmbeddingFailed as trouble:
        log.warning("skills are compared by their words alone: %s", trouble)
        return None
    known = kept | {(model, text): vector for text, vector in zip(missing, others, strict=True)}
    _kept = {(model, text): known[model, text] for text in texts}
    return first, [known[model, text] for text in texts]


def cosine_similarity(one: Vector, other: Vector) -> float:
    """The similarity of two meanings from 0 to 1: the cosine, and 0 if it is negative.

    Vectors of different lengths have similarity 0: the model of that name may have been exchanged.
    """
    return max(0.0, min(1.0, math.sumprod(one, other))) if len(one) == len(other) else 0.0


async def _embed(texts: Sequence[str]) -> list[Vector]:
    """By the default model connection. Raises EmbeddingFailed."""
    limits = outbound.Limits(seconds=settings.EMBEDDING_SECONDS)
    endpoint = (await current.latest()).default
    also = [] if endpoint.slug else allowed_hosts(endpoint.base_url)
    try:
        async with outbound.exchange(limits, also=also) as way:
            batches = batched(texts, BATCH_SIZE)
            return [vector for batch in batches for vector in await _ask(way, endpoint, batch)]
    except outbound.OutboundError as error:
        raise EmbeddingFailed(str(error)) from error


async def _ask(way: outbound.Exchange, endpoint: Endpoint, texts: Sequence[str]) -> list[Vector]:
    body = {"model": settings.EMBEDDING_MODEL, "input": [text[:MAX_TEXT_LENGTH] for text in texts]}
    headers = {"Content-Type": "application/json"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    url = f"{endpoint.base_url or OPENAI}/embeddings"
    async with way.send("POST", url, headers, json.dumps(body).encode()) as answer:
        content = await answer.read()
    if answer.status != 200:
        raise EmbeddingFailed(f"{url} answered with the status {answer.status}.")
    return _read(content, len(texts))


def _read(content: bytes, expected: int) -> list[Vector]:
    try:
        rows: list[Any] = sorted(json.loads(content)["data"], key=lambda row: row["index"])
        vectors = [_normalized(row["embedding"]) for row in rows]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise EmbeddingFailed("The model's answer has no list of embeddings.") from error
    if len(vectors) != expected:
        raise EmbeddingFailed(f"The model gave {len(vectors)} vectors for {expected} texts.")
    return vectors


def _normalized(numbers: Sequence[float]) -> Vector:
    """Raises ValueError for the zero vector and infinite ones."""
    length = math.hypot(*numbers)
    if not length or not math.isfinite(length):
        raise ValueError("no direction")
    return array("f", [number / length for number in numbers])
