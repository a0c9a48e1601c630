"""Ada's collection, an agent that it can be given to, and texts in it."""

import pytest

from apps.agents.models import Agent
from apps.optional.knowledge import indexing
from apps.optional.knowledge.models import Collection, Source
from apps.optional.knowledge.passages import Piece


@pytest.fixture
def handbook(ada):
    return Collection.objects.create(owner=ada, workspace=ada.personal_workspace, name="Handbook")


@pytest.fixture
def helper(echo) -> Agent:
    return echo


def put(collection, name, *texts, **fields):
    """A source of the collection with these passages."""
    source = Source.objects.create(collection=collection, kind="file", name=name)
    pieces = [one if isinstance(one, Piece) else Piece(one) for one in texts]
    indexing.replace_passages(source, pieces, state=Source.State.READY, **fields)
    return source
