from tests.remote.conftest import cards_at, outward  # noqa: F401 fixtures
