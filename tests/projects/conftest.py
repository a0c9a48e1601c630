"""Ada's project with a file, and an agent that says what it was told of its project."""

import pytest

from apps.agents.registration import register_hosted
from apps.optional.projects import files
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save
from tests.members import member


@pytest.fixture
def trip(ada):
    return save(ada.principal, Project(name="Trip", instructions="Prices are in euros."))


@pytest.fixture
def budget(ada, trip):
    return files.add(ada.principal, trip, {"text": "At most 900 euros.", "filename": "budget.txt"})


@pytest.fixture
def teller(db):
    return register_hosted("teller", "tests.projects.agents:Teller")


@pytest.fixture
def colleague(ada, bob):
    """Bob, as a member of Ada's workspace who works in it."""
    return member(bob, ada)
