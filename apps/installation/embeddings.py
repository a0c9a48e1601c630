"""Vectors of texts, by the installation's model for embeddings (`EMBEDDING_MODEL`), if one is set.

It is a model of the default connection, `MODEL@CONNECTION`, or one that runs here: `sentence-transformers:MODEL`, which
needs the extra `embeddings`.
"""

from __future__ import annotations

import asyncio
import math
import re
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

from agentkit.llm.models import import_in_thread
from apps.installation import current
from apps.installation.current import Endpoint
from parley import outbound
from parley.outbound import targets, transports

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel

Vector = Sequence[float]

BATCH_SIZE = 64  # texts of one call
MAX_TEXT_LENGTH = 8_000  # characters
LOCAL = "sentence-transformers:"


class EmbeddingFailed(Exception):
    """The call to the model failed; the text says why, for operators."""

    loggable = True


async def vector_of_query(text: str, *, seconds: float) -> Vector:
    """The vector of what somebody looks for. One try. Raises EmbeddingFailed."""
    [vector] = await _embed([text], "query", seconds, retries=0)
    return vector


async def vectors_of(texts: Sequence[str], *, seconds: float) -> list[Vector]:
    """The vectors of texts, of length 1. A busy endpoint is asked again within this time. Raises EmbeddingFailed."""
    return await _embed(texts, "document", seconds, retries=None)


async def _embed(texts: Sequence[str], kind: Any, seconds: float, *, retries: int | None) -> list[Vector]:
    found: list[Vector] = []
    await _import_library()
    try:
        async with asyncio.timeout(seconds), _model(settings.EMBEDDING_MODEL, retries) as model:
            for start in range(0, len(texts), BATCH_SIZE):
                some = [text[:MAX_TEXT_LENGTH] for text in texts[start : start + BATCH_SIZE]]
                answer = await model.embed(some, input_type=kind)
                found += map(_normalized, answer.embeddings)
    except EmbeddingFailed:
        raise
    except TimeoutError:
        raise EmbeddingFailed(f"{settings.EMBEDDING_MODEL} did not answer within {seconds:g} s.") from None
    except Exception as error:  # the libraries raise all kinds, also for answers that are no list of embeddings
        raise EmbeddingFailed(f"{settings.EMBEDDING_MODEL}: {type(error).__name__}: {error}"[:500]) from error
    if len(found) != len(texts):
        raise EmbeddingFailed(f"The model gave {len(found)} vectors for {len(texts)} texts.")
    return found


async def _import_library() -> None:
    """Once a process, in a thread, and not in the caller's time. Raises EmbeddingFailed."""
    if settings.EMBEDDING_MODEL.startswith(LOCAL):
        try:
            await import_in_thread("pydantic_ai.embeddings.sentence_transformers")
        except ImportError:
            raise EmbeddingFailed(
                "Models that run here need the extra: pip install 'parley-platform[embeddings]'"
            ) from None
    else:
        await import_in_thread("agentkit.llm.endpoints")
        await import_in_thread("pydantic_ai.embeddings.openai")


@asynccontextmanager
async def _model(name: str, retries: int | None) -> AsyncIterator[EmbeddingModel]:
    if name.startswith(LOCAL):
        yield _local_model(name.removeprefix(LOCAL))
        return
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from agentkit.llm.endpoints import openai_client

    endpoint, model = await _endpoint(name)
    also = [] if endpoint.slug else targets.allowed_hosts(endpoint.base_url)
    client = transports.client(outbound.exchange(outbound.Limits(seconds=None), also=also))
    async with openai_client(endpoint.base_url, endpoint.api_key, http_client=client) as way:
        asked = way if retries is None else way.with_options(max_retries=retries)
        yield OpenAIEmbeddingModel(model, provider=OpenAIProvider(openai_client=asked))


@cache
def _local_model(name: str) -> EmbeddingModel:
    from pydantic_ai.embeddings.sentence_transformers import SentenceTransformerEmbeddingModel

    return SentenceTransformerEmbeddingModel(name)


async def _endpoint(name: str) -> tuple[Endpoint, str]:
    """Raises EmbeddingFailed."""
    known = await current.latest()
    if named := re.fullmatch(current.NAMED, name):
        if (endpoint := known.endpoint(named["connection"])) is None:
            raise EmbeddingFailed(f"There is no model connection {named['connection']}, which EMBEDDING_MODEL names.")
        return endpoint, named["model"]
    return known.default, name


def _normalized(numbers: Sequence[float]) -> Vector:
    """Raises ValueError for the zero vector and infinite ones."""
    length = math.hypot(*numbers)
    if not length or not math.isfinite(length):
        raise ValueError("a vector has no direction")
    return array("f", [number / length for number in numbers])
