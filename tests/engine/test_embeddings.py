"""A configured embedding model adds similarity of meaning; if it fails, words decide."""

import asyncio
import json
import logging

import pytest

import db
from apps.agents.negotiation import WorkRequest
from apps.agents.registration import register_hosted
from apps.features.routing import embeddings, ranking
from tests.outbound.receiving import answer, server

pytestmark = pytest.mark.django_db(transaction=True)


def vector_of(text):
    """The test model's vector: two directions and a rest."""
    horse = any(word in text.lower() for word in ("horse", "pony", "echo"))
    number = any(word in text.lower() for word in ("count", "integer"))
    return [3.0 * horse, 2.0 * number, 0.1]


async def embed(request, writer):
    _, _, body = request.partition(b"\r\n\r\n")
    asked = json.loads(body)
    rows = [{"index": at, "embedding": vector_of(text)} for at, text in enumerate(asked["input"])]
    writer.write(answer(json.dumps({"data": rows[::-1]}).encode(), "200 OK", "Content-Type: application/json"))
    await writer.drain()


@pytest.fixture(autouse=True)
def model(settings):
    """Settings of a model; tests set the URL. `LLM_BASE_URL`'s host may be called."""
    settings.EMBEDDING_MODEL, settings.LLM_API_KEY, settings.EMBEDDING_SECONDS = "embedder", "a-secret", 2.0
    embeddings._kept = {}
    return settings


async def ranked(ada, text):
    found = await ranking.rank_agents(ada.principal, WorkRequest(text))
    return {one.agent.slug: one for one in found}


async def test_meaning_is_blended_with_words(ada, echo, countdown, model):
    async with server(embed) as service:
        model.LLM_BASE_URL = f"{service.url}v1"
        found = await ranked(ada, "a pony")
        assert list(found) == ["echo", "countdown"]
        [match] = found["echo"].matches
        assert match.score == pytest.approx(0.5, abs=0.01)  # half of the similarity; no shared words
        assert "means something like it (1.00)" in match.reasons
        assert found["countdown"].subscores.skill < 0.05
        request = service.requests[0]
        assert request.startswith(b"POST /v1/embeddings HTTP/1.1")
        assert b"authorization: bearer a-secret" in request.lower()
        assert json.loads(request.partition(b"\r\n\r\n")[2])["model"] == "embedder"


async def test_skills_are_embedded_once_and_anew_when_they_change(ada, echo, countdown, model):
    async with server(embed) as service:
        model.LLM_BASE_URL = service.url.rstrip("/")
        for text in ("a pony", "an integer"):
            await ranked(ada, text)
        inputs = [json.loads(one.partition(b"\r\n\r\n")[2])["input"] for one in service.requests]
        assert [len(one) for one in inputs] == [3, 1]
        await db.run(register_hosted, "third", "examples.agents.hello:Hello")
        await ranked(ada, "a pony")
        assert len(json.loads(service.requests[-1].partition(b"\r\n\r\n")[2])["input"]) == 2


async def slow(request, writer):
    await asyncio.sleep(30)


ROW = {"index": 0, "embedding": [1.0]}
TROUBLE = {
    "an error": answer(b"{}", "500 Internal Server Error"),
    "a redirect": answer(b"", "302 Found", "Location: http://127.0.0.1:1/"),
    "a tower of lists": answer(b"[" * 200_000),
    "too few": answer(json.dumps({"data": [ROW]}).encode()),
    "no direction": answer(json.dumps({"data": [ROW | {"embedding": [0.0]}] * 2}).encode()),
    "silence": slow,
}


async def test_trouble_with_the_model_is_logged_and_words_have_to_do(ada, echo, model, caplog):
    model.EMBEDDING_SECONDS = 0.3
    for trouble, answering in TROUBLE.items():
        caplog.clear()
        async with server(answering) as service:
            model.LLM_BASE_URL = service.url.rstrip("/")
            with caplog.at_level(logging.WARNING, "parley.engine"):
                found = await ranked(ada, "echo")
        assert found["echo"].subscores.skill > 0.4, trouble
        assert found["echo"].matches[0].likeness is None, trouble
        assert "compared by their words alone" in caplog.text, trouble
        assert "a-secret" not in caplog.text


async def test_without_a_model_nothing_is_called(ada, echo, model):
    model.EMBEDDING_MODEL = ""
    async with server(embed) as service:
        model.LLM_BASE_URL = service.url.rstrip("/")
        assert (await ranked(ada, "echo"))["echo"].matches[0].likeness is None
        assert service.requests == []


def test_vectors_of_different_lengths_are_not_alike():
    assert embeddings.cosine_similarity([1.0], [1.0, 0.0]) == 0.0
    assert embeddings.cosine_similarity([0.6, 0.8], [0.6, 0.8]) == pytest.approx(1.0)
    assert embeddings.cosine_similarity([1.0, 0.0], [-1.0, 0.0]) == 0.0
