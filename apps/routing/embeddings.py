"""Vectors of skills and of what agents are looked for, by the installation's model for embeddings, if one is set."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from django.conf import settings

from apps.installation import embeddings
from apps.installation.embeddings import EmbeddingFailed, Vector

log = logging.getLogger("parley.engine")

_kept: dict[tuple[str, str], Vector] = {}  # by model and text


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
        first, *others = await embeddings.vectors_of([asked, *missing], seconds=settings.EMBEDDING_SECONDS)
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
