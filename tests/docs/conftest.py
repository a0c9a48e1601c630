import os
from functools import cache

import pytest

from apps.model_agents import language_models
from tests import stack
from tests.docs.pages import PAGES, page_at
from tests.docs.reading import reader_in
from tests.type_checking import type_checking

TRUSTED = {"SSL_CERT_DIR": "", "UV_NATIVE_TLS": "1"}  # of the system, for what installs packages


@pytest.fixture(autouse=True)
def _models_are_the_platforms_again():
    """A page may act as another host."""
    yield
    language_models.configure()


@pytest.fixture(scope="session")
def pages():
    return [page_at(path) for path in PAGES]


@pytest.fixture(scope="session")
def type_checked():
    return type_checking(stack.ROOT / ".mypy_cache" / "of-authors")


@pytest.fixture(scope="session")
def reader(tmp_path_factory, pages):
    """A reader with all pages' files; starts a Parley at the first command."""
    folder = tmp_path_factory.mktemp("home") / "agents"
    running: list[stack.Stack] = []

    @cache
    def server() -> stack.Stack:
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        running.append(stack.Stack(PYTHONPATH=path, OUTBOUND_ALLOW="127.0.0.1", **TRUSTED))
        running[0].start()
        return running[0]

    with reader_in(folder, server) as reader:
        for page in pages:
            reader.write_files(page)
        yield reader
    for one in running:
        one.close()
