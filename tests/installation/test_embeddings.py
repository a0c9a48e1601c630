"""The model for embeddings: at which endpoint it is, and what is said if it is not there."""

import pytest

from apps.installation import current, embeddings
from apps.installation.current import Endpoint, Snapshot
from parley import outbound
from tests.knowledge import embedder


@pytest.fixture
def service(settings):
    """An endpoint that is not the default connection."""
    outbound.configure(["127.0.0.1"])
    with embedder.serving() as made:
        default = Endpoint("Default", "default", "http://127.0.0.1:1/v1", "", "m", {})
        current.keep(Snapshot([default, Endpoint("Own", "own", made.url, "", "m", {})], read_at=float("inf")))
        yield made
    current.keep(Snapshot())
    outbound.configure(settings.OUTBOUND_ALLOW)


async def test_model_of_a_named_connection(service, settings, monkeypatch):
    settings.EMBEDDING_MODEL = "embedder@own"
    monkeypatch.setattr(embeddings, "BATCH_SIZE", 2)
    found = await embeddings.vectors_of(["one leave", "two", "three"], seconds=20)
    assert [round(sum(number**2 for number in one), 3) for one in found] == [1.0, 1.0, 1.0]
    assert (service.models, service.asked) == (["embedder"] * 2, ["one leave", "two", "three"])


@pytest.mark.parametrize("name", ["embedder@gone", "sentence-transformers:not-installed"])
async def test_missing_model_says_so(service, settings, name):
    settings.EMBEDDING_MODEL = name
    with pytest.raises(embeddings.EmbeddingFailed):
        await embeddings.vector_of_query("leave", seconds=20)
