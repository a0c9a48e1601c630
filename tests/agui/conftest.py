from tests.doors.conftest import ada_key, bob_key, modeled, speaking  # noqa: F401 fixtures
